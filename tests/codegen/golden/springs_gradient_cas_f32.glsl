// springs_gradient: gradient of half of the squared residual
//
// form        scatter by atomic_cas, f32, 128 invocations a workgroup
// instance    6 parameters, 1 data, 0 uniforms -> 6 outputs
// operations  24: 2 add, 4 sub, 4 mul, 1 div, 3 neg, 3 square, 1 zmul, 1 sqrt, 1 eq, 1 gt, 3 select
// bytes       36 an instance
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
layout(std430, binding = 3) restrict buffer ResultsBuffer { uint results[]; };

// Adds to a float whose bits are seen as an integer.
void add_to_results(uint position, float value) {
  uint expected = results[position];
  for (;;) {
    precise float sum = uintBitsToFloat(expected) + value;
    uint seen = atomicCompSwap(results[position], expected, floatBitsToUint(sum));
    if (seen == expected) return;
    expected = seen;
  }
}

void main() {
  uint i = gl_GlobalInvocationID.x + first;
  if (i >= count) return;

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

  add_to_results(out_first + c0, t18);
  add_to_results(out_first + c0 + 1u, t19);
  add_to_results(out_first + c0 + 2u, t20);
  add_to_results(out_first + c1, t21);
  add_to_results(out_first + c1 + 1u, t22);
  add_to_results(out_first + c1 + 2u, t23);
}
