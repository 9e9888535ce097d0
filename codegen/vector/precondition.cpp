// Vector kernels of the block-Jacobi preconditioner.
#include "text.hpp"

#include <algorithm>

namespace topograd::codegen {
namespace {

// Position of (i, j) in a packed upper triangle.
std::uint32_t packed_position(std::uint32_t width, std::uint32_t i, std::uint32_t j) {
  const std::uint32_t row = std::min(i, j), column = std::max(i, j);
  return row * (2 * width - row + 1) / 2 + column - row;
}

void write_jacobi_scale(VectorText& out) {
  out.read({BufferRole::blocks});
  out.write({BufferRole::scale});
  out.scalars({});
  out.open_grid("i", "count * {W}");
  out.lines(R"(
uint b = i / {W};
uint j = i % {W};
uint diagonal = j * (2u * {W} - j + 1u) / 2u;
precise {S} norm = sqrt({S}(blocks[blocks_first + b * {P} + diagonal]));
precise {S} sum = scalars[slot_a] + norm;
precise {S} value = {S}(1) / sum;
scale[first + i] = sum > {S}(0) ? {T}(value) : {T}(0);
)");
  out.close();
}

// Norms in which a change of the unknowns' units cancels out.
void write_scaled_norms(VectorText& out) {
  out.read({BufferRole::gradient, BufferRole::first_operand, BufferRole::step, BufferRole::blocks});
  out.read_u32(BufferRole::fixed);
  declare_maximum(out.shader(), out.request().scalars);
  for (const char* sum : {"g_squared", "x_squared", "step_squared"}) out.begin_sum(sum);
  out.lines("{S} greatest = {S}(0);");
  out.open_grid("i", "count * {W}");
  out.lines(R"(
uint b = i / {W};
uint j = i % {W};
uint k = first + i;
uint diagonal = j * (2u * {W} - j + 1u) / 2u;
{S} h = {S}(blocks[blocks_first + b * {P} + diagonal]);
if (h == {S}(0) || (masked != 0u && fixed_scalars[k] != 0u)) continue;
{S} g = {S}(gradient[k]);
{S} x = {S}(first_operand[k]);
{S} d = {S}(delta[k]);
precise {S} scaled = g / sqrt(h);
)");
  out.add("g_squared", "scaled * scaled");
  out.add("x_squared", "h * x * x");
  out.add("step_squared", "h * d * d");
  out.lines("greatest = maximum(greatest, abs(scaled));");
  out.close();
  out.store_partial(0, "g_squared");
  out.store_partial(1, "x_squared");
  out.store_partial(2, "step_squared");
  out.store_partial_max(3, "greatest");
}

// Reads a block, damps its diagonal, and takes fixed scalars out of it.
void write_damped_block(VectorText& out) {
  out.lines(R"(
uint k = first + b * {W};
uint p = blocks_first + b * {P};
for (uint i = 0u; i < {W}; ++i) {
  for (uint j = i; j < {W}; ++j) {
    precise {S} value = {S}(blocks[p++]);
    if (i == j) {
      precise {S} squared = {S}(scale[k + i]) * {S}(scale[k + i]);
      precise {S} clamped = clamp(squared * value, scalars[MIN_DIAGONAL], scalars[MAX_DIAGONAL]);
      precise {S} added = scalars[LAMBDA] * clamped / squared;
      if (squared == {S}(0)) added = scalars[LAMBDA] * (value > {S}(0) ? value : {S}(1));
      if (masked != 0u && fixed_scalars[k + i] != 0u) added = {S}(0);
      damping[k + i] = {T}(added);
      value = value + added;
      if (masked != 0u && fixed_scalars[k + i] != 0u) value = {S}(1);
    } else if (masked != 0u && (fixed_scalars[k + i] != 0u || fixed_scalars[k + j] != 0u)) {
      value = {S}(0);
    }
    block[i * {W} + j] = value;
  }
}
)");
}

constexpr std::string_view kInvert = R"(
// Lower triangle of the inverse of the Cholesky factor of a block (of which the upper triangle is read);
// false, and the inverse roots of the diagonal, where the block is not positive definite.
bool inverse_factor({S} block[{W} * {W}], out {S} factor[{W} * {W}]) {
  bool positive = true;
  for (uint j = 0u; j < {W}; ++j) {
    for (uint i = j; i < {W}; ++i) {
      precise {S} value = block[j * {W} + i];
      for (uint k = 0u; k < j; ++k) value -= block[i * {W} + k] * block[j * {W} + k];
      if (i == j) {
        positive = positive && value > {S}(0) && !({not_finite});
        precise {S} root = sqrt(value);
        factor[j * {W} + j] = root;
      } else {
        precise {S} entry = value / factor[j * {W} + j];
        block[i * {W} + j] = entry;
      }
    }
  }
  for (uint j = 0u; j < {W}; ++j) {
    if (!positive) {
      {S} diagonal = block[j * {W} + j];
      precise {S} root = diagonal > {S}(0) ? {S}(1) / sqrt(diagonal) : {S}(1);
      for (uint i = 0u; i < {W}; ++i) factor[i * {W} + j] = i == j ? root : {S}(0);
      continue;
    }
    precise {S} pivot = {S}(1) / factor[j * {W} + j];
    factor[j * {W} + j] = pivot;
    for (uint i = j + 1u; i < {W}; ++i) {
      precise {S} sum = {S}(0);
      for (uint k = j; k < i; ++k) sum -= block[i * {W} + k] * factor[k * {W} + j];
      precise {S} entry = sum / factor[i * {W} + i];
      factor[i * {W} + j] = entry;
    }
  }
  return positive;
}
)";

void declare_inverse_factor(VectorText& out) {
  const std::string function =
      substitute(kInvert.substr(1), {{"not_finite", out.not_finite("value")}});
  out.shader().declare("inverse_factor", out.fill(function));
}

void write_precondition_blocks(VectorText& out) {
  out.read({BufferRole::blocks, BufferRole::scale});
  out.write({BufferRole::damping, BufferRole::inverse});
  out.scalars({Scalar::lambda, Scalar::min_diagonal, Scalar::max_diagonal});
  out.read_u32(BufferRole::fixed);
  declare_inverse_factor(out);
  out.open_grid("b");
  out.lines("{S} block[{W} * {W}];");
  write_damped_block(out);
  out.lines(R"(
{S} factor[{W} * {W}];
inverse_factor(block, factor);
p = blocks_first + b;
for (uint i = 0u; i < {W}; ++i) {
  for (uint j = i; j < {W}; ++j) {
    precise {S} sum = {S}(0);
    for (uint k = j; k < {W}; ++k) sum += factor[k * {W} + i] * factor[k * {W} + j];
    inverse_blocks[p] = {T}(sum);
    p += count;
  }
}
)");
  out.close();
}

// Of blocks in a list, whose damping is there: first scalar and place of the packed triangle.
void write_listed_inverses(VectorText& out) {
  out.read({BufferRole::blocks, BufferRole::damping});
  out.write({BufferRole::inverse});
  out.read_u32(BufferRole::entries);
  out.scalars({Scalar::zero});
  out.read_u32(BufferRole::fixed);
  declare_inverse_factor(out);
  out.open_grid("b");
  out.lines(R"(
{S} block[{W} * {W}];
uint k = entries[2u * (first + b)];
uint p = entries[2u * (first + b) + 1u];
for (uint i = 0u; i < {W}; ++i) {
  for (uint j = i; j < {W}; ++j) {
    precise {S} value = {S}(blocks[p++]);
    if (i == j) value = value + {S}(damping[k + i]);
    if (masked != 0u && (fixed_scalars[k + i] != 0u || fixed_scalars[k + j] != 0u)) {
      value = i == j ? {S}(1) : {S}(0);
    }
    block[i * {W} + j] = value;
  }
}
{S} factor[{W} * {W}];
bool positive = inverse_factor(block, factor);
precise {S} spoilt = positive ? {S}(0) : scalars[ZERO] / scalars[ZERO];
p = blocks_first + b;
for (uint i = 0u; i < {W}; ++i) {
  for (uint j = i; j < {W}; ++j) {
    precise {S} sum = spoilt;
    for (uint k = j; k < {W}; ++k) sum += factor[k * {W} + i] * factor[k * {W} + j];
    inverse_blocks[p] = {T}(sum);
    p += count;
  }
}
)");
  out.close();
}

void write_apply(VectorText& out) {
  out.read({BufferRole::first_operand});
  out.write({BufferRole::result});
  out.open_grid("b");
  out.lines("uint k = first + b * {W};");
  out.each("{T} r_{j} = first_operand[{k}];");
  write_apply_inverse(out);
  out.each("result[{k}] = z_{j};");
  out.close();
}

}  // namespace

