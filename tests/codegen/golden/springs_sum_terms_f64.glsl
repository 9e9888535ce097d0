// springs_sum_terms: sums of stored gradient terms
//
// form        sum_terms, f64, 128 invocations a workgroup
// owners      3 scalars, 3 sums, 2 roles
// operations  6: 6 add
// bytes       56 an instance
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

layout(std430, binding = 0) restrict readonly buffer StartsBuffer { uint starts[]; };
layout(std430, binding = 1) restrict readonly buffer OutputsBuffer { uint outputs[]; };
layout(std430, binding = 2) restrict readonly buffer TermsBuffer { double terms[]; };
layout(std430, binding = 3) restrict readonly buffer EntriesBuffer { uint entries[]; };
layout(std430, binding = 4) restrict buffer ResultsBuffer { double results[]; };

void main() {
  uint w = gl_GlobalInvocationID.x + first;
  if (w >= count) return;
  precise double sum_0 = 0.0lf;
  precise double sum_1 = 0.0lf;
  precise double sum_2 = 0.0lf;

  uint end_0 = starts[w * 2u + 1u];
  for (uint e = starts[w * 2u]; e < end_0; ++e) {
    uint i = entries[e];
    sum_0 += terms[i];
    sum_1 += terms[out_stride + i];
    sum_2 += terms[2u * out_stride + i];
  }

  uint end_1 = starts[w * 2u + 2u];
  for (uint e = starts[w * 2u + 1u]; e < end_1; ++e) {
    uint i = entries[e];
    sum_0 += terms[3u * out_stride + i];
    sum_1 += terms[4u * out_stride + i];
    sum_2 += terms[5u * out_stride + i];
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
