// springs_cost: half of the squared residual
//
// form        reduce, summed in compensated f32, f32, 128 invocations a workgroup
// instance    6 parameters, 1 data, 0 uniforms -> 1 output
// operations  14: 2 add, 4 sub, 1 mul, 4 square, 1 sqrt, 1 gt, 1 select
// bytes       12 an instance
#version 450

layout(local_size_x = 128) in;

layout(push_constant) uniform PushConstants {
  uint count;       // end of the rows of this dispatch
  uint first;       // row of invocation 0
  uint stride;      // between columns
  uint out_stride;  // between outputs, seeds, terms
  uint out_first;   // position of the first result
  uint x_first;     // position of owner 0 in x
  uint overwrite;   // 1: store sums, 0: add them
  uint zero_bits;   // 0, which compilers do not know
};

layout(std430, binding = 0) restrict readonly buffer XBuffer { float x[]; };
layout(std430, binding = 1) restrict readonly buffer IndexColumnsBuffer { uint index_columns[]; };
layout(std430, binding = 2) restrict readonly buffer DataColumnsBuffer { float data_columns[]; };
layout(std430, binding = 3) restrict writeonly buffer ResultsBuffer { float results[]; };

// True for NaN, decided on the bits.
bool tg_is_nan_f32(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

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

shared vec2 partial_pairs[128];

// Sum over the workgroup by a tree of fixed order; valid in invocation 0.
vec2 workgroup_pair(vec2 value) {
  uint self = gl_LocalInvocationIndex;
  barrier();
  partial_pairs[self] = value;
  for (uint width = 64u; width > 0u; width >>= 1u) {
    barrier();
    if (self < width) {
      partial_pairs[self] = compensated_add(partial_pairs[self], partial_pairs[self + width]);
    }
  }
  return partial_pairs[self];
}

float pair_float(vec2 sum) {
  precise float value = sum.x + sum.y;
  return tg_is_nan_f32(value) ? sum.x : value;  // the error of an infinite sum is no number
}

float workgroup_sum(vec2 value) { return pair_float(workgroup_pair(value)); }

void main() {
  vec2 sum = vec2(0.0);
  uint grid = gl_NumWorkGroups.x * 128u;
  for (uint i = gl_GlobalInvocationID.x + first; i < count; i += grid) {
    uint c0 = index_columns[i];
    uint c1 = index_columns[stride + i];
    float x_a = x[c0];
    float y_a = x[c0 + 1u];
    float z_a = x[c0 + 2u];
    float x_b = x[c1];
    float y_b = x[c1 + 1u];
    float z_b = x[c1 + 2u];
    float rest_length = data_columns[i];

    precise float t0 = x_a - x_b;
    precise float t1 = t0 * t0;
    precise float t2 = y_a - y_b;
    precise float t3 = t2 * t2;
    precise float t4 = t1 + t3;
    precise float t5 = z_a - z_b;
    precise float t6 = t5 * t5;
    precise float t7 = t4 + t6;
    precise float t8 = sqrt(t7);
    bool b9 = t7 > 0.0;
    precise float t10 = b9 ? t8 : 0.0;
    precise float t11 = t10 - rest_length;
    precise float t12 = t11 * t11;
    precise float t13 = t12 * 0.5;
    sum = compensated_add(sum, vec2(t13, 0.0));
  }

  float total = workgroup_sum(sum);
  if (gl_LocalInvocationIndex == 0u) results[out_first + gl_WorkGroupID.x] = total;
}
