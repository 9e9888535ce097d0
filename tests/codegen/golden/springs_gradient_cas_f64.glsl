// springs_gradient: gradient of half of the squared residual
//
// form        scatter by atomic_cas, f64, 128 invocations a workgroup
// instance    6 parameters, 1 data, 0 uniforms -> 6 outputs
// operations  24: 2 add, 4 sub, 4 mul, 1 div, 3 neg, 3 square, 1 zmul, 1 sqrt, 1 eq, 1 gt, 3 select
// bytes       64 an instance
#version 450
#extension GL_EXT_shader_atomic_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

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
layout(std430, binding = 3) restrict buffer ResultsBuffer { uint64_t results[]; };

// Adds to a double whose bits are seen as an integer.
void add_to_results(uint position, double value) {
  uint64_t expected = results[position];
  for (;;) {
    precise double sum = uint64BitsToDouble(expected) + value;
    uint64_t seen = atomicCompSwap(results[position], expected, doubleBitsToUint64(sum));
    if (seen == expected) return;
    expected = seen;
  }
}

void main() {
  uint i = gl_GlobalInvocationID.x + first;
  if (i >= count) return;

  uint c0 = index_columns[i];
  uint c1 = index_columns[stride + i];
  double x_a = x[c0];
  double y_a = x[c0 + 1u];
  double z_a = x[c0 + 2u];
  double x_b = x[c1];
  double y_b = x[c1 + 1u];
  double z_b = x[c1 + 2u];
  double rest_length = data_columns[i];

  precise double t0 = x_a - x_b;
  precise double t1 = t0 * t0;
  precise double t2 = y_a - y_b;
  precise double t3 = t2 * t2;
  precise double t4 = t1 + t3;
  precise double t5 = z_a - z_b;
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
  precise double t21 = -t18;
  precise double t22 = -t19;
  precise double t23 = -t20;

  add_to_results(out_first + c0, t18);
  add_to_results(out_first + c0 + 1u, t19);
  add_to_results(out_first + c0 + 2u, t20);
  add_to_results(out_first + c1, t21);
  add_to_results(out_first + c1 + 1u, t22);
  add_to_results(out_first + c1 + 2u, t23);
}
