// vector_cg_beta_f32: vectors f32, scalars f32, blocks of 1
#version 450

layout(local_size_x = 128) in;

layout(push_constant) uniform PushConstants {
  uint count;         // elements, blocks or partials
  uint first;         // position of element 0 in vectors
  uint out_first;     // position of the first partial
  uint out_stride;    // between sums of a workgroup
  uint blocks_first;  // position of block 0
  uint slot_a;        // place in scalars
  uint slot_b;        // place in scalars
  uint overwrite;     // 1: store sums, 0: add them
};

layout(std430, binding = 0) restrict buffer ScalarsBuffer { float scalars[]; };
layout(std430, binding = 1) restrict readonly buffer PartialsBuffer { float partials[]; };

// True for both infinities, decided on the bits.
bool tg_is_inf_f32(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }

// True for NaN, decided on the bits.
bool tg_is_nan_f32(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

const uint STATE = 0u;
const uint MAX_ITERATIONS = 8u;
const uint ITERATIONS = 9u;
const uint RZ = 10u;
const uint RR = 11u;
const uint THRESHOLD = 12u;
const uint BETA = 15u;

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

shared vec2 partial_sums[128];

// Sum over the workgroup by a tree of fixed order; valid in invocation 0.
float workgroup_sum(vec2 value) {
  uint self = gl_LocalInvocationIndex;
  barrier();
  partial_sums[self] = value;
  for (uint width = 64u; width > 0u; width >>= 1u) {
    barrier();
    if (self < width) {
      partial_sums[self] = compensated_add(partial_sums[self], partial_sums[self + width]);
    }
  }
  vec2 total = partial_sums[self];
  precise float sum = total.x + total.y;
  return tg_is_nan_f32(sum) ? total.x : sum;  // the error of an infinite sum is no number
}

void main() {
  if (scalars[0] != 0.0) return;  // the solver is done
  vec2 rz_sum = vec2(0.0);
  for (uint k = gl_LocalInvocationIndex; k < count; k += 128u) {
    rz_sum = compensated_add(rz_sum, vec2(partials[out_first + k], 0.0));
  }
  float rz = workgroup_sum(rz_sum);
  vec2 rr_sum = vec2(0.0);
  for (uint k = gl_LocalInvocationIndex; k < count; k += 128u) {
    rr_sum = compensated_add(rr_sum, vec2(partials[out_first + out_stride + k], 0.0));
  }
  float rr = workgroup_sum(rr_sum);
  if (gl_LocalInvocationIndex != 0u) return;
  precise float beta = rz / scalars[RZ];
  precise float iterations = scalars[ITERATIONS] + float(1);
  scalars[BETA] = beta;
  scalars[RZ] = rz;
  scalars[RR] = rr;
  scalars[ITERATIONS] = iterations;
  if (rr <= scalars[THRESHOLD]) {
    scalars[STATE] = 1.0;
  } else if (!(rz > float(0)) || tg_is_nan_f32(rz) || tg_is_inf_f32(rz)) {
    scalars[STATE] = 2.0;
  } else if (iterations >= scalars[MAX_ITERATIONS]) {
    scalars[STATE] = 3.0;
  }
}
