// Vector kernels without a solver: fill, sums of vectors, dots, norms, reports.
#include "text.hpp"

namespace topograd::codegen {
namespace {

void write_elements(VectorText& out, std::string_view body) {
  out.open_grid("i");
  out.lines("uint k = first + i;");
  out.lines(body);
  out.close();
}

void write_combination(VectorText& out, bool in_place) {
  out.read({BufferRole::first_operand});
  if (in_place) {
    out.update({BufferRole::result});
  } else {
    out.read({BufferRole::second_operand});
    out.write({BufferRole::result});
  }
  out.scalars({Scalar::zero});
  out.lines(R"(
{T} a = {T}(scalars[slot_a]);
{T} b = {T}(scalars[slot_b]);
)");
  out.open_grid("i");
  out.lines(R"(
uint k = first + i;
precise {T} value = {T}(0);
if (slot_a != ZERO) value = a * first_operand[k];
)");
  out.lines(in_place ? "if (slot_b != ZERO) value = value + b * result[k];"
                     : "if (slot_b != ZERO) value = value + b * second_operand[k];");
  out.lines("result[k] = value;");
  out.close();
}

// Elements of fixed scalars are left out of sums.
void skip_fixed(VectorText& out) {
  out.read_u32(BufferRole::fixed);
  out.lines("if (masked != 0u && fixed_scalars[k] != 0u) continue;");
}

void write_dot(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::second_operand});
  out.begin_sum("sum");
  out.open_grid("i");
  out.lines("uint k = first + i;");
  skip_fixed(out);
  out.add("sum", "{S}(first_operand[k]) * {S}(second_operand[k])");
  out.close();
  out.store_partial(0, "sum");
}

void write_max_abs(VectorText& out) {
  out.read({BufferRole::first_operand});
  declare_maximum(out.shader(), out.request().scalars);
  out.lines("{S} greatest = {S}(0);");
  out.open_grid("i");
  out.lines("uint k = first + i;");
  skip_fixed(out);
  out.lines("greatest = maximum(greatest, {S}(abs(first_operand[k])));");
  out.close();
  out.store_partial_max(0, "greatest");
}

// One invocation a number of a row, so that neighbours read neighbours.
void write_segment_sum(VectorText& out) {
  out.read({BufferRole::first_operand});
  out.update({BufferRole::result});
  out.read_u32(BufferRole::starts);
  out.read_u32(BufferRole::outputs);
  out.open_grid("i", "count * {W}");
  out.lines(R"(
uint w = i / {W};
uint k = i % {W};
uint end = starts[w + 1u];
precise {T} sum = {T}(0);
for (uint e = starts[w]; e < end; ++e) sum += first_operand[e * {W} + k];
uint o = first + outputs[w] * {W} + k;
if (overwrite == 0u) sum = result[o] + sum;
result[o] = sum;
)");
  out.close();
}

void write_sum_partials(VectorText& out) {
  out.scalars({}, Access::write);
  out.lines("uint from = out_first + gl_WorkGroupID.x * out_stride;");
  out.total_of_partials("total", "from");
  out.lines("if (gl_LocalInvocationIndex == 0u) scalars[slot_a + gl_WorkGroupID.x] = total;");
}

void write_max_partials(VectorText& out) {
  out.scalars({}, Access::write);
  out.shader().use(BufferRole::partials, element_of(out.request().scalars));
  declare_maximum(out.shader(), out.request().scalars);
  out.lines(R"(
uint from = out_first + gl_WorkGroupID.x * out_stride;
{S} greatest = partials[from];
for (uint k = gl_LocalInvocationIndex; k < count; k += {G}) {
  greatest = maximum(greatest, partials[from + k]);
}
)");
  out.lines(
      "{S} total = " +
      workgroup_max(out.shader(), "greatest", out.request().scalars, out.request().workgroup_size) +
      ";");
  out.lines("if (gl_LocalInvocationIndex == 0u) scalars[slot_a + gl_WorkGroupID.x] = total;");
}

