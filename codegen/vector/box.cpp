// Vector kernels of steps within a box: what holds a point there, and projected trial points.
#include "text.hpp"

namespace topograd::codegen {
namespace {

// Comparisons are written so that a NaN stays one.
void write_bounded_norms(VectorText& out) {
  out.update({BufferRole::gradient});
  out.read({BufferRole::first_operand, BufferRole::lower_bounds, BufferRole::upper_bounds});
  out.read_u32(BufferRole::fixed);
  out.shader().use(BufferRole::held, Element::u32, Access::write);
  declare_maximum(out.shader(), out.request().scalars);
  out.begin_sum("g_squared");
  out.begin_sum("x_squared");
  out.lines("{S} greatest = {S}(0);");
  out.open_grid("i");
  out.lines(R"(
uint k = first + i;
if (fixed_scalars[k] != 0u) {
  held_scalars[k] = 1u;
  gradient[k] = {T}(0);
  continue;
}
{T} x = first_operand[k];
{T} low = lower_bounds[k];
{T} high = upper_bounds[k];
{T} g = gradient[k];
precise {T} moved = x - g;
precise {T} projected = g;
if (moved < low) projected = x - low;
if (moved > high) projected = x - high;
bool stays = (x <= low && g > {T}(0)) || (x >= high && g < {T}(0));
held_scalars[k] = stays ? 1u : 0u;
if (stays) gradient[k] = {T}(0);
{S} v = {S}(projected);
)");
  out.add("g_squared", "v * v");
  out.add("x_squared", "{S}(x) * {S}(x)");
  out.lines("greatest = maximum(greatest, abs(v));");
  out.close();
  out.store_partial(0, "g_squared");
  out.store_partial(1, "x_squared");
  out.store_partial_max(2, "greatest");
}

// The model is that of the whole step, as in trial_point.
void write_bounded_trial(VectorText& out) {
  out.read({BufferRole::first_operand, BufferRole::step, BufferRole::residual, BufferRole::damping,
            BufferRole::gradient, BufferRole::lower_bounds, BufferRole::upper_bounds});
  out.write({BufferRole::result});
  out.scalars({});
  out.lines("{T} fraction = {T}(scalars[slot_a]);");
  out.begin_sum("decrease");
  out.begin_sum("squared");
  out.begin_sum("slope");
  out.open_grid("i");
  out.lines(R"(
uint k = first + i;
{T} x = first_operand[k];
precise {T} trial = x + fraction * delta[k];
if (trial < lower_bounds[k]) trial = lower_bounds[k];
if (trial > upper_bounds[k]) trial = upper_bounds[k];
result[k] = trial;
{S} d = {S}(delta[k]);
precise {S} moved = {S}(trial) - {S}(x);
)");
  out.add("decrease",
          "{S}(0.5) * d * (({S}(residual[k]) + {S}(damping[k]) * d) - {S}(gradient[k]))");
  out.add("squared", "moved * moved");
  out.add("slope", "{S}(gradient[k]) * d");
  out.close();
  out.store_partial(0, "decrease");
  out.store_partial(1, "squared");
  out.store_partial(2, "slope");
}

}  // namespace

bool write_box(VectorText& out) {
  switch (out.request().op) {
    case VectorOp::bounded_norms: write_bounded_norms(out); return true;
    case VectorOp::bounded_trial: write_bounded_trial(out); return true;
    default: return false;
  }
}

}  // namespace topograd::codegen
