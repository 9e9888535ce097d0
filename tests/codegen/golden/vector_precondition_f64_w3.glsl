// vector_precondition_f64_w3: vectors f64, scalars f64, blocks of 3
#version 450

layout(local_size_x = 128) in;

layout(push_constant) uniform PushConstants {
  uint count;
  uint first;
  uint blocks_first;
  uint masked;
};

layout(std430, binding = 0) restrict readonly buffer ScalarsBuffer { double scalars[]; };
layout(std430, binding = 1) restrict readonly buffer FixedScalarsBuffer { uint fixed_scalars[]; };
layout(std430, binding = 2) restrict readonly buffer ScaleBuffer { double scale[]; };
layout(std430, binding = 3) restrict writeonly buffer DampingBuffer { double damping[]; };
layout(std430, binding = 4) restrict readonly buffer BlocksBuffer { double blocks[]; };
layout(std430, binding = 5) restrict writeonly buffer InverseBlocksBuffer { double inverse_blocks[]; };

// True for both infinities, decided on the bits.
bool tg_is_inf_f64(double x) {
  uvec2 bits = unpackDouble2x32(x);
  return (bits.y & 0x7fffffffu) == 0x7ff00000u && bits.x == 0u;
}

// True for NaN, decided on the bits.
bool tg_is_nan_f64(double x) {
  uvec2 bits = unpackDouble2x32(x);
  uint magnitude = bits.y & 0x7fffffffu;
  return magnitude > 0x7ff00000u || (magnitude == 0x7ff00000u && bits.x != 0u);
}

// Lower triangle of the inverse of the Cholesky factor of a block (of which the upper triangle is read);
// false, and the inverse roots of the diagonal, where the block is not positive definite.
bool inverse_factor(double block[3u * 3u], out double factor[3u * 3u]) {
  bool positive = true;
  for (uint j = 0u; j < 3u; ++j) {
    for (uint i = j; i < 3u; ++i) {
      precise double value = block[j * 3u + i];
      for (uint k = 0u; k < j; ++k) value -= block[i * 3u + k] * block[j * 3u + k];
      if (i == j) {
        positive = positive && value > double(0) && !(tg_is_nan_f64(value) || tg_is_inf_f64(value));
        precise double root = sqrt(value);
        factor[j * 3u + j] = root;
      } else {
        precise double entry = value / factor[j * 3u + j];
        block[i * 3u + j] = entry;
      }
    }
  }
  for (uint j = 0u; j < 3u; ++j) {
    if (!positive) {
      double diagonal = block[j * 3u + j];
      precise double root = diagonal > double(0) ? double(1) / sqrt(diagonal) : double(1);
      for (uint i = 0u; i < 3u; ++i) factor[i * 3u + j] = i == j ? root : double(0);
      continue;
    }
    precise double pivot = double(1) / factor[j * 3u + j];
    factor[j * 3u + j] = pivot;
    for (uint i = j + 1u; i < 3u; ++i) {
      precise double sum = double(0);
      for (uint k = j; k < i; ++k) sum -= block[i * 3u + k] * factor[k * 3u + j];
      precise double entry = sum / factor[i * 3u + i];
      factor[i * 3u + j] = entry;
    }
  }
  return positive;
}

const uint MIN_DIAGONAL = 5u;
const uint MAX_DIAGONAL = 6u;
const uint LAMBDA = 4u;

void main() {
  uint grid = gl_NumWorkGroups.x * 128u;
  for (uint b = gl_GlobalInvocationID.x; b < count; b += grid) {
    double block[3u * 3u];
    uint k = first + b * 3u;
    uint p = blocks_first + b * 6u;
    for (uint i = 0u; i < 3u; ++i) {
      for (uint j = i; j < 3u; ++j) {
        precise double value = double(blocks[p++]);
        if (i == j) {
          precise double squared = double(scale[k + i]) * double(scale[k + i]);
          precise double clamped = clamp(squared * value, scalars[MIN_DIAGONAL], scalars[MAX_DIAGONAL]);
          precise double added = scalars[LAMBDA] * clamped / squared;
          if (squared == double(0)) added = scalars[LAMBDA] * (value > double(0) ? value : double(1));
          if (masked != 0u && fixed_scalars[k + i] != 0u) added = double(0);
          damping[k + i] = double(added);
          value = value + added;
          if (masked != 0u && fixed_scalars[k + i] != 0u) value = double(1);
        } else if (masked != 0u && (fixed_scalars[k + i] != 0u || fixed_scalars[k + j] != 0u)) {
          value = double(0);
        }
        block[i * 3u + j] = value;
      }
    }
    double factor[3u * 3u];
    inverse_factor(block, factor);
    p = blocks_first + b;
    for (uint i = 0u; i < 3u; ++i) {
      for (uint j = i; j < 3u; ++j) {
        precise double sum = double(0);
        for (uint k = j; k < 3u; ++k) sum += factor[k * 3u + i] * factor[k * 3u + j];
        inverse_blocks[p] = double(sum);
        p += count;
      }
    }
  }
}