void write_point_norms(VectorText& out) {
  out.update({BufferRole::gradient});
  out.read({BufferRole::first_operand});
  declare_maximum(out.shader(), out.request().scalars);
  out.begin_sum("g_squared");
  out.begin_sum("x_squared");
  out.lines("{S} greatest = {S}(0);");
  out.open_grid("i");
  out.lines("uint k = first + i;");
  out.read_u32(BufferRole::fixed);
  out.lines(R"(
if (masked != 0u && fixed_scalars[k] != 0u) {
  gradient[k] = {T}(0);
  continue;
}
)");
  out.lines(R"(
{S} g = {S}(gradient[k]);
{S} x = {S}(first_operand[k]);
)");
  out.add("g_squared", "g * g");
  out.add("x_squared", "x * x");
  out.lines("greatest = maximum(greatest, abs(g));");
  out.close();
  out.store_partial(0, "g_squared");
  out.store_partial(1, "x_squared");
  out.store_partial_max(2, "greatest");
}

// With r = −g − (JᵀJ + Λ) δ what the linear model gains is ½ δ·(r + Λδ − g).
void write_trial_point(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::step, BufferRole::residual, BufferRole::damping,
            BufferRole::gradient});
  out.write({BufferRole::result});
  out.begin_sum("decrease");
  out.begin_sum("squared");
  out.open_grid("i");
  out.lines(R"(
uint k = first + i;
precise {T} trial = first_operand[k] + delta[k];
result[k] = trial;
{S} d = {S}(delta[k]);
)");
  out.add("decrease",
          "{S}(0.5) * d * (({S}(residual[k]) + {S}(damping[k]) * d) - {S}(gradient[k]))");
  out.add("squared", "d * d");
  out.close();
  out.store_partial(0, "decrease");
  out.store_partial(1, "squared");
}

void write_simple(VectorText& out, VectorOp op) {
  out.write({BufferRole::result});
  if (op == VectorOp::fill) {
    out.scalars({});
    write_elements(out, "result[k] = {T}(scalars[slot_a]);");
  } else if (op == VectorOp::copy) {
    out.read({BufferRole::first_operand});
    write_elements(out, "result[k] = first_operand[k];");
  } else {
    out.read_u32(BufferRole::fixed);
    write_elements(out, "if (fixed_scalars[k] != 0u) result[k] = {T}(0);");
  }
}

void write_conversion(VectorText& out, bool widens) {
  const Element wide = element_of(out.request().scalars);
  if (widens) {
    out.read({BufferRole::first_operand});
    out.shader().use(BufferRole::result, wide, Access::write);
  } else {
    out.shader().use(BufferRole::first_operand, wide);
    out.write({BufferRole::result});
  }
  write_elements(
      out, widens ? "result[k] = {S}(first_operand[k]);" : "result[k] = {T}(first_operand[k]);");
}

}  // namespace

bool write_plain(VectorText& out) {
  const VectorOp op = out.request().op;
  if (op <= VectorOp::max_partials && out.request().predicated) out.predicate();
  switch (op) {
    case VectorOp::fill:
    case VectorOp::copy:
    case VectorOp::mask: write_simple(out, op); return true;
    case VectorOp::narrow:
    case VectorOp::widen: write_conversion(out, op == VectorOp::widen); return true;
    case VectorOp::axpby: write_combination(out, true); return true;
    case VectorOp::combine: write_combination(out, false); return true;
    case VectorOp::dot: write_dot(out); return true;
    case VectorOp::max_abs: write_max_abs(out); return true;
    case VectorOp::segment_sum: write_segment_sum(out); return true;
    case VectorOp::sum_partials: write_sum_partials(out); return true;
    case VectorOp::max_partials: write_max_partials(out); return true;
    case VectorOp::point_norms: write_point_norms(out); return true;
    case VectorOp::trial_point: write_trial_point(out); return true;
    default: return false;
  }
}

}  // namespace topograd::codegen
