// Vector kernels of JᵀJ by rows of blocks: its blocks from Jacobians, and products with it.
#include "text.hpp"

#include <algorithm>

namespace topograd::codegen {
namespace {

// One invocation an entry of a block above the diagonal: Σ over what two blocks share of
// J_rowsᵀ J_columns, written there and to the transpose.
void write_matrix_blocks(VectorText& out) {
  out.read({BufferRole::first_operand});
  out.update({BufferRole::result});
  for (const BufferRole role :
       {BufferRole::starts, BufferRole::entries, BufferRole::outputs, BufferRole::owners}) {
    out.read_u32(role);
  }
  open_entries(out, "m");
  add_jacobian_products(out);
  out.lines(R"(
uint o = outputs[4u * m] + a * outputs[4u * m + 1u] + b;
if (overwrite == 0u) sum = {S}(result[o]) + sum;
result[o] = {T}(sum);
result[outputs[4u * m + 2u] + b * outputs[4u * m + 3u] + a] = {T}(sum);
)");
  out.close();
}

// An invocation an entry of a diagonal block.
void write_matrix_diagonal(VectorText& out) {
  out.read({BufferRole::blocks});
  out.write({BufferRole::result});
  out.read_u32(BufferRole::outputs);
  use_packed(out);
  out.open_grid("i");
  out.lines(R"(
uint block = i / ({W} * {W});
uint a = i % ({W} * {W}) / {W};
uint b = i % {W};
uint word = 4u * (first + block);
uint o = outputs[word] + a * outputs[word + 2u] + outputs[word + 3u] + b;
result[o] = blocks[blocks_first + block * {P} + packed({W}, a, b)];
)");
  out.close();
}

// `slot_a` invocations share a row of blocks, all of whose scalar rows have the same columns.
void open_matrix_rows(VectorText& out) {
  out.lines(R"(
uint lane = gl_LocalInvocationIndex % slot_a;
uint rows = {G} / slot_a;
uint grid = gl_NumWorkGroups.x * rows;
)");
  out.shader().body().open("for (uint base = gl_WorkGroupID.x * rows; base < count; base += grid)");
  out.lines("uint block = base + gl_LocalInvocationIndex / slot_a;");
  out.each("precise {S} sum_{j} = {S}(0);");
  out.shader().body().open("if (block < count)");
  out.lines(R"(
uint word = 4u * (first + block);
uint columns = outputs[word + 1u];
uint length = outputs[word + 2u];
)");
  for (std::uint32_t j = 0; j < out.width(); ++j) {
    out.shader().body().line(j == 0 ? "uint values_0 = outputs[word];"
                                    : text("uint values_", j, " = values_", j - 1, " + length;"));
  }
}

// Sums of a row of blocks times `direction`, two columns at a time: loads of both are on their way
// together.
void add_matrix_row(VectorText& out) {
  out.lines("uint e = lane;");
  out.shader().body().open("for (; e + slot_a < length; e += 2u * slot_a)");
  out.lines(R"(
uint next = e + slot_a;
{T} p = direction[entries[columns + e]];
{T} p_next = direction[entries[columns + next]];
)");
  out.each("{T} a_{j} = first_operand[values_{j} + e];");
  out.each("{T} b_{j} = first_operand[values_{j} + next];");
  out.each("sum_{j} += {S}(a_{j}) * {S}(p);");
  out.each("sum_{j} += {S}(b_{j}) * {S}(p_next);");
  out.close();
  out.shader().body().open("if (e < length)");
  out.lines("{T} p = direction[entries[columns + e]];");
  out.each("sum_{j} += {S}(first_operand[values_{j} + e]) * {S}(p);");
  out.close();
  out.close();
}

// Sums come together in the first invocation of each row, kSumsAtOnce coordinates at a time.
void close_matrix_rows(VectorText& out) {
  constexpr std::uint32_t kSumsAtOnce = 4;
  const std::uint32_t together = std::min(out.width(), kSumsAtOnce);
  out.shader().declare("row_sums", out.fill(text("shared {S} row_sums[", together, " * {G}];")));
  const auto each = [&](std::uint32_t first, std::string_view pattern) {
    for (std::uint32_t j = first; j < std::min(first + together, out.width()); ++j) {
      const std::string at = text("row_sums[", j - first, "u * {G} + gl_LocalInvocationIndex");
      out.lines(substitute(pattern, {{"at", at}, {"j", std::to_string(j)}}));
    }
  };
  for (std::uint32_t first = 0; first < out.width(); first += together) {
    each(first, "{at}] = sum_{j};");
    out.lines("barrier();");
    out.shader().body().open("for (uint other = slot_a / 2u; other > 0u; other >>= 1u)");
    out.shader().body().open("if (lane < other)");
    each(first, "{at}] += {at} + other];");
    out.close();
    out.lines("barrier();");
    out.close();
    each(first, "sum_{j} = {at}];");
    if (first + together < out.width()) out.lines("barrier();");
  }
  out.shader().body().open("if (block < count && lane == 0u)");
  out.lines("uint k = blocks_first + block * {W};");
}

void open_matrix_products(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::direction});
  out.write({BufferRole::product});
  out.read_u32(BufferRole::outputs);
  out.read_u32(BufferRole::entries);
}

void close_matrix_products(VectorText& out) {
  out.close();
  out.lines("barrier();");
  out.close();
}

void write_matrix_multiply(VectorText& out) {
  open_matrix_products(out);
  open_matrix_rows(out);
  add_matrix_row(out);
  close_matrix_rows(out);
  out.each("product[{k}] = {T}(sum_{j});");
  close_matrix_products(out);
}

// The damped product of an iteration, and its curvature.
void write_matrix_product(VectorText& out) {
  open_matrix_products(out);
  out.read({BufferRole::damping});
  out.predicate(BufferRole::decision);
  out.begin_sum("pq");
  open_matrix_rows(out);
  add_matrix_row(out);
  close_matrix_rows(out);
  out.each("{T} p_{j} = direction[{k}];");
  out.each("precise {T} q_{j} = {T}(sum_{j}) + damping[{k}] * p_{j};");
  out.each("product[{k}] = q_{j};");
  std::string pq;
  for (std::uint32_t j = 0; j < out.width(); ++j)
    pq += text(j > 0 ? " + " : "", "{S}(p_", j, ") * {S}(q_", j, ")");
  out.add("pq", pq);
  close_matrix_products(out);
  out.store_partial(0, "pq", BufferRole::curvature);
}

}  // namespace

bool write_matrix(VectorText& out) {
  switch (out.request().op) {
    case VectorOp::matrix_blocks: write_matrix_blocks(out); return true;
    case VectorOp::matrix_diagonal: write_matrix_diagonal(out); return true;
    case VectorOp::matrix_multiply: write_matrix_multiply(out); return true;
    case VectorOp::matrix_product: write_matrix_product(out); return true;
    default: return false;
  }
}

}  // namespace topograd::codegen
