// What kernels of conjugate gradients begin with: sums of partial sums, and what follows from them.
// Source: Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., algorithm 9.1.
#include "conjugate_text.hpp"

#include <string>

namespace topograd::codegen {
namespace {

constexpr std::string_view kBroadcast = R"(
shared {S} workgroup_value;

// What invocation 0 has, in every invocation.
{S} workgroup_broadcast({S} value) {
  barrier();
  if (gl_LocalInvocationIndex == 0u) workgroup_value = value;
  barrier();
  return workgroup_value;
}
)";

std::string upper(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

}  // namespace

void use_scalars(Shader& shader, BufferRole role, Precision precision,
                 std::initializer_list<Scalar> places, Access access) {
  shader.use(role, element_of(precision), access);
  for (const Scalar place : places) {
    const std::string key = upper(name(place));
    shader.declare(key, text("const uint ", key, " = ", unsigned_literal(slot(place)), ";"));
  }
}

void ConjugateText::lines(std::string_view pattern) {
  if (pattern.starts_with('\n')) pattern.remove_prefix(1);
  const auto state = [&](SolverState value) {
    return literal(static_cast<double>(value), scalars_);
  };
  shader_.body().lines(
      substitute(pattern, {{"S", std::string(scalar_type(scalars_))},
                           {"running", state(SolverState::running)},
                           {"converged", state(SolverState::converged)},
                           {"breakdown", state(SolverState::breakdown)},
                           {"limit", state(SolverState::limit)},
                           {"is_nan", shader_.math_function("is_nan", scalars_)},
                           {"is_inf", shader_.math_function("is_inf", scalars_)}}));
}

void ConjugateText::totals(BufferRole partials, std::initializer_list<std::string_view> names) {
  const std::string_view type = scalar_type(scalars_);
  const auto array = shader_.use(partials, element_of(scalars_));
  for (const std::string_view name : names) sums_.begin(shader_, text(name, "_sum"));
  shader_.body().open("for (uint k = gl_LocalInvocationIndex; k < sums_count; k += ",
                      unsigned_literal(group_), ")");
  std::string from = "sums_first + k";
  for (const std::string_view name : names) {
    sums_.add(shader_, text(name, "_sum"), text(array, "[", from, "]"), scalars_);
    from = "sums_first + sums_stride + k";
  }
  shader_.body().close();
  for (const std::string_view name : names) {
    const std::string total = sums_.total(shader_, text(name, "_sum"));
    shader_.declare("broadcast", substitute(kBroadcast.substr(1), {{"S", std::string(type)}}));
    shader_.body().line(type, " ", name, " = workgroup_broadcast(", total, ");");
  }
}

void ConjugateText::decide() {
  totals(BufferRole::partials, {"rz", "rr"});
  use_scalars(shader_, BufferRole::scalars, scalars_, {Scalar::in_energy});
  lines(R"(
{S} iterations = scalars[ITERATIONS];
precise {S} left = scalars[IN_ENERGY] != {S}(0) ? rz : rr;
if (left <= scalars[THRESHOLD]) {
  state = {converged};
} else if (!(rz > {S}(0)) || {is_inf}(rz) || {is_nan}(rr)) {
  state = {breakdown};
} else if (iterations >= scalars[MAX_ITERATIONS]) {
  state = {limit};
}
)");
}

void ConjugateText::open_direction(bool decides) {
  use_scalars(shader_, BufferRole::scalars, scalars_,
              {Scalar::next_state, Scalar::iterations, Scalar::threshold, Scalar::max_iterations,
               Scalar::previous_rz});
  if (decides) {
    use_scalars(shader_, BufferRole::decision, scalars_, {Scalar::state, Scalar::rz, Scalar::rr},
                Access::write);
  }
  lines("{S} state = scalars[NEXT_STATE];");
  if (decides) {
    lines("if (state != {running} && gl_GlobalInvocationID.x == 0u) decision[STATE] = state;");
  }
  lines("if (state != {running}) return;");
  decide();
  if (decides) {
    lines(R"(
if (gl_GlobalInvocationID.x == 0u) {
  decision[STATE] = state;
  decision[RZ] = rz;
  decision[RR] = rr;
}
)");
  }
  lines(R"(
if (state != {running}) return;
precise {S} quotient = rz / scalars[PREVIOUS_RZ];
precise {S} beta = iterations == {S}(0) ? {S}(0) : quotient;
)");
}

void ConjugateText::finish() {
  use_scalars(shader_, BufferRole::scalars, scalars_,
              {Scalar::state, Scalar::next_state, Scalar::iterations, Scalar::threshold,
               Scalar::max_iterations, Scalar::rz, Scalar::rr, Scalar::pending},
              Access::read_write);
  lines("{S} state = scalars[NEXT_STATE];");
  shader_.body().open(text("if (state == ", literal(0, scalars_), ")"));
  decide();
  lines(R"(
if (gl_LocalInvocationIndex == 0u) {
  scalars[RZ] = rz;
  scalars[RR] = rr;
}
)");
  shader_.body().close();
  lines(R"(
if (gl_LocalInvocationIndex == 0u) {
  scalars[STATE] = state;
  scalars[NEXT_STATE] = state;
  scalars[PENDING] = {S}(0);
}
)");
}

// One invocation counts the iteration. If it gains little, its update is made, and no other
// follows. Source: as for GainTest in runtime/cpu/linear/conjugate_gradients.hpp.
void ConjugateText::count_iteration() {
  lines(R"(
if (gl_GlobalInvocationID.x == 0u) {
  precise {S} after = next_state;
  if (next_state == {running}) {
    precise {S} gain = alpha * decision[RZ];
    precise {S} gains = scalars[GAINS] + gain;
    precise {S} iterations = scalars[ITERATIONS] + {S}(1);
    scalars[GAINS] = gains;
    scalars[ITERATIONS] = iterations;
    precise {S} recent = iterations * gain;
    precise {S} least = scalars[ETA] * gains;
    if (recent < least) after = {converged};
  }
  scalars[NEXT_STATE] = after;
  scalars[PREVIOUS_RZ] = decision[RZ];
}
)");
}

void ConjugateText::open_update(bool decides, StepTime step_time) {
  use_scalars(shader_, BufferRole::decision, scalars_, {Scalar::state, Scalar::rz});
  if (decides) {
    use_scalars(
        shader_, BufferRole::scalars, scalars_,
        {Scalar::next_state, Scalar::iterations, Scalar::gains, Scalar::eta, Scalar::previous_rz},
        Access::read_write);
  }
  lines("{S} next_state = decision[STATE];");
  if (decides) {
    lines(
        "if (next_state != {running} && gl_GlobalInvocationID.x == 0u) "
        "scalars[NEXT_STATE] = next_state;");
  }
  lines("if (next_state != {running}) return;");
  totals(BufferRole::curvature, {"pq"});
  lines("if (!(pq > {S}(0)) || {is_inf}(pq)) next_state = {breakdown};");
  lines("precise {S} alpha = decision[RZ] / pq;");
  if (decides) count_iteration();
  lines("if (next_state != {running}) return;");
  if (step_time == StepTime::both) {
    use_scalars(shader_, BufferRole::scalars, scalars_, {Scalar::alpha});
    lines("{S} alpha_before = scalars[ALPHA];");
  }
  if (step_time == StepTime::now || !decides) return;
  const bool later = step_time == StepTime::later;
  use_scalars(shader_, BufferRole::scalars, scalars_, {Scalar::pending}, Access::write);
  if (later) use_scalars(shader_, BufferRole::scalars, scalars_, {Scalar::alpha}, Access::write);
  shader_.body().open("if (gl_GlobalInvocationID.x == 0u)");
  if (later) lines("scalars[ALPHA] = alpha;");
  lines(later ? "scalars[PENDING] = alpha;" : "scalars[PENDING] = {S}(0);");
  shader_.body().close();
}

}  // namespace topograd::codegen
