// Vector kernels of the Schur complement: its blocks from Jacobians, products, elimination and
// back. Source: Triggs, McLauchlan, Hartley, Fitzgibbon, Bundle Adjustment: A Modern Synthesis
// (2000), section 6.1.
#include "text.hpp"

namespace topograd::codegen {
namespace {

void write_damping(VectorText& out) {
  out.read({BufferRole::blocks, BufferRole::scale});
  out.write({BufferRole::damping});
  out.read_u32(BufferRole::entries);
  out.scalars({Scalar::lambda, Scalar::min_diagonal, Scalar::max_diagonal});
  out.read_u32(BufferRole::fixed);
  out.open_grid("i");
  out.lines(R"(
precise {S} squared = {S}(scale[i]) * {S}(scale[i]);
precise {S} scaled = squared * {S}(blocks[entries[i]]);
{S} clamped = clamp(scaled, scalars[MIN_DIAGONAL], scalars[MAX_DIAGONAL]);
precise {S} added = scalars[LAMBDA] * clamped / squared;
{S} diagonal = {S}(blocks[entries[i]]);
if (squared == {S}(0)) added = scalars[LAMBDA] * (diagonal > {S}(0) ? diagonal : {S}(1));
)");
  out.lines("if (masked != 0u && fixed_scalars[i] != 0u) added = {S}(0);");
  out.lines("damping[i] = {T}(added);");
  out.close();
}

// One invocation an entry of a meeting of two blocks: Σ over what they share of J_rowsᵀ J_columns.
void write_meetings(VectorText& out) {
  out.read({BufferRole::first_operand});
  out.update({BufferRole::result});
  for (const BufferRole role :
       {BufferRole::starts, BufferRole::entries, BufferRole::outputs, BufferRole::owners}) {
    out.read_u32(role);
  }
  out.read_u32(BufferRole::fixed);
  open_entries(out, "m");
  add_jacobian_products(out);
  out.lines(R"(
bool fixed_row = masked != 0u && fixed_scalars[outputs[3u * m + 1u] + a] != 0u;
bool fixed_column = masked != 0u && fixed_scalars[outputs[3u * m + 2u] + b] != 0u;
if (fixed_row || fixed_column) sum = {S}(0);
)");
  out.lines(R"(
uint o = outputs[3u * m] + i % area;
if (overwrite == 0u) sum = {S}(result[o]) + sum;
result[o] = {T}(sum);
)");
  out.close();
}

// E C⁻¹ of meetings of slot_a rows and slot_b columns, an invocation an entry.
void write_coupling(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::inverse});
  out.write({BufferRole::result});
  out.read_u32(BufferRole::entries);
  use_packed(out);
  out.open_grid("i");
  out.lines(R"(
uint area = slot_a * slot_b;
uint m = first + i / area;
uint a = i % area / slot_b;
uint t = i % slot_b;
uint row = entries[2u * m] + a * slot_b;
uint block = blocks_first + entries[2u * m + 1u];
precise {S} sum = {S}(0);
for (uint s = 0u; s < slot_b; ++s) {
  uint at = block + packed(slot_b, s, t) * out_stride;
  sum += {S}(first_operand[row + s]) * {S}(inverse_blocks[at]);
}
result[row + t] = {T}(sum);
)");
  out.close();
}

// Sums of products (E C⁻¹) Eᵀ, an invocation an entry of a piece; out_stride columns inside.
void write_pieces(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::second_operand});
  out.write({BufferRole::result});
  for (const BufferRole role : {BufferRole::starts, BufferRole::entries, BufferRole::outputs})
    out.read_u32(role);
  open_entries(out, "piece");
  out.lines(R"(
uint end = starts[piece + 1u];
precise {S} sum = {S}(0);
for (uint e = starts[piece]; e < end; ++e) {
  uint left = entries[2u * e] + a * out_stride;
  uint right = entries[2u * e + 1u] + b * out_stride;
  for (uint t = 0u; t < out_stride; ++t) {
    sum += {S}(first_operand[left + t]) * {S}(second_operand[right + t]);
  }
}
result[outputs[piece] + i % area] = {T}(sum);
)");
  out.close();
}

