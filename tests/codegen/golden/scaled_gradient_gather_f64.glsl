// scaled_gradient: gradient of half of the squared residual
//
// form        gather, f64, 128 invocations a workgroup
// owners      3 scalars, 3 sums, 2 roles
// role        6 parameters, 1 data, 0 uniforms -> 3 outputs
// role        6 parameters, 1 data, 0 uniforms -> 3 outputs
// operations  36: 6 add, 2 sub, 13 mul, 4 div, 1 neg, 4 square, 2 reciprocal, 4 sqrt
// bytes       24 an instance
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

layout(std430, binding = 0) restrict readonly buffer XBuffer { double x[]; };
layout(std430, binding = 1) restrict readonly buffer IndexColumnsBuffer { uint index_columns[]; };
layout(std430, binding = 2) restrict readonly buffer DataColumnsBuffer { double data_columns[]; };
layout(std430, binding = 3) restrict readonly buffer StartsBuffer { uint starts[]; };
layout(std430, binding = 4) restrict readonly buffer OwnersBuffer { uint owners[]; };
layout(std430, binding = 5) restrict readonly buffer OutputsBuffer { uint outputs[]; };
layout(std430, binding = 6) restrict buffer ResultsBuffer { double results[]; };

void main() {
  uint w = gl_GlobalInvocationID.x + first;
  if (w >= count) return;
  uint own = x_first + owners[w] * 3u;
  double own_0 = x[own];
  double own_1 = x[own + 1u];
  double own_2 = x[own + 2u];
  precise double sum_0 = 0.0lf;
  precise double sum_1 = 0.0lf;
  precise double sum_2 = 0.0lf;

  // Role 0: own_0, own_1, own_2 are x_a, y_a, z_a.
  precise double own_r0_t0 = own_0 * own_0;
  precise double own_r0_t1 = own_r0_t0 + 2.0lf;
  precise double own_r0_t2 = sqrt(own_r0_t1);
  precise double own_r0_t3 = own_1 * own_1;
  precise double own_r0_t4 = 2.0lf + own_r0_t3;
  precise double own_r0_t5 = sqrt(own_r0_t4);
  precise double own_r0_t6 = 0.5lf / own_r0_t2;
  precise double own_r0_t7 = double(1.0) / own_r0_t5;
  precise double own_r0_t8 = 0.5lf / own_r0_t5;
  uint end_0 = starts[w * 2u + 1u];
  for (uint e = starts[w * 2u]; e < end_0; ++e) {
    uint c0 = index_columns[e];
    double y_b = x[c0 + 1u];
    double z_b = x[c0 + 2u];
    double rest_length = data_columns[e];

    precise double t0 = own_r0_t2 * y_b;
    precise double t1 = z_b / own_r0_t5;
    precise double t2 = t0 + t1;
    precise double t3 = t2 - rest_length;
    precise double t4 = y_b * t3;
    precise double t5 = t4 * own_r0_t6;
    precise double t6 = 2.0lf * t5;
    precise double t7 = own_0 * t6;
    precise double t8 = t1 * own_r0_t7;
    precise double t9 = -t8;
    precise double t10 = t3 * t9;
    precise double t11 = t10 * own_r0_t8;
    precise double t12 = 2.0lf * t11;
    precise double t13 = own_1 * t12;
    sum_0 += t7;
    sum_1 += t13;
  }

  // Role 1: own_0, own_1, own_2 are x_b, y_b, z_b.
  uint end_1 = starts[w * 2u + 2u];
  for (uint e = starts[w * 2u + 1u]; e < end_1; ++e) {
    uint c0 = index_columns[e];
    double x_a = x[c0];
    double y_a = x[c0 + 1u];
    double rest_length = data_columns[e];

    precise double t0 = x_a * x_a;
    precise double t1 = t0 + 2.0lf;
    precise double t2 = sqrt(t1);
    precise double t3 = t2 * own_1;
    precise double t4 = y_a * y_a;
    precise double t5 = 2.0lf + t4;
    precise double t6 = sqrt(t5);
    precise double t7 = own_2 / t6;
    precise double t8 = t3 + t7;
    precise double t9 = t8 - rest_length;
    precise double t10 = t2 * t9;
    precise double t11 = double(1.0) / t6;
    precise double t12 = t9 * t11;
    sum_1 += t10;
    sum_2 += t12;
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
