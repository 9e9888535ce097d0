// The beginning of kernels of conjugate gradients: sums of partial sums, and their consequences.
// Source: Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., algorithm 9.1.
#include "conjugate_source.hpp"

#include <string>

namespace topograd::codegen {
namespace {

constexpr std::string_view kBroadcast = R"(
shared {S} workgroup_value;

// Gives every invocation the value of invocation 0.
{S} workgroup_broadcast({S} value) {
  barrier();
  if (gl_LocalInvocationIndex == 0u) workgroup_value = value;
  barrier();
  return workgroup_value;
}
)";

}  // namespace

std::string constant_name(Scalar scalar) {
  std::string out(name(scalar));
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

void use_scalars(Shader& shader, BufferRole role, Precision precision,
                 std::initializer_list<Scalar> places, Access access) {
  shader.use(role, element_of(precision), access);
  for (const Scalar place : places) {
    const std::string key = constant_name(place);
    shader.declare(key, text("const uint ", key, " = ", unsigned_literal(slot(place)), ";"));
  }
}

void declare_broadcast(Shader& shader, Precision precision) {
  shader.declare("broadcast",
                 substitute(kBroadcast.substr(1), {{"S", std::string(scalar_type(precision))}}));
}

void ConjugateSource::lines(std::string_view pattern) {
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

void ConjugateSource::totals(std::initializer_list<std::string_view> names) {
  const std::string_view type = scalar_type(scalars_);
  const auto array = shader_.use(BufferRole::partials, element_of(scalars_));
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
    declare_broadcast(shader_, scalars_);
    shader_.body().line(type, " ", name, " = workgroup_broadcast(", total, ");");
  }
}

void ConjugateSource::decide() {
  totals({"rz", "rr"});
  use_scalars(shader_, BufferRole::scalars, scalars_,
              {Scalar::in_energy, Scalar::iterations, Scalar::threshold, Scalar::max_iterations});
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

void ConjugateSource::open_direction(bool decides) {
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

}  // namespace topograd::codegen