// Blocks of S = B + Λ − its pieces, both triangles; diagonal ones packed as well.
void write_blocks(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::second_operand, BufferRole::blocks,
            BufferRole::damping});
  out.write({BufferRole::result, BufferRole::rotated});
  for (const BufferRole role : {BufferRole::starts, BufferRole::entries, BufferRole::outputs})
    out.read_u32(role);
  out.read_u32(BufferRole::owners);
  out.read_u32(BufferRole::fixed);
  use_packed(out);
  open_entries(out, "m");
  out.lines(R"(
uint word = 7u * m;
uint meeting = outputs[word];
uint scalar = outputs[word + 5u];
bool diagonal = scalar != 0xffffffffu;
if (diagonal && b < a) continue;
precise {S} sum = {S}(0);
if (diagonal) {
  sum = {S}(blocks[owners[scalar] + packed(slot_b, a, b)]);
  if (a == b) sum = sum + {S}(damping[scalar + a]);
} else if (meeting != 0xffffffffu) {
  sum = {S}(second_operand[meeting + i % area]);
}
)");
  out.lines(R"(
if (masked != 0u && diagonal && (fixed_scalars[scalar + a] != 0u || fixed_scalars[scalar + b] != 0u)) {
  sum = a == b ? {S}(1) : {S}(0);
}
)");
  out.lines(R"(
uint end = starts[m + 1u];
for (uint e = starts[m]; e < end; ++e) sum -= {S}(first_operand[entries[e] + i % area]);
{T} value = {T}(sum);
result[outputs[word + 1u] + a * outputs[word + 2u] + b] = value;
result[outputs[word + 3u] + b * outputs[word + 4u] + a] = value;
if (diagonal) rotated[outputs[word + 6u] + packed(slot_b, a, b)] = value;
)");
  out.close();
}

// {W} neighbouring invocations share a row: their sums come together in the first of them.
void add_row_sums(VectorText& out) {
  out.shader().declare("row_sums", out.fill("shared {S} row_sums[{G}];"));
  out.lines(R"(
row_sums[gl_LocalInvocationIndex] = sum;
barrier();
for (uint other = {W} / 2u; other > 0u; other >>= 1u) {
  if (lane < other) row_sums[gl_LocalInvocationIndex] += row_sums[gl_LocalInvocationIndex + other];
  barrier();
}
)");
}

// Every invocation of a workgroup goes through the loop as often as the others.
void open_rows(VectorText& out) {
  out.lines(R"(
uint lane = gl_LocalInvocationIndex % {W};
uint rows = {G} / {W};
uint grid = gl_NumWorkGroups.x * rows;
)");
  out.shader().body().open("for (uint base = gl_WorkGroupID.x * rows; base < count; base += grid)");
  out.lines(R"(
uint row = base + gl_LocalInvocationIndex / {W};
precise {S} sum = {S}(0);
)");
}

// result = the gradient by kept unknowns less E C⁻¹ times that by eliminated ones.
void write_gradient(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::gradient});
  out.write({BufferRole::result});
  for (const BufferRole role :
       {BufferRole::starts, BufferRole::entries, BufferRole::outputs, BufferRole::owners}) {
    out.read_u32(role);
  }
  open_rows(out);
  out.shader().body().open("if (row < count)");
  out.lines(R"(
uint block = outputs[5u * row + 3u];
uint a = outputs[5u * row + 4u];
uint end = starts[block + 1u];
for (uint e = starts[block] + lane; e < end; e += {W}) {
  uint width = entries[3u * e + 2u];
  uint left = entries[3u * e] + a * width;
  uint right = entries[3u * e + 1u];
  for (uint t = 0u; t < width; ++t) sum += {S}(first_operand[left + t]) * {S}(gradient[right + t]);
}
)");
  out.close();
  add_row_sums(out);
  out.lines(R"(
if (row < count && lane == 0u) {
  precise {S} value = {S}(gradient[owners[row]]) - row_sums[gl_LocalInvocationIndex];
  result[row] = {T}(value);
}
)");
  out.close();
}

