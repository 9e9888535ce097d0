// springs_values: gradient, cost and rows
//
// form        gather with the cost and 1 rows, f32, 128 invocations a workgroup and an item
// owners      3 scalars, 3 sums, 2 roles
// role        6 parameters, 1 data, 0 uniforms -> 5 outputs
// role        6 parameters, 1 data, 0 uniforms -> 3 outputs
// operations  47: 4 add, 8 sub, 9 mul, 2 div, 3 neg, 7 square, 2 zmul, 2 sqrt, 2 eq, 2 gt, 6 select
// bytes       24 an instance
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
layout(std430, binding = 3) restrict readonly buffer StartsBuffer { uint starts[]; };
layout(std430, binding = 4) restrict readonly buffer OwnersBuffer { uint owners[]; };
layout(std430, binding = 5) restrict readonly buffer OutputsBuffer { uint outputs[]; };
layout(std430, binding = 6) restrict readonly buffer EntriesBuffer { uint entries[]; };
layout(std430, binding = 7) restrict buffer ResultsBuffer { float results[]; };
layout(std430, binding = 8) restrict writeonly buffer CostsBuffer { double costs[]; };
layout(std430, binding = 9) restrict writeonly buffer RowsBuffer { float rows[]; };

shared float item_sums[384];

shared double partial_sums[128];

// Sum over the workgroup by a tree of fixed order; valid in invocation 0.
double workgroup_sum(double value) {
  uint self = gl_LocalInvocationIndex;
  barrier();
  partial_sums[self] = value;
  for (uint width = 64u; width > 0u; width >>= 1u) {
    barrier();
    if (self < width) {
      precise double sum = partial_sums[self] + partial_sums[self + width];
      partial_sums[self] = sum;
    }
  }
  return partial_sums[self];
}

void main() {
  precise double cost = 0.0lf;
  uint w = gl_WorkGroupID.x + first;
  if (w >= count) return;
  uint own = x_first + owners[w] * 3u;
  float own_0 = x[own];
  float own_1 = x[own + 1u];
  float own_2 = x[own + 2u];
  precise float sum_0 = 0.0;
  precise float sum_1 = 0.0;
  precise float sum_2 = 0.0;

  // Role 0: own_0, own_1, own_2 are x_a, y_a, z_a.
  uint end_0 = starts[w * 2u + 1u];
  for (uint e = starts[w * 2u] + gl_LocalInvocationIndex; e < end_0; e += 128u) {
    uint i = entries[e];
    uint c0 = index_columns[e];
    float x_b = x[c0];
    float y_b = x[c0 + 1u];
    float z_b = x[c0 + 2u];
    float rest_length = data_columns[e];

    precise float t0 = own_0 - x_b;
    precise float t1 = t0 * t0;
    precise float t2 = own_1 - y_b;
    precise float t3 = t2 * t2;
    precise float t4 = t1 + t3;
    precise float t5 = own_2 - z_b;
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
    precise float t21 = t11 * t11;
    precise float t22 = 0.5 * t21;
    sum_0 += t18;
    sum_1 += t19;
    sum_2 += t20;
    cost += double(t22);
    rows[i] = t11;
  }

  // Role 1: own_0, own_1, own_2 are x_b, y_b, z_b.
  uint end_1 = starts[w * 2u + 2u];
  for (uint e = starts[w * 2u + 1u] + gl_LocalInvocationIndex; e < end_1; e += 128u) {
    uint c0 = index_columns[e];
    float x_a = x[c0];
    float y_a = x[c0 + 1u];
    float z_a = x[c0 + 2u];
    float rest_length = data_columns[e];

    precise float t0 = x_a - own_0;
    precise float t1 = t0 * t0;
    precise float t2 = y_a - own_1;
    precise float t3 = t2 * t2;
    precise float t4 = t1 + t3;
    precise float t5 = z_a - own_2;
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
    precise float t19 = -t18;
    precise float t20 = t2 * t17;
    precise float t21 = -t20;
    precise float t22 = t5 * t17;
    precise float t23 = -t22;
    sum_0 += t19;
    sum_1 += t21;
    sum_2 += t23;
  }

  uint o = out_first + outputs[w] * 3u;
  uint self = gl_LocalInvocationIndex;

  item_sums[self] = sum_0;
  item_sums[self + 128u] = sum_1;
  item_sums[self + 256u] = sum_2;
  barrier();
  if (self < 24u) {
    uint base = self / 8u * 128u + self % 8u;
    precise float part = item_sums[base];
    for (uint k = 8u; k < 128u; k += 8u) part += item_sums[base + k];
    item_sums[base] = part;
  }
  barrier();
  if (self < 3u) {
    precise float total = item_sums[self * 128u];
    for (uint k = 1u; k < 8u; ++k) total += item_sums[self * 128u + k];
    if (overwrite == 0u) total = results[o + self] + total;
    results[o + self] = total;
  }

  double total = workgroup_sum(cost);
  if (gl_LocalInvocationIndex == 0u) costs[costs_first + gl_WorkGroupID.x] = total;
}
