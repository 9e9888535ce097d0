// affine_gradient: gradient of half of (a * 2 + b) squared
//
// form        scatter by atomic_cas, f32, 128 invocations a workgroup
// instance    2 parameters, 0 data, 0 uniforms -> 2 outputs
// operations  3: 1 add, 2 mul
// bytes       16 an instance
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
layout(std430, binding = 2) restrict buffer ResultsBuffer { uint results[]; };

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
  float p0 = x[c0];
  float p1 = x[c1];

  precise float t0 = p0 * 2.0;
  precise float t1 = t0 + p1;
  precise float t2 = 2.0 * t1;

  add_to_results(out_first + c0, t2);
  add_to_results(out_first + c1, t1);
}