// An iteration's direction and its product with S in one: next_direction = preconditioned + β
// direction, which every row reads as it makes it.
void write_schur_product(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::preconditioned, BufferRole::direction});
  out.write({BufferRole::next_direction, BufferRole::product});
  out.read_u32(BufferRole::outputs);
  out.read_u32(BufferRole::entries);
  out.conjugate().open_direction(true);
  out.begin_sum("pq");
  open_rows(out);
  out.shader().body().open("if (row < count)");
  out.lines(R"(
uint values = outputs[5u * row];
uint columns = outputs[5u * row + 1u];
uint end = outputs[5u * row + 2u];
for (uint e = lane; e < end; e += {W}) {
  uint c = entries[columns + e];
  precise {T} p = preconditioned[c] + {T}(beta) * direction[c];
  sum += {S}(first_operand[values + e]) * {S}(p);
}
)");
  out.close();
  add_row_sums(out);
  out.shader().body().open("if (row < count && lane == 0u)");
  out.lines(R"(
precise {T} p = preconditioned[row] + {T}(beta) * direction[row];
{T} q = {T}(row_sums[gl_LocalInvocationIndex]);
next_direction[row] = p;
product[row] = q;
)");
  out.add("pq", "{S}(p) * {S}(q)");
  out.close();
  out.close();
  out.store_partial(0, "pq", BufferRole::curvature);
}

// δ of eliminated blocks, slot_b unknowns each, from that of kept ones, first_operand.
void write_back(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::second_operand, BufferRole::inverse,
            BufferRole::gradient});
  out.write({BufferRole::step});
  for (const BufferRole role : {BufferRole::starts, BufferRole::entries, BufferRole::outputs})
    out.read_u32(role);
  use_packed(out);
  out.open_grid("i");
  out.lines(R"(
uint block = i / slot_b;
uint t = i % slot_b;
uint scalar = outputs[first + block];
precise {S} sum = {S}(0);
for (uint s = 0u; s < slot_b; ++s) {
  uint at = blocks_first + block + packed(slot_b, s, t) * out_stride;
  sum -= {S}(inverse_blocks[at]) * {S}(gradient[scalar + s]);
}
uint end = starts[first + block + 1u];
for (uint e = starts[first + block]; e < end; ++e) {
  uint column = entries[3u * e] + t;
  uint kept = entries[3u * e + 1u];
  uint rows = entries[3u * e + 2u];
  for (uint a = 0u; a < rows; ++a) {
    sum -= {S}(second_operand[column + a * slot_b]) * {S}(first_operand[kept + a]);
  }
}
delta[scalar + t] = {T}(sum);
)");
  out.close();
}

void write_scatter(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::second_operand});
  out.write({BufferRole::step, BufferRole::residual});
  out.read_u32(BufferRole::owners);
  out.open_grid("i");
  out.lines(R"(
delta[owners[i]] = first_operand[i];
residual[owners[i]] = second_operand[i];
)");
  out.close();
}

}  // namespace

bool write_schur(VectorText& out) {
  switch (out.request().op) {
    case VectorOp::schur_damping: write_damping(out); return true;
    case VectorOp::schur_meetings: write_meetings(out); return true;
    case VectorOp::schur_coupling: write_coupling(out); return true;
    case VectorOp::schur_pieces: write_pieces(out); return true;
    case VectorOp::schur_blocks: write_blocks(out); return true;
    case VectorOp::schur_gradient: write_gradient(out); return true;
    case VectorOp::schur_product: write_schur_product(out); return true;
    case VectorOp::schur_back: write_back(out); return true;
    case VectorOp::schur_scatter: write_scatter(out); return true;
    default: return false;
  }
}

}  // namespace topograd::codegen
