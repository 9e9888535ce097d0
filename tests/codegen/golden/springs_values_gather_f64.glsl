// springs_values: gradient, cost and rows
//
// form        gather with the cost and 1 rows, f64, 128 invocations a workgroup
// owners      3 scalars, 3 sums, 2 roles
// role        6 parameters, 1 data, 0 uniforms -> 5 outputs
// role        6 parameters, 1 data, 0 uniforms -> 3 outputs
// operations  47: 4 add, 8 sub, 9 mul, 2 div, 3 neg, 7 square, 2 zmul, 2 sqrt, 2 eq, 2 gt, 6 select
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

layout(std430, binding = 0) restrict readonly buffer XBuffer { double x[]; };
layout(std430, binding = 1) restrict readonly buffer IndexColumnsBuffer { uint index_columns[]; };
layout(std430, binding = 2) restrict readonly buffer DataColumnsBuffer { double data_columns[]; };
layout(std430, binding = 3) restrict readonly buffer StartsBuffer { uint starts[]; };
layout(std430, binding = 4) restrict readonly buffer OwnersBuffer { uint owners[]; };
layout(std430, binding = 5) restrict readonly buffer OutputsBuffer { uint outputs[]; };
layout(std430, binding = 6) restrict readonly buffer EntriesBuffer { uint entries[]; };
layout(std430, binding = 7) restrict buffer ResultsBuffer { double results[]; };
layout(std430, binding = 8) restrict writeonly buffer CostsBuffer { double costs[]; };
layout(std430, binding = 9) restrict writeonly buffer RowsBuffer { double rows[]; };

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
  uint grid = gl_NumWorkGroups.x * 128u;
  for (uint w = gl_GlobalInvocationID.x + first; w < count; w += grid) {
    uint own = x_first + owners[w] * 3u;
    double own_0 = x[own];
    double own_1 = x[own + 1u];
    double own_2 = x[own + 2u];
    precise double sum_0 = 0.0lf;
    precise double sum_1 = 0.0lf;
    precise double sum_2 = 0.0lf;

    // Role 0: own_0, own_1, own_2 are x_a, y_a, z_a.
    uint end_0 = starts[w * 2u + 1u];
    for (uint e = starts[w * 2u]; e < end_0; ++e) {
      uint i = entries[e];
      uint c0 = index_columns[e];
      double x_b = x[c0];
      double y_b = x[c0 + 1u];
      double z_b = x[c0 + 2u];
      double rest_length = data_columns[e];

      precise double t0 = own_0 - x_b;
      precise double t1 = t0 * t0;
      precise double t2 = own_1 - y_b;
      precise double t3 = t2 * t2;
      precise double t4 = t1 + t3;
      precise double t5 = own_2 - z_b;
      precise double t6 = t5 * t5;
      precise double t7 = t4 + t6;
      precise double t8 = sqrt(t7);
      bool b9 = t7 > 0.0lf;
      precise double t10 = b9 ? t8 : 0.0lf;
      precise double t11 = t10 - rest_length;
      precise double t12 = b9 ? t11 : 0.0lf;
      precise double t13 = 0.5lf / t8;
      precise double t14 = t12 == double(0.0) ? double(0.0) : t12 * t13;
      bool b15 = t8 == 0.0lf;
      precise double t16 = b15 ? 0.0lf : t14;
      precise double t17 = t16 * 2.0lf;
      precise double t18 = t0 * t17;
      precise double t19 = t2 * t17;
      precise double t20 = t5 * t17;
      precise double t21 = t11 * t11;
      precise double t22 = 0.5lf * t21;
      sum_0 += t18;
      sum_1 += t19;
      sum_2 += t20;
      cost += t22;
      rows[i] = t11;
    }

    // Role 1: own_0, own_1, own_2 are x_b, y_b, z_b.
    uint end_1 = starts[w * 2u + 2u];
    for (uint e = starts[w * 2u + 1u]; e < end_1; ++e) {
      uint c0 = index_columns[e];
      double x_a = x[c0];
      double y_a = x[c0 + 1u];
      double z_a = x[c0 + 2u];
      double rest_length = data_columns[e];

      precise double t0 = x_a - own_0;
      precise double t1 = t0 * t0;
      precise double t2 = y_a - own_1;
      precise double t3 = t2 * t2;
      precise double t4 = t1 + t3;
      precise double t5 = z_a - own_2;
      precise double t6 = t5 * t5;
      precise double t7 = t4 + t6;
      precise double t8 = sqrt(t7);
      bool b9 = t7 > 0.0lf;
      precise double t10 = b9 ? t8 : 0.0lf;
      precise double t11 = t10 - rest_length;
      precise double t12 = b9 ? t11 : 0.0lf;
      precise double t13 = 0.5lf / t8;
      precise double t14 = t12 == double(0.0) ? double(0.0) : t12 * t13;
      bool b15 = t8 == 0.0lf;
      precise double t16 = b15 ? 0.0lf : t14;
      precise double t17 = t16 * 2.0lf;
      precise double t18 = t0 * t17;
      precise double t19 = -t18;
      precise double t20 = t2 * t17;
      precise double t21 = -t20;
      precise double t22 = t5 * t17;
      precise double t23 = -t22;
      sum_0 += t19;
      sum_1 += t21;
      sum_2 += t23;
    }

    uint o = out_first + outputs[w] * 3u;
    if (overwrite == 0u) {
      sum_0 = results[o] + sum_0;
      sum_1 = results[o + 1u] + sum_1;
      sum_2 = results[o + 2u] + sum_2;
    }
    results[o] = sum_0;
    results[o + 1u] = sum_1;
    results[o + 2u] = sum_2;
  }

  double total = workgroup_sum(cost);
  if (gl_LocalInvocationIndex == 0u) costs[costs_first + gl_WorkGroupID.x] = total;
}
