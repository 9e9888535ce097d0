// springs_jtjp: product of the normal matrix with a direction
//
// form        gather, f32, 128 invocations a workgroup
// owners      3 scalars, 3 sums, 2 roles
// role        6 parameters, 1 data, 0 uniforms -> 3 outputs
// role        6 parameters, 1 data, 0 uniforms -> 3 outputs
// operations  67: 8 add, 12 sub, 22 mul, 2 div, 3 neg, 6 square, 2 zmul, 2 sqrt, 2 eq, 2 gt, 6 select
// bytes       8 an instance
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
layout(std430, binding = 1) restrict readonly buffer DirectionBuffer { float direction[]; };
layout(std430, binding = 2) restrict readonly buffer IndexColumnsBuffer { uint index_columns[]; };
layout(std430, binding = 3) restrict readonly buffer StartsBuffer { uint starts[]; };
layout(std430, binding = 4) restrict readonly buffer OwnersBuffer { uint owners[]; };
layout(std430, binding = 5) restrict readonly buffer OutputsBuffer { uint outputs[]; };
layout(std430, binding = 6) restrict buffer ResultsBuffer { float results[]; };
layout(std430, binding = 7) restrict readonly buffer ScalarsBuffer { double scalars[]; };

void main() {
  uint w = gl_GlobalInvocationID.x + first;
  if (w >= count) return;
  if (scalars[0] != 0.0lf) return;  // the solver is done
  uint own = x_first + owners[w] * 3u;
  float own_0 = x[own];
  float own_1 = x[own + 1u];
  float own_2 = x[own + 2u];
  float own_d0 = direction[own];
  float own_d1 = direction[own + 1u];
  float own_d2 = direction[own + 2u];
  precise float sum_0 = 0.0;
  precise float sum_1 = 0.0;
  precise float sum_2 = 0.0;

  // Role 0: own_0, own_1, own_2 are x_a, y_a, z_a.
  uint end_0 = starts[w * 2u + 1u];
  for (uint e = starts[w * 2u]; e < end_0; ++e) {
    uint c0 = index_columns[e];
    float x_b = x[c0];
    float y_b = x[c0 + 1u];
    float z_b = x[c0 + 2u];
    float dx_b = direction[c0];
    float dy_b = direction[c0 + 1u];
    float dz_b = direction[c0 + 2u];

    precise float t0 = own_0 - x_b;
    precise float t1 = own_d0 - dx_b;
    precise float t2 = t1 * 2.0;
    precise float t3 = t0 * t2;
    precise float t4 = own_1 - y_b;
    precise float t5 = own_d1 - dy_b;
    precise float t6 = 2.0 * t5;
    precise float t7 = t4 * t6;
    precise float t8 = t3 + t7;
    precise float t9 = own_2 - z_b;
    precise float t10 = own_d2 - dz_b;
    precise float t11 = 2.0 * t10;
    precise float t12 = t9 * t11;
    precise float t13 = t8 + t12;
    precise float t14 = t0 * t0;
    precise float t15 = t4 * t4;
    precise float t16 = t14 + t15;
    precise float t17 = t9 * t9;
    precise float t18 = t16 + t17;
    precise float t19 = sqrt(t18);
    precise float t20 = 0.5 / t19;
    precise float t21 = t13 * t20;
    bool b22 = t19 == 0.0;
    precise float t23 = b22 ? 0.0 : t21;
    bool b24 = t18 > 0.0;
    precise float t25 = b24 ? t23 : 0.0;
    precise float t26 = t25 == float(0.0) ? float(0.0) : t25 * t20;
    precise float t27 = b22 ? 0.0 : t26;
    precise float t28 = 2.0 * t27;
    precise float t29 = t0 * t28;
    precise float t30 = t4 * t28;
    precise float t31 = t9 * t28;
    sum_0 += t29;
    sum_1 += t30;
    sum_2 += t31;
  }

  // Role 1: own_0, own_1, own_2 are x_b, y_b, z_b.
  uint end_1 = starts[w * 2u + 2u];
  for (uint e = starts[w * 2u + 1u]; e < end_1; ++e) {
    uint c0 = index_columns[e];
    float x_a = x[c0];
    float y_a = x[c0 + 1u];
    float z_a = x[c0 + 2u];
    float dx_a = direction[c0];
    float dy_a = direction[c0 + 1u];
    float dz_a = direction[c0 + 2u];

    precise float t0 = x_a - own_0;
    precise float t1 = dx_a - own_d0;
    precise float t2 = t1 * 2.0;
    precise float t3 = t0 * t2;
    precise float t4 = y_a - own_1;
    precise float t5 = dy_a - own_d1;
    precise float t6 = 2.0 * t5;
    precise float t7 = t4 * t6;
    precise float t8 = t3 + t7;
    precise float t9 = z_a - own_2;
    precise float t10 = dz_a - own_d2;
    precise float t11 = 2.0 * t10;
    precise float t12 = t9 * t11;
    precise float t13 = t8 + t12;
    precise float t14 = t0 * t0;
    precise float t15 = t4 * t4;
    precise float t16 = t14 + t15;
    precise float t17 = t9 * t9;
    precise float t18 = t16 + t17;
    precise float t19 = sqrt(t18);
    precise float t20 = 0.5 / t19;
    precise float t21 = t13 * t20;
    bool b22 = t19 == 0.0;
    precise float t23 = b22 ? 0.0 : t21;
    bool b24 = t18 > 0.0;
    precise float t25 = b24 ? t23 : 0.0;
    precise float t26 = t25 == float(0.0) ? float(0.0) : t25 * t20;
    precise float t27 = b22 ? 0.0 : t26;
    precise float t28 = 2.0 * t27;
    precise float t29 = t0 * t28;
    precise float t30 = -t29;
    precise float t31 = t4 * t28;
    precise float t32 = -t31;
    precise float t33 = t9 * t28;
    precise float t34 = -t33;
    sum_0 += t30;
    sum_1 += t32;
    sum_2 += t34;
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
