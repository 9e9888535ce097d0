// Vector kernels that take steps: their length, whether they are accepted, and what runs then.
#include "text.hpp"

namespace topograd::codegen {
namespace {

// Workgroups of what is to run where `opens`; one workgroup writes them.
void write_gate(VectorText& out) {
  out.read_u32(BufferRole::starts);
  out.shader().use(BufferRole::outputs, Element::u32, Access::write);
  out.lines(R"(
for (uint i = gl_LocalInvocationIndex; i < count; i += {G}) outputs[i] = opens ? starts[i] : 0u;
)");
}

// With g·δ ≈ −2 × the model's decrease, as where the damping is small, the parabola's minimum lies
// at decrease / (change + 2 decrease). Comparisons are false for a NaN.
void write_choose_length(VectorText& out) {
  out.scalars(
      {Scalar::state, Scalar::cost, Scalar::trial_cost, Scalar::model_decrease, Scalar::least_gain,
       Scalar::least_change, Scalar::longest, Scalar::length, Scalar::is_rescaled},
      Access::read_write);
  out.lines(R"(
{S} decrease = scalars[MODEL_DECREASE];
precise {S} change = scalars[TRIAL_COST] - scalars[COST];
precise {S} gain = -change / decrease;
{S} length = {S}(1);
if (scalars[STATE] != {S}(0) && decrease > {S}(0) && gain > scalars[LEAST_GAIN]) {
  precise {S} bend = change + {S}(2) * decrease;
  {S} longest = scalars[LONGEST];
  length = longest;
  if (bend > {S}(0)) length = min(decrease / bend, longest);
  if (abs(length - {S}(1)) < scalars[LEAST_CHANGE]) length = {S}(1);
}
bool opens = length != {S}(1);
)");
  write_gate(out);
  out.lines(R"(
if (gl_LocalInvocationIndex != 0u) return;
scalars[LENGTH] = length;
scalars[IS_RESCALED] = opens ? {S}(1) : {S}(0);
)");
}

void write_take_step(VectorText& out) {
  out.scalars({Scalar::state, Scalar::cost, Scalar::trial_cost, Scalar::model_decrease,
               Scalar::slope, Scalar::min_gain, Scalar::min_decrease, Scalar::length,
               Scalar::is_rescaled, Scalar::rescaled_cost, Scalar::goes_back, Scalar::verdict},
              Access::read_write);
  out.lines(R"(
{S} cost = scalars[COST];
{S} trial = scalars[TRIAL_COST];
{S} decrease = scalars[MODEL_DECREASE];
{S} length = scalars[LENGTH];
bool rescaled = scalars[IS_RESCALED] != {S}(0);
bool back = rescaled && !(scalars[RESCALED_COST] < trial);
if (rescaled && !back) {
  trial = scalars[RESCALED_COST];
  if (length < {S}(1)) decrease = decrease * (length * ({S}(2) - length));
}
precise {S} gain = (cost - trial) / decrease;
bool decided = scalars[STATE] != {S}(0);
precise {S} bound = cost + scalars[MIN_DECREASE] * scalars[SLOPE];
if (scalars[MIN_DECREASE] != {S}(0) && !(trial <= bound)) decided = false;
)");
  const std::string infinite = out.not_finite("trial"), unusable = out.not_finite("decrease");
  out.lines("bool finite = !(" + infinite + ") && !(" + unusable + ");");
  out.lines(R"(
bool accepted = finite && decrease > {S}(0) && gain > scalars[MIN_GAIN];
bool opens = decided && accepted;
)");
  write_gate(out);
  out.lines(R"(
barrier();  // all have read
if (gl_LocalInvocationIndex != 0u) return;
scalars[TRIAL_COST] = trial;
scalars[MODEL_DECREASE] = decrease;
scalars[LENGTH] = back ? {S}(1) : length;
scalars[GOES_BACK] = back ? {S}(1) : {S}(0);
)");
  const auto value = [&](Verdict verdict) {
    return literal(static_cast<double>(verdict), out.request().scalars);
  };
  out.lines(text("scalars[VERDICT] = !decided ? ", value(Verdict::undecided), " : accepted ? ",
                 value(Verdict::accepted), " : ", value(Verdict::refused), ";"));
}

void write_open_gate(VectorText& out) {
  out.scalars({});
  out.lines("bool opens = scalars[slot_a] > {S}(0);");
  write_gate(out);
}

}  // namespace

bool write_steps(VectorText& out) {
  switch (out.request().op) {
    case VectorOp::choose_length: write_choose_length(out); return true;
    case VectorOp::take_step: write_take_step(out); return true;
    case VectorOp::open_gate: write_open_gate(out); return true;
    default: return false;
  }
}

}  // namespace topograd::codegen
