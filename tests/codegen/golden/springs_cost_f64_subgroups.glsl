// springs_cost: half of the squared residual
//
// form        reduce, summed in f64, f64, 128 invocations a workgroup
// instance    6 parameters, 1 data, 0 uniforms -> 1 output
// operations  14: 2 add, 4 sub, 1 mul, 4 square, 1 sqrt, 1 gt, 1 select
// bytes       16 an instance
#version 450
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require

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
layout(std430, binding = 3) restrict writeonly buffer ResultsBuffer { double results[]; };

shared double partial_sums[128];

// Sum over the workgroup: first in subgroups of any size, then over these; valid in invocation 0.
double workgroup_sum(double value) {
  precise double sum = subgroupAdd(value);
  barrier();
  if (subgroupElect()) partial_sums[gl_SubgroupID] = sum;
  barrier();
  sum = partial_sums[0];
  for (uint k = 1u; k < gl_NumSubgroups; ++k) sum += partial_sums[k];
  return sum;
}

void main() {
  precise double sum = 0.0lf;
  uint grid = gl_NumWorkGroups.x * 128u;
  for (uint i = gl_GlobalInvocationID.x + first; i < count; i += grid) {
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
    precise double t12 = t11 * t11;
    precise double t13 = t12 * 0.5lf;
    sum += t13;
  }

  double total = workgroup_sum(sum);
  if (gl_LocalInvocationIndex == 0u) results[out_first + gl_WorkGroupID.x] = total;
}
