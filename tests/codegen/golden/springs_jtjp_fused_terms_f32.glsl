// springs_jtjp: product of the normal matrix with a direction
//
// form        gather, f32, 128 invocations a workgroup
// owners      3 scalars, 3 sums, 3 roles
// role        6 parameters, 1 data, 0 uniforms -> 3 outputs
// role        6 parameters, 1 data, 0 uniforms -> 3 outputs
// role        6 parameters, 1 data, 0 uniforms -> 3 outputs
// operations  99: 12 add, 18 sub, 33 mul, 3 div, 3 neg, 9 square, 3 zmul, 3 sqrt, 3 eq, 3 gt, 9 select
// bytes       12 an instance
#version 450

layout(local_size_x = 128) in;

layout(push_constant) uniform PushConstants {
  uint count;            // end of the rows of this dispatch
  uint first;            // row of invocation 0
  uint stride;           // between columns
  uint out_stride;       // between outputs, seeds, terms
  uint out_first;        // position of the first result
  uint x_first;          // position of owner 0 in x
  uint overwrite;        // 1: store sums, 0: add them
  uint zero_bits;        // 0, which compilers do not know
  uint sums_first;       // position of the first partial sum that is read
  uint sums_count;       // how many there are
  uint sums_stride;      // between kinds of them
  uint curvature_first;  // position of workgroup 0's sum
  uint fused_stride;     // between columns of fused terms
};

layout(std430, binding = 0) restrict readonly buffer XBuffer { float x[]; };
layout(std430, binding = 1) restrict readonly buffer DirectionBuffer { float direction[]; };
layout(std430, binding = 2) restrict readonly buffer IndexColumnsBuffer { uint index_columns[]; };
layout(std430, binding = 3) restrict readonly buffer StartsBuffer { uint starts[]; };
layout(std430, binding = 4) restrict readonly buffer OwnersBuffer { uint owners[]; };
layout(std430, binding = 5) restrict readonly buffer OutputsBuffer { uint outputs[]; };
layout(std430, binding = 6) restrict buffer ResultsBuffer { float results[]; };
layout(std430, binding = 7) restrict readonly buffer ScalarsBuffer { double scalars[]; };
layout(std430, binding = 8) restrict readonly buffer PartialsBuffer { double partials[]; };
layout(std430, binding = 9) restrict readonly buffer PreconditionedBuffer { float preconditioned[]; };
layout(std430, binding = 10) restrict readonly buffer DampingBuffer { float damping[]; };
layout(std430, binding = 11) restrict writeonly buffer NextDirectionBuffer { float next_direction[]; };
layout(std430, binding = 12) restrict writeonly buffer DecisionBuffer { double decision[]; };
layout(std430, binding = 13) restrict writeonly buffer CurvatureBuffer { double curvature[]; };
layout(std430, binding = 14) restrict readonly buffer FusedOwnersBuffer { uint fused_owners[]; };
layout(std430, binding = 15) restrict readonly buffer FusedStartsBuffer { uint fused_starts[]; };
layout(std430, binding = 16) restrict readonly buffer FusedIndexColumnsBuffer { uint fused_index_columns[]; };

// True for both infinities, decided on the bits.
bool tg_is_inf_f64(double x) {
  uvec2 bits = unpackDouble2x32(x);
  return (bits.y & 0x7fffffffu) == 0x7ff00000u && bits.x == 0u;
}

// True for NaN, decided on the bits.
bool tg_is_nan_f64(double x) {
  uvec2 bits = unpackDouble2x32(x);
  uint magnitude = bits.y & 0x7fffffffu;
  return magnitude > 0x7ff00000u || (magnitude == 0x7ff00000u && bits.x != 0u);
}

const uint NEXT_STATE = 24u;
const uint ITERATIONS = 11u;
const uint THRESHOLD = 15u;
const uint MAX_ITERATIONS = 8u;
const uint PREVIOUS_RZ = 25u;
const uint STATE = 0u;
const uint RZ = 13u;
const uint RR = 14u;

