// Vector kernels of steps along gradients: Adam, momentum, and directions from a history.
#include "text.hpp"

namespace topograd::codegen {
namespace {

/// Declares the rule's numbers, which follow each other in the scalar buffer from slot_a on.
void read_numbers(VectorText& out, std::initializer_list<std::string_view> names) {
  out.scalars({});
  std::uint32_t place = 0;
  for (const std::string_view name : names) {
    out.lines(text("{T} ", name, " = {T}(scalars[slot_a + ", place, "u]);"));
    ++place;
  }
}

void open_coordinates(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::gradient});
  out.update({BufferRole::direction});
  out.write({BufferRole::result});
  out.begin_sum("squared");
  out.open_grid("i");
  out.lines(R"(
uint k = first + i;
{T} x = first_operand[k];
{T} g = gradient[k];
)");
}

void close_coordinates(VectorText& out) {
  out.lines("result[k] = x + moved;");
  out.add("squared", "{S}(moved) * {S}(moved)");
  out.close();
  out.store_partial(0, "squared");
}

void write_adam(VectorText& out) {
  read_numbers(out, {"rate", "beta1", "beta2", "mean_bias", "square_bias", "epsilon", "decay"});
  out.update({BufferRole::scale});
  open_coordinates(out);
  out.lines(R"(
precise {T} mean = beta1 * direction[k] + ({T}(1) - beta1) * g;
precise {T} square = beta2 * scale[k] + ({T}(1) - beta2) * g * g;
direction[k] = mean;
scale[k] = square;
precise {T} moved = -rate * (mean / mean_bias) / (sqrt(square / square_bias) + epsilon);
if (decay != {T}(0) && square != {T}(0)) moved -= decay * x;
)");
  close_coordinates(out);
}

void write_momentum(VectorText& out) {
  read_numbers(out, {"rate", "momentum"});
  open_coordinates(out);
  out.lines(R"(
precise {T} mean = momentum * direction[k] + g;
direction[k] = mean;
precise {T} moved = -rate * mean;
)");
  close_coordinates(out);
}

/// Numbers of the history are as wide as sums.
void write_combine_history(VectorText& out) {
  out.read({BufferRole::gradient, BufferRole::second_operand});
  out.update({BufferRole::result});
  out.shader().use(BufferRole::coarse_in, element_of(out.request().scalars));
  out.begin_sum("slope");
  out.begin_sum("squared");
  out.open_grid("i");
  out.lines(R"(
{S} g = {S}(gradient[i]);
precise {S} sum = overwrite == 0u ? {S}(result[i]) : coarse_in[0] * g;
for (uint v = 0u; v < slot_a; ++v) {
  {S} factor = coarse_in[blocks_first + v];
  if (factor != {S}(0)) sum += factor * {S}(second_operand[v * first + i]);
}
{T} combined = {T}(sum);
result[i] = combined;
)");
  out.add("slope", "{S}(combined) * g");
  out.add("squared", "{S}(combined) * {S}(combined)");
  out.close();
  out.store_partial(0, "slope");
  out.store_partial(1, "squared");
}

void write_history_dots(VectorText& out) {
  out.read({BufferRole::second_operand, BufferRole::step, BufferRole::first_operand,
            BufferRole::gradient});
  for (const auto* sum : {"with_step", "with_operand", "with_gradient"}) out.begin_sum(sum);
  out.lines(R"(
uint start = gl_WorkGroupID.x / slot_b * first;
uint begin = gl_WorkGroupID.x % slot_b * {G} + gl_LocalInvocationIndex;
)");
  out.shader().body().open(out.fill("for (uint i = begin; i < count; i += slot_b * {G})"));
  out.lines("{S} v = {S}(second_operand[start + i]);");
  out.add("with_step", "v * {S}(delta[i])");
  out.add("with_operand", "v * {S}(first_operand[i])");
  out.add("with_gradient", "v * {S}(gradient[i])");
  out.close();
  out.store_partial(0, "with_step");
  out.store_partial(1, "with_operand");
  out.store_partial(2, "with_gradient");
}

}  // namespace

bool write_first_order(VectorText& out) {
  switch (out.request().op) {
    case VectorOp::adam: write_adam(out); return true;
    case VectorOp::momentum: write_momentum(out); return true;
    case VectorOp::combine_history: write_combine_history(out); return true;
    case VectorOp::history_dots: write_history_dots(out); return true;
    default: return false;
  }
}

}  // namespace topograd::codegen
