// Vector kernels of the two-level preconditioner: vectors on aggregates, their matrix, its inverse.
#include "text.hpp"

namespace topograd::codegen {
namespace {

// Numbers of coarse unknowns are as wide as sums.
void use_sums(VectorText& out, std::initializer_list<BufferRole> roles, Access access) {
  for (const BufferRole role : roles) {
    out.shader().use(role, element_of(out.request().scalars), access);
  }
}

// Within an iteration: nothing where the update has stopped.
void stop_with_solver(VectorText& out) {
  if (!out.request().predicated) return;
  out.scalars({Scalar::next_state});
  out.lines("if (scalars[NEXT_STATE] != {S}(0)) return;  // the solver is done");
}

void write_vectors(VectorText& out) {
  out.read({BufferRole::x, BufferRole::first_operand});
  out.write({BufferRole::coarse_vectors});
  out.read_u32(BufferRole::entries);
  out.open_grid("i");
  out.lines(R"(
uint from = entries[i];
precise {T} value = first_operand[i];
if (from != 0xffffffffu) {
  {T} at = x[from & 0x7fffffffu];
  value = value + ((from >> 31u) != 0u ? -at : at);
}
coarse_vectors[i] = value;
)");
  out.close();
}

void write_expand(VectorText& out) {
  stop_with_solver(out);
  out.read({BufferRole::coarse_vectors});
  out.update({BufferRole::result});
  use_sums(out, {BufferRole::coarse_in}, Access::read);
  out.read_u32(BufferRole::entries);
  out.read_u32(BufferRole::owners);
  out.open_grid("e");
  out.lines(R"(
uint k = first + owners[e] * {W};
precise {T} sum = {T}(0);
for (uint f = 0u; f < {W}; ++f) sum += {T}(coarse_in[k + f]) * coarse_vectors[f * count + e];
uint s = entries[e];
if (overwrite == 0u) sum = result[s] + sum;
result[s] = sum;
)");
  out.close();
}

void write_answer(VectorText& out) {
  out.read({BufferRole::first_operand});
  out.update({BufferRole::result});
  use_sums(out, {BufferRole::coarse_in}, Access::read);
  out.read_u32(BufferRole::entries);
  out.read_u32(BufferRole::owners);
  out.read_u32(BufferRole::outputs);
  out.open_grid("e");
  out.lines(R"(
if (outputs[e] == 0u) continue;
uint k = first + owners[e] * {W};
{T} answer = first_operand[entries[e]];
for (uint f = 0u; f < {W}; ++f) {
  precise {T} sum = result[f * count + e] - {T}(coarse_in[k + f]) * answer;
  result[f * count + e] = sum;
}
)");
  out.close();
}

// A workgroup for each aggregate: f(f, total) writes the total of vector f in invocation 0.
template <class Value, class Store>
void write_totals(VectorText& out, const Value& value, const Store& store) {
  out.read({BufferRole::coarse_vectors, BufferRole::first_operand});
  use_sums(out, {BufferRole::coarse_out}, Access::write);
  out.read_u32(BufferRole::entries);
  out.read_u32(BufferRole::starts);
  for (std::uint32_t f = 0; f < out.width(); ++f) out.begin_sum(text("sum_", f));
  out.lines(R"(
uint g = gl_WorkGroupID.x;
uint end = starts[g + 1u];
)");
  out.shader().body().open(
      out.fill("for (uint e = starts[g] + gl_LocalInvocationIndex; e < end; e += {G})"));
  value();
  for (std::uint32_t f = 0; f < out.width(); ++f) {
    const std::string at = f == 0 ? "e" : text(unsigned_literal(f), " * count + e");
    out.add(text("sum_", f), text("{S}(coarse_vectors[", at, "]) * {S}(value)"));
  }
  out.close();
  for (std::uint32_t f = 0; f < out.width(); ++f) {
    out.lines(text("{S} total_", f, " = ", out.workgroup_total(text("sum_", f)), ";"));
  }
  out.shader().body().open("if (gl_LocalInvocationIndex == 0u)");
  store();
  out.close();
}

void write_restrict(VectorText& out) {
  stop_with_solver(out);
  write_totals(
      out, [&] { out.lines("{T} value = first_operand[entries[e]];"); },
      [&] {
        for (std::uint32_t f = 0; f < out.width(); ++f) {
          out.lines(text("coarse_out[g * {W} + ", f, "u] = total_", f, ";"));
        }
      });
}

// Column `slot_a` of the aggregates of one colour; `first` is the place of that colour's sources.
void write_column(VectorText& out) {
  out.read({BufferRole::direction, BufferRole::damping});
  out.read_u32(BufferRole::outputs);
  // Dependent vectors give a singular matrix: its diagonal is raised a little.
  const double shift = out.request().vectors == Precision::f64 ? 1e-12 : 1e-6;
  const std::string raised = literal(1 + shift, out.request().scalars);
  write_totals(
      out,
      [&] {
        out.lines(R"(
uint s = entries[e];
precise {T} value = first_operand[s] + damping[s] * direction[s];
)");
      },
      [&] {
        out.lines(R"(
uint source = outputs[first + g];
if (source == 0xffffffffu) return;
uint column = source * {W} + slot_a;
uint row = g * {W};
)");
        for (std::uint32_t f = 0; f < out.width(); ++f) {
          const std::string row = f == 0 ? "row" : text("row + ", unsigned_literal(f));
          out.lines(text("if (", row, " == column) {"));
          out.lines(text("  total_", f, " = total_", f, " > {S}(0) ? total_", f, " * ", raised,
                         " : {S}(1);"));
          out.lines("}");
          out.lines(text("coarse_out[(", row, ") * out_stride + column] = total_", f, ";"));
        }
      });
}

// Rows of a panel of slot_a pivots from `first` on, their own block B taken out: partials = B⁻¹ A
// of these rows, and B⁻¹ itself at the columns of the panel. B is inverted by every workgroup for
// itself, pivot by pivot; a pivot that is not positive leaves its row and column out.
void write_panel(VectorText& out) {
  use_sums(out, {BufferRole::coarse_in}, Access::read);
  use_sums(out, {BufferRole::partials}, Access::write);
  out.shader().declare("panel_block", out.fill("shared {S} panel_block[2u * {W} * {W}];"));
  out.lines(R"(
uint n = out_stride;
uint size = slot_a * slot_a;
for (uint k = gl_LocalInvocationIndex; k < size; k += {G}) {
  uint row = k / slot_a;
  panel_block[k] = coarse_in[(first + row) * n + first + (k - row * slot_a)];
}
uint from = 0u;
for (uint p = 0u; p < slot_a; ++p) {
  barrier();
  uint to = {W} * {W} - from;
  {S} pivot = panel_block[from + p * slot_a + p];
  precise {S} inverse_pivot = pivot > {S}(0) ? {S}(1) / pivot : {S}(0);
  for (uint k = gl_LocalInvocationIndex; k < size; k += {G}) {
    uint row = k / slot_a;
    uint column = k - row * slot_a;
    {S} left = panel_block[from + row * slot_a + p];
    {S} above = panel_block[from + p * slot_a + column];
    precise {S} value = panel_block[from + k] - left * (inverse_pivot * above);
    if (row == p && column == p) {
      value = inverse_pivot;
    } else if (row == p) {
      value = inverse_pivot * above;
    } else if (column == p) {
      value = -left * inverse_pivot;
    }
    panel_block[to + k] = value;
  }
  from = to;
}
barrier();
)");
  out.open_grid("j");
  out.lines(R"(
bool inside = j - first < slot_a;
for (uint b = 0u; b < slot_a; ++b) {
  uint row = from + b * slot_a;
  precise {S} value = {S}(0);
  if (inside) {
    value = panel_block[row + j - first];
  } else {
    for (uint c = 0u; c < slot_a; ++c) {
      value = value + panel_block[row + c] * coarse_in[(first + c) * n + j];
    }
  }
  partials[b * n + j] = value;
}
)");
  out.close();
}

// Gauss–Jordan elimination in place, panel by panel, from one matrix of out_stride rows to another:
// write_panel() has made the rows of this one. Its columns count as 0 before.
// Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 14.4.
void write_eliminate(VectorText& out) {
  use_sums(out, {BufferRole::coarse_in, BufferRole::partials}, Access::read);
  use_sums(out, {BufferRole::coarse_out}, Access::write);
  out.lines("uint n = out_stride;");
  out.open_grid("i");
  out.lines(R"(
uint row = i / n;
uint column = i - row * n;
precise {S} value = {S}(0);
if (row - first < slot_a) {
  value = partials[(row - first) * n + column];
} else {
  if (column - first >= slot_a) value = coarse_in[i];
  uint left = row * n + first;
  for (uint b = 0u; b < slot_a; ++b) {
    value = value - coarse_in[left + b] * partials[b * n + column];
  }
}
coarse_out[i] = value;
)");
  out.close();
}

// A workgroup for each row; its part of r·z goes beside those of the blocks.
void write_multiply(VectorText& out) {
  stop_with_solver(out);
  use_sums(out, {BufferRole::coarse_matrix, BufferRole::coarse_in}, Access::read);
  use_sums(out, {BufferRole::coarse_out, BufferRole::partials}, Access::write);
  out.begin_sum("sum");
  out.lines("uint row = gl_WorkGroupID.x;");
  out.shader().body().open(out.fill("for (uint k = gl_LocalInvocationIndex; k < count; k += {G})"));
  out.add("sum", "coarse_matrix[row * count + k] * coarse_in[k]");
  out.close();
  out.lines(text("{S} total = ", out.workgroup_total("sum"), ";"));
  out.lines(R"(
if (gl_LocalInvocationIndex == 0u) {
  coarse_out[row] = total;
  precise {S} product = total * coarse_in[row];
  partials[out_first + row] = product;
  partials[out_first + out_stride + row] = {S}(0);
}
)");
}

}  // namespace

bool write_coarse(VectorText& out) {
  switch (out.request().op) {
    case VectorOp::coarse_vectors: write_vectors(out); return true;
    case VectorOp::coarse_expand: write_expand(out); return true;
    case VectorOp::coarse_answer: write_answer(out); return true;
    case VectorOp::coarse_column: write_column(out); return true;
    case VectorOp::coarse_panel: write_panel(out); return true;
    case VectorOp::coarse_eliminate: write_eliminate(out); return true;
    case VectorOp::coarse_restrict: write_restrict(out); return true;
    case VectorOp::coarse_multiply: write_multiply(out); return true;
    default: return false;
  }
}

}  // namespace topograd::codegen
