// springs_cost_gradient: terms of the gradient, and the cost
//
// form        store with the cost, f32, 128 invocations a workgroup
// instance    6 parameters, 1 data, 0 uniforms -> 7 outputs
// operations  26: 2 add, 4 sub, 5 mul, 1 div, 3 neg, 4 square, 1 zmul, 1 sqrt, 1 eq, 1 gt, 3 select
// bytes       36 an instance
#version 450

layout(local_size_x = 128) in;

layout(push_constant) uniform PushConstants {
  uint count;        // end of the rows of this dispatch
  uint first;        // row of invocation 0
  uint stride;       // between columns
  uint out_stride;   // between outputs, seeds, terms
  uint out_first;    // position of the first result
  uint x_first;      // position of owner 0 in x
  uint overwrite;    // 1: store sums, 0: add them
  uint zero_bits;    // 0, which compilers do not know
  uint costs_first;  // position of workgroup 0's part of the cost
  uint rows_stride;  // between rows
};

layout(std430, binding = 0) restrict readonly buffer XBuffer { float x[]; };
layout(std430, binding = 1) restrict readonly buffer IndexColumnsBuffer { uint index_columns[]; };
layout(std430, binding = 2) restrict readonly buffer DataColumnsBuffer { float data_columns[]; };
layout(std430, binding = 3) restrict writeonly buffer ResultsBuffer { float results[]; };
layout(std430, binding = 4) restrict writeonly buffer CostsBuffer { float costs[]; };

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
  vec2 cost = vec2(0.0);
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
    precise float t12 = b9 ? t11 : 0.0;
    precise float t13 = 0.5 / t8;
    precise float t14 = t12 == float(0.0) ? float(0.0) : t12 * t13;
    bool b15 = t8 == 0.0;
    precise float t16 = b15 ? 0.0 : t14;
    precise float t17 = t16 * 2.0;
    precise float t18 = t0 * t17;
    precise float t19 = t2 * t17;
    precise float t20 = t5 * t17;
    precise float t21 = -t18;
    precise float t22 = -t19;
    precise float t23 = -t20;
    precise float t24 = t11 * t11;
    precise float t25 = 0.5 * t24;

    results[out_first + i] = t18;
    results[out_first + out_stride + i] = t19;
    results[out_first + 2u * out_stride + i] = t20;
    results[out_first + 3u * out_stride + i] = t21;
    results[out_first + 4u * out_stride + i] = t22;
    results[out_first + 5u * out_stride + i] = t23;
    cost = compensated_add(cost, vec2(t25, 0.0));
  }

  float total = workgroup_sum(cost);
  if (gl_LocalInvocationIndex == 0u) costs[costs_first + gl_WorkGroupID.x] = total;
}