shared double partial_totals[256];

// Sums over the workgroup by trees of fixed order, in every invocation.
void workgroup_totals(inout double total_0, inout double total_1) {
  uint self = gl_LocalInvocationIndex;
  barrier();
  partial_totals[self] = total_0;
  partial_totals[self + 128u] = total_1;
  for (uint width = 64u; width > 0u; width >>= 1u) {
    barrier();
    if (self < 2u * width) {
      uint at = self < width ? self : self - width + 128u;
      precise double sum = partial_totals[at] + partial_totals[at + width];
      partial_totals[at] = sum;
    }
  }
  barrier();
  total_0 = partial_totals[0u];
  total_1 = partial_totals[128u];
}

const uint IN_ENERGY = 9u;

float half_scale(double size) {
  int exponent = int(unpackDouble2x32(size).y >> 20u & 0x7ffu) - 1023;
  return uintBitsToFloat(uint(127 - clamp(exponent >> 1, -126, 126)) << 23u);
}

// A sum and the rounding error that it has gathered. Source: Knuth, TAOCP 2, 4.2.2, theorem B.
vec2 compensated_add(vec2 a, vec2 b) {
  precise float sum = a.x + b.x;
  precise float shift = sum - a.x;
  precise float rest = sum - shift;
  precise float left = a.x - rest;
  precise float right = b.x - shift;
  precise float rounding = left + right;
  precise float errors = a.y + b.y;
  precise float error = errors + rounding;
  return vec2(sum, error);
}

// sum + a b. The high bits of the factors are cut off, so that products of parts are exact. There
// is no fma: compilers may change it, precise or not.
// Source: Dekker, Numerische Mathematik 18 (1971), 224-242.
vec2 add_product(vec2 sum, float a, float b) {
  float a_high = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u);
  float b_high = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u);
  precise float a_low = a - a_high;
  precise float b_low = b - b_high;
  precise float product = a * b;
  precise float first = a_high * b_high - product;
  precise float second = first + a_high * b_low;
  precise float third = second + a_low * b_high;
  precise float error = third + a_low * b_low;
  return compensated_add(sum, vec2(product, error));
}

shared vec2 partial_pairs[128];

// Sum over the workgroup by a tree of fixed order; valid in invocation 0.
vec2 workgroup_pair(vec2 value) {
  uint self = gl_LocalInvocationIndex;
  barrier();
  partial_pairs[self] = value;
  for (uint width = 64u; width > 0u; width >>= 1u) {
    barrier();
    if (self < width) {
      partial_pairs[self] = compensated_add(partial_pairs[self], partial_pairs[self + width]);
    }
  }
  return partial_pairs[self];
}

double pair_double(vec2 sum) {
  precise double value = double(sum.x) + double(sum.y);
  return tg_is_nan_f64(value) ? double(sum.x) : value;  // the error of an infinite sum is no number
}

double workgroup_pairs(vec2 value) { return pair_double(workgroup_pair(value)); }

double unscale(float scale) {
  uint exponent = floatBitsToUint(scale) >> 23u;
  return packDouble2x32(uvec2(0u, 1023u + 254u - 2u * exponent << 20u));
}

