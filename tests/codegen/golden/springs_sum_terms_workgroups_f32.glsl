// springs_sum_terms: sums of stored gradient terms
//
// form        sum_terms, f32, 128 invocations a workgroup and an item
// owners      3 scalars, 3 sums, 2 roles
// operations  6: 6 add
// bytes       32 an instance
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
layout(std430, binding = 2) restrict readonly buffer TermsBuffer { float terms[]; };
layout(std430, binding = 3) restrict readonly buffer EntriesBuffer { uint entries[]; };
layout(std430, binding = 4) restrict buffer ResultsBuffer { float results[]; };

shared float item_sums[256];

void main() {
  uint w = gl_WorkGroupID.x + first;
  if (w >= count) return;
  precise float sum_0 = 0.0;
  precise float sum_1 = 0.0;
  precise float sum_2 = 0.0;

  uint end_0 = starts[w * 2u + 1u];
  for (uint e = starts[w * 2u] + gl_LocalInvocationIndex; e < end_0; e += 128u) {
    uint i = entries[e];
    sum_0 += terms[i];
    sum_1 += terms[out_stride + i];
    sum_2 += terms[2u * out_stride + i];
  }

  uint end_1 = starts[w * 2u + 2u];
  for (uint e = starts[w * 2u + 1u] + gl_LocalInvocationIndex; e < end_1; e += 128u) {
    uint i = entries[e];
    sum_0 += terms[3u * out_stride + i];
    sum_1 += terms[4u * out_stride + i];
    sum_2 += terms[5u * out_stride + i];
  }

  uint o = out_first + outputs[w] * 3u;
  uint self = gl_LocalInvocationIndex;

  item_sums[self] = sum_0;
  item_sums[self + 128u] = sum_1;
  barrier();
  if (self < 16u) {
    uint base = self / 8u * 128u + self % 8u;
    precise float part = item_sums[base];
    for (uint k = 8u; k < 128u; k += 8u) part += item_sums[base + k];
    item_sums[base] = part;
  }
  barrier();
  if (self < 2u) {
    precise float total = item_sums[self * 128u];
    for (uint k = 1u; k < 8u; ++k) total += item_sums[self * 128u + k];
    if (overwrite == 0u) total = results[o + self] + total;
    results[o + self] = total;
  }

  o += 2u;
  barrier();
  item_sums[self] = sum_2;
  barrier();
  if (self < 8u) {
    uint base = self / 8u * 128u + self % 8u;
    precise float part = item_sums[base];
    for (uint k = 8u; k < 128u; k += 8u) part += item_sums[base + k];
    item_sums[base] = part;
  }
  barrier();
  if (self < 1u) {
    precise float total = item_sums[self * 128u];
    for (uint k = 1u; k < 8u; ++k) total += item_sums[self * 128u + k];
    if (overwrite == 0u) total = results[o + self] + total;
    results[o + self] = total;
  }
}
