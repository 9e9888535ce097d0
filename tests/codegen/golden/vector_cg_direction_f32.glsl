// vector_cg_direction_f32: vectors f32, scalars f32, blocks of 1
#version 450

layout(local_size_x = 128) in;

layout(push_constant) uniform PushConstants {
  uint count;
  uint first;
  uint sums_first;
  uint sums_count;
  uint sums_stride;
};

layout(std430, binding = 0) restrict buffer DirectionBuffer { float direction[]; };
layout(std430, binding = 1) restrict readonly buffer ScalarsBuffer { float scalars[]; };
layout(std430, binding = 2) restrict readonly buffer PartialsBuffer { float partials[]; };
layout(std430, binding = 3) restrict readonly buffer PreconditionedBuffer { float preconditioned[]; };
layout(std430, binding = 4) restrict writeonly buffer DecisionBuffer { float decision[]; };

// True for both infinities, decided on the bits.
bool tg_is_inf_f32(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }

// True for NaN, decided on the bits.
bool tg_is_nan_f32(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

const uint NEXT_STATE = 24u;
const uint ITERATIONS = 11u;
const uint THRESHOLD = 15u;
const uint MAX_ITERATIONS = 8u;
const uint PREVIOUS_RZ = 25u;
const uint STATE = 0u;
const uint RZ = 13u;
const uint RR = 14u;

// A sum and the rounding error that it has gathered. Source: Knuth, TAOCP 2, 4.2.2, theorem B.
vec2 compensated_add(vec2 a, vec2 b) {
  precise float sum = a.x + b.x;
  precise float shift = sum - a.x;
  precise float rest = sum - shift;
  precise float left = a.x - rest;
  precise float right = b.x - shift;
  precise float rounding = left + right;
  precise float errors = a.y + b.y;
  precise float error = errors + rounding;
  return vec2(sum, error);
}

shared vec2 partial_totals[256];

// Sums over the workgroup by trees of fixed order, in every invocation.
void workgroup_totals(inout vec2 total_0, inout vec2 total_1) {
  uint self = gl_LocalInvocationIndex;
  barrier();
  partial_totals[self] = total_0;
  partial_totals[self + 128u] = total_1;
  for (uint width = 64u; width > 0u; width >>= 1u) {
    barrier();
    if (self < 2u * width) {
      uint at = self < width ? self : self - width + 128u;
      vec2 sum = compensated_add(partial_totals[at], partial_totals[at + width]);
      partial_totals[at] = sum;
    }
  }
  barrier();
  total_0 = partial_totals[0u];
  total_1 = partial_totals[128u];
}

float pair_float(vec2 sum) {
  precise float value = sum.x + sum.y;
  return tg_is_nan_f32(value) ? sum.x : value;  // the error of an infinite sum is no number
}

const uint IN_ENERGY = 9u;

void main() {
  float state = scalars[NEXT_STATE];
  if (state != 0.0 && gl_GlobalInvocationID.x == 0u) decision[STATE] = state;
  if (state != 0.0) return;
  vec2 rz_pair = vec2(0.0);
  vec2 rr_pair = vec2(0.0);
  if (gl_LocalInvocationIndex < sums_count) {
    rz_pair = vec2(partials[sums_first + gl_LocalInvocationIndex], 0.0);
    rr_pair = vec2(partials[sums_first + sums_stride + gl_LocalInvocationIndex], 0.0);
  }
  for (uint k = gl_LocalInvocationIndex + 128u; k < sums_count; k += 128u) {
    rz_pair = compensated_add(rz_pair, vec2(partials[sums_first + k], 0.0));
    rr_pair = compensated_add(rr_pair, vec2(partials[sums_first + sums_stride + k], 0.0));
  }
  workgroup_totals(rz_pair, rr_pair);
  precise float rz = pair_float(rz_pair);
  precise float rr = pair_float(rr_pair);
  float iterations = scalars[ITERATIONS];
  precise float left = scalars[IN_ENERGY] != float(0) ? rz : rr;
  if (left <= scalars[THRESHOLD]) {
    state = 1.0;
  } else if (!(rz > float(0)) || tg_is_inf_f32(rz) || tg_is_nan_f32(rr)) {
    state = 2.0;
  } else if (iterations >= scalars[MAX_ITERATIONS]) {
    state = 3.0;
  }
  if (gl_GlobalInvocationID.x == 0u) {
    decision[STATE] = state;
    decision[RZ] = rz;
    decision[RR] = rr;
  }
  if (state != 0.0) return;
  precise float quotient = rz / scalars[PREVIOUS_RZ];
  precise float beta = iterations == float(0) ? float(0) : quotient;
  uint grid = gl_NumWorkGroups.x * 128u;
  for (uint i = gl_GlobalInvocationID.x; i < count; i += grid) {
    uint k = first + i;
    precise float p = preconditioned[k] + float(beta) * direction[k];
    direction[k] = p;
  }
}
