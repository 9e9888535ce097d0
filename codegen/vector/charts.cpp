// Vector kernels of blocks on manifolds: between tangent coordinates and those of x.
#include "text.hpp"

namespace topograd::codegen {
namespace {

// `basis` as second_operand: entry (i, j) of P of block b at (i * width + j) * count + b.
constexpr std::string_view kEntry = "second_operand[({row} * {W} + {column}) * count + b]";

std::string entry(std::string_view row, std::string_view column) {
  return substitute(kEntry, {{"row", std::string(row)}, {"column", std::string(column)}});
}

void open_chart_blocks(VectorText& out) {
  out.read({BufferRole::second_operand});
  out.read_u32(BufferRole::outputs);
  out.open_grid("b");
  out.lines("uint k = outputs[b];");
}

// v_i = Σ_j P_ij d_j, and d_j = Σ_i P_ij v_i.
void write_chart_product(VectorText& out, bool transposed) {
  const std::string_view from = transposed ? "result" : "first_operand";
  out.lines(substitute(
      R"(
{T} given[{W}];
for (uint j = 0u; j < {W}; ++j) given[j] = {from}[k + j];
for (uint i = 0u; i < {W}; ++i) {
  precise {T} sum = {T}(0);
  for (uint j = 0u; j < {W}; ++j) sum += {entry} * given[j];
  result[k + i] = sum;
}
)",
      {{"from", std::string(from)}, {"entry", transposed ? entry("j", "i") : entry("i", "j")}}));
}

void write_chart_expand(VectorText& out) {
  out.read({BufferRole::first_operand});
  out.write({BufferRole::result});
  open_chart_blocks(out);
  write_chart_product(out, false);
  out.close();
}

void write_contract(VectorText& out) {
  out.update({BufferRole::result});
  open_chart_blocks(out);
  write_chart_product(out, true);
  out.close();
}

void write_contract_packed(VectorText& out) {
  out.update({BufferRole::blocks});
  out.read({BufferRole::second_operand});
  out.read_u32(BufferRole::starts);
  out.open_grid("b");
  out.lines(substitute(R"(
uint p = starts[b];
{S} block[{W} * {W}];
for (uint i = 0u; i < {W}; ++i) {
  for (uint j = i; j < {W}; ++j) {
    {S} value = {S}(blocks[p++]);
    block[i * {W} + j] = value;
    block[j * {W} + i] = value;
  }
}
{S} moved[{W} * {W}];
for (uint i = 0u; i < {W}; ++i) {
  for (uint j = 0u; j < {W}; ++j) {
    precise {S} sum = {S}(0);
    for (uint l = 0u; l < {W}; ++l) sum += block[i * {W} + l] * {S}({lj});
    moved[i * {W} + j] = sum;
  }
}
p = starts[b];
for (uint i = 0u; i < {W}; ++i) {
  for (uint j = i; j < {W}; ++j) {
    precise {S} sum = {S}(0);
    for (uint l = 0u; l < {W}; ++l) sum += {S}({li}) * moved[l * {W} + j];
    blocks[p++] = {T}(sum);
  }
}
)",
                       {{"lj", entry("l", "j")}, {"li", entry("l", "i")}}));
  out.close();
}

void write_scatter_rows(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::second_operand});
  out.write({BufferRole::result});
  out.read_u32(BufferRole::outputs);
  out.scalars({Scalar::zero});
  out.lines(R"(
{T} a = {T}(scalars[slot_a]);
{T} c = {T}(scalars[slot_b]);
)");
  out.open_grid("b");
  out.lines(R"(
uint k = outputs[b];
for (uint j = 0u; j < {W}; ++j) {
  precise {T} value = a * first_operand[j * count + b];
  if (slot_b != ZERO) value = value + c * second_operand[k + j];
  result[k + j] = value;
}
)");
  out.close();
}

}  // namespace

bool write_charts(VectorText& out) {
  switch (out.request().op) {
    case VectorOp::expand: write_chart_expand(out); return true;
    case VectorOp::contract: write_contract(out); return true;
    case VectorOp::contract_packed: write_contract_packed(out); return true;
    case VectorOp::scatter_rows: write_scatter_rows(out); return true;
    default: return false;
  }
}

}  // namespace topograd::codegen
