// Vector kernels of steps along gradients: Adam and momentum.
#include <topograd/codegen/vector_text.hpp>

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

}  // namespace

bool write_first_order(VectorText& out) {
  switch (out.request().op) {
    case VectorOp::adam: write_adam(out); return true;
    case VectorOp::momentum: write_momentum(out); return true;
    default: return false;
  }
}

}  // namespace topograd::codegen
