// vector_cg_update_f64_w3: vectors f64, scalars f64, blocks of 3
#version 450

layout(local_size_x = 128) in;

layout(push_constant) uniform PushConstants {
  uint count;
  uint first;
  uint inverse_first;
  uint masked;
  uint out_first;
  uint out_stride;
  uint sums_first;
  uint sums_count;
};

layout(std430, binding = 0) restrict readonly buffer DirectionBuffer { double direction[]; };
layout(std430, binding = 1) restrict buffer ScalarsBuffer { double scalars[]; };
layout(std430, binding = 2) restrict writeonly buffer PartialsBuffer { double partials[]; };
layout(std430, binding = 3) restrict readonly buffer FixedScalarsBuffer { uint fixed_scalars[]; };
layout(std430, binding = 4) restrict buffer DeltaBuffer { double delta[]; };
layout(std430, binding = 5) restrict buffer ResidualBuffer { double residual[]; };
layout(std430, binding = 6) restrict readonly buffer ProductBuffer { double product[]; };
layout(std430, binding = 7) restrict writeonly buffer PreconditionedBuffer { double preconditioned[]; };
layout(std430, binding = 8) restrict readonly buffer InverseBlocksBuffer { double inverse_blocks[]; };
layout(std430, binding = 9) restrict readonly buffer DecisionBuffer { double decision[]; };
layout(std430, binding = 10) restrict readonly buffer CurvatureBuffer { double curvature[]; };

// True for both infinities, decided on the bits.
bool tg_is_inf_f64(double x) {
  uvec2 bits = unpackDouble2x32(x);
  return (bits.y & 0x7fffffffu) == 0x7ff00000u && bits.x == 0u;
}

const uint STATE = 0u;
const uint NEXT_STATE = 24u;

shared double partial_totals[128];

// Sums over the workgroup by trees of fixed order, in every invocation.
void workgroup_totals(inout double total_0) {
  uint self = gl_LocalInvocationIndex;
  barrier();
  partial_totals[self] = total_0;
  for (uint width = 64u; width > 0u; width >>= 1u) {
    barrier();
    if (self < width) {
      precise double sum = partial_totals[self] + partial_totals[self + width];
      partial_totals[self] = sum;
    }
  }
  barrier();
  total_0 = partial_totals[0u];
}

const uint RZ = 13u;
const uint GAINS = 12u;
const uint ITERATIONS = 11u;
const uint ETA = 10u;
const uint PREVIOUS_RZ = 25u;

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
  double next_state = decision[STATE];
  if (next_state != 0.0lf && gl_GlobalInvocationID.x == 0u) scalars[NEXT_STATE] = next_state;
  if (next_state != 0.0lf) return;
  precise double pq = 0.0lf;
  if (gl_LocalInvocationIndex < sums_count) {
    pq = curvature[sums_first + gl_LocalInvocationIndex];
  }
  for (uint k = gl_LocalInvocationIndex + 128u; k < sums_count; k += 128u) {
    pq += curvature[sums_first + k];
  }
  workgroup_totals(pq);
  if (!(pq > double(0)) || tg_is_inf_f64(pq)) next_state = 2.0lf;
  precise double alpha = decision[RZ] / pq;
  if (gl_GlobalInvocationID.x == 0u) {
    precise double after = next_state;
    if (next_state == 0.0lf) {
      precise double gain = alpha * decision[RZ];
      precise double gains = scalars[GAINS] + gain;
      precise double iterations = scalars[ITERATIONS] + double(1);
      scalars[GAINS] = gains;
      scalars[ITERATIONS] = iterations;
      precise double recent = iterations * gain;
      precise double least = scalars[ETA] * gains;
      if (recent < least) after = 1.0lf;
    }
    scalars[NEXT_STATE] = after;
    scalars[PREVIOUS_RZ] = decision[RZ];
  }
  if (next_state != 0.0lf) return;
  precise double rz = 0.0lf;
  precise double rr = 0.0lf;
  uint grid = gl_NumWorkGroups.x * 128u;
  for (uint b = gl_GlobalInvocationID.x; b < count; b += grid) {
    uint k = first + b * 3u;
    precise double d_0 = delta[k] + double(alpha) * direction[k];
    precise double d_1 = delta[k + 1u] + double(alpha) * direction[k + 1u];
    precise double d_2 = delta[k + 2u] + double(alpha) * direction[k + 2u];
    precise double r_0 = residual[k] - double(alpha) * product[k];
    precise double r_1 = residual[k + 1u] - double(alpha) * product[k + 1u];
    precise double r_2 = residual[k + 2u] - double(alpha) * product[k + 2u];
    // The residual of fixed scalars is 0, so that their direction stays 0.
    if (masked != 0u) {
      if (fixed_scalars[k] != 0u) r_0 = double(0);
      if (fixed_scalars[k + 1u] != 0u) r_1 = double(0);
      if (fixed_scalars[k + 2u] != 0u) r_2 = double(0);
    }
    double m_0 = inverse_blocks[inverse_first + b];
    double m_1 = inverse_blocks[inverse_first + count + b];
    double m_2 = inverse_blocks[inverse_first + 2u * count + b];
    double m_3 = inverse_blocks[inverse_first + 3u * count + b];
    double m_4 = inverse_blocks[inverse_first + 4u * count + b];
    double m_5 = inverse_blocks[inverse_first + 5u * count + b];
    precise double z_0 = m_0 * r_0 + m_1 * r_1 + m_2 * r_2;
    precise double z_1 = m_1 * r_0 + m_3 * r_1 + m_4 * r_2;
    precise double z_2 = m_2 * r_0 + m_4 * r_1 + m_5 * r_2;
    delta[k] = d_0;
    delta[k + 1u] = d_1;
    delta[k + 2u] = d_2;
    residual[k] = r_0;
    residual[k + 1u] = r_1;
    residual[k + 2u] = r_2;
    preconditioned[k] = z_0;
    preconditioned[k + 1u] = z_1;
    preconditioned[k + 2u] = z_2;
    precise double rz_term = double(r_0) * double(z_0) + double(r_1) * double(z_1) + double(r_2) * double(z_2);
    rz += rz_term;
    precise double rr_term = double(r_0) * double(r_0) + double(r_1) * double(r_1) + double(r_2) * double(r_2);
    rr += rr_term;
  }
  double total_0 = workgroup_sum(rz);
  if (gl_LocalInvocationIndex == 0u) partials[out_first + gl_WorkGroupID.x] = total_0;
  double total_1 = workgroup_sum(rr);
  if (gl_LocalInvocationIndex == 0u) partials[out_first + out_stride + gl_WorkGroupID.x] = total_1;
}