void main() {
  double state = scalars[NEXT_STATE];
  if (state != 0.0lf && gl_GlobalInvocationID.x == 0u) decision[STATE] = state;
  if (state != 0.0lf) return;
  precise double rz = 0.0lf;
  precise double rr = 0.0lf;
  if (gl_LocalInvocationIndex < sums_count) {
    rz = partials[sums_first + gl_LocalInvocationIndex];
    rr = partials[sums_first + sums_stride + gl_LocalInvocationIndex];
  }
  for (uint k = gl_LocalInvocationIndex + 128u; k < sums_count; k += 128u) {
    rz += partials[sums_first + k];
    rr += partials[sums_first + sums_stride + k];
  }
  workgroup_totals(rz, rr);
  double iterations = scalars[ITERATIONS];
  precise double left = scalars[IN_ENERGY] != double(0) ? rz : rr;
  if (left <= scalars[THRESHOLD]) {
    state = 1.0lf;
  } else if (!(rz > double(0)) || tg_is_inf_f64(rz) || tg_is_nan_f64(rr)) {
    state = 2.0lf;
  } else if (iterations >= scalars[MAX_ITERATIONS]) {
    state = 3.0lf;
  }
  if (gl_GlobalInvocationID.x == 0u) {
    decision[STATE] = state;
    decision[RZ] = rz;
    decision[RR] = rr;
  }
  if (state != 0.0lf) return;
  precise double quotient = rz / scalars[PREVIOUS_RZ];
  precise double beta = iterations == double(0) ? double(0) : quotient;
  vec2 pq = vec2(0.0);
  precise float pq_scale = half_scale(rz);
  uint grid = gl_NumWorkGroups.x * 128u;
  for (uint w = gl_GlobalInvocationID.x + first; w < count; w += grid) {
    uint own = x_first + owners[w] * 3u;
    float own_0 = x[own];
    float own_1 = x[own + 1u];
    float own_2 = x[own + 2u];
    precise float own_d0 = preconditioned[own] + float(beta) * direction[own];
    precise float own_d1 = preconditioned[own + 1u] + float(beta) * direction[own + 1u];
    precise float own_d2 = preconditioned[own + 2u] + float(beta) * direction[own + 2u];
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
      precise float dx_b = preconditioned[c0] + float(beta) * direction[c0];
      precise float dy_b = preconditioned[c0 + 1u] + float(beta) * direction[c0 + 1u];
      precise float dz_b = preconditioned[c0 + 2u] + float(beta) * direction[c0 + 2u];

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
      precise float dx_a = preconditioned[c0] + float(beta) * direction[c0];
      precise float dy_a = preconditioned[c0 + 1u] + float(beta) * direction[c0 + 1u];
      precise float dz_a = preconditioned[c0 + 2u] + float(beta) * direction[c0 + 2u];

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

    uint fused_owner = owners[w];
    uint fused_bits = fused_owners[2u * (fused_owner >> 5u)];
    uint fused_bit = 1u << (fused_owner & 31u);
    if ((fused_bits & fused_bit) != 0u) {
      uint fused_before = fused_owners[2u * (fused_owner >> 5u) + 1u];
      uint fused_item = fused_before + uint(bitCount(fused_bits & (fused_bit - 1u)));

      // Role 2: own_0, own_1, own_2 are x_a, y_a, z_a.
      uint end_2 = fused_starts[fused_item + 1u];
      for (uint e = fused_starts[fused_item]; e < end_2; ++e) {
        uint c0 = fused_index_columns[e];
        float x_b = x[c0];
        float y_b = x[c0 + 1u];
        float z_b = x[c0 + 2u];
        precise float dx_b = preconditioned[c0] + float(beta) * direction[c0];
        precise float dy_b = preconditioned[c0 + 1u] + float(beta) * direction[c0 + 1u];
        precise float dz_b = preconditioned[c0 + 2u] + float(beta) * direction[c0 + 2u];

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
    }

    sum_0 += damping[own] * own_d0;
    next_direction[own] = own_d0;
    sum_1 += damping[own + 1u] * own_d1;
    next_direction[own + 1u] = own_d1;
    sum_2 += damping[own + 2u] * own_d2;
    next_direction[own + 2u] = own_d2;
    pq = add_product(pq, own_d0 * pq_scale, sum_0 * pq_scale);
    pq = add_product(pq, own_d1 * pq_scale, sum_1 * pq_scale);
    pq = add_product(pq, own_d2 * pq_scale, sum_2 * pq_scale);

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
  double total = workgroup_pairs(pq) * unscale(pq_scale);
  if (gl_LocalInvocationIndex == 0u) curvature[curvature_first + gl_WorkGroupID.x] = total;
}