void write_apply_inverse(VectorText& out) {
  out.read({BufferRole::inverse});
  for (std::uint32_t p = 0; p < out.packed(); ++p) {
    const std::string entry = p == 0   ? std::string("b")
                              : p == 1 ? std::string("count + b")
                                       : unsigned_literal(p) + " * count + b";
    out.lines(text("{T} m_", p, " = inverse_blocks[blocks_first + ", entry, "];"));
  }
  for (std::uint32_t j = 0; j < out.width(); ++j) {
    std::string sum;
    for (std::uint32_t k = 0; k < out.width(); ++k) {
      sum += text(k > 0 ? " + " : "", "m_", packed_position(out.width(), j, k), " * r_", k);
    }
    out.lines(text("precise {T} z_", j, " = ", sum, ";"));
  }
}

bool write_precondition(VectorText& out) {
  switch (out.request().op) {
    case VectorOp::jacobi_scale: write_jacobi_scale(out); return true;
    case VectorOp::scaled_norms: write_scaled_norms(out); return true;
    case VectorOp::precondition: write_precondition_blocks(out); return true;
    case VectorOp::schur_invert: write_listed_inverses(out); return true;
    case VectorOp::apply_preconditioner: write_apply(out); return true;
    default: return false;
  }
}

}  // namespace topograd::codegen
