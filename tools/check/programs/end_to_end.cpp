// Checks values and derivatives of whole programs against running error bounds.
#include "end_to_end.hpp"

#include "../../../autodiff/derivatives.hpp"
#include "../../../ir/checking/error_bound.hpp"
#include "../../../ir/passes/passes.hpp"
#include "../../../ir/text.hpp"

#include <cmath>

namespace topograd::check {
namespace {

using ir::Enclosure;

/// Values and error bounds of the outputs.
struct Computed {
  std::vector<Enclosure> may;
  std::vector<Enclosure> exact;  ///< enclose the values without rounding
  std::vector<double> got;
  bool decided = true;
};

template <class T>
Computed outcome(const ir::Program& program, const ir::Point& point, const Run& run) {
  const auto p = narrowed<T>(point.parameters), d = narrowed<T>(point.data),
             u = narrowed<T>(point.uniforms), t = narrowed<T>(point.tangents),
             s = narrowed<T>(point.seeds);
  const ir::RunningError error = ir::running_error<T>(program, {p, d, u, t, s});
  const ir::RunningError exact = ir::running_error<T>(program, {p, d, u, t, s}, ir::Against::exact);
  Computed out{.may = {}, .exact = {}, .got = run(program, point), .decided = error.decided};
  for (const ir::Id output : program.outputs) {
    out.may.push_back(error.nodes[output]);
    out.exact.push_back(exact.nodes[output]);
  }
  return out;
}

std::string text(const Enclosure& e) {
  return ir::print_number(static_cast<double>(e.value)) + " +- " +
         ir::print_number(static_cast<double>(e.error));
}

/// The first output outside of its bound.
std::optional<std::string> outside(const Computed& outcome) {
  for (std::size_t k = 0; k < outcome.got.size(); ++k) {
    if (outcome.may[k].contains(outcome.got[k])) continue;
    return "output " + std::to_string(k) + ": expected " + text(outcome.may[k]) + ", got " +
           ir::print_number(outcome.got[k]);
  }
  return std::nullopt;
}

/// The first output for which two computations cannot both be right.
std::optional<std::string> apart(const Computed& a, const Computed& b) {
  for (std::size_t k = 0; k < a.got.size(); ++k) {
    if (!a.exact[k].known() || !b.exact[k].known()) continue;
    const bool both_nan = std::isnan(a.got[k]) && std::isnan(b.got[k]);
    const long double allowed = a.exact[k].error + b.exact[k].error;
    if (both_nan || a.got[k] == b.got[k]) continue;
    if (std::fabs(static_cast<long double>(a.got[k]) - b.got[k]) <= allowed) continue;
    return "output " + std::to_string(k) + ": " + ir::print_number(a.got[k]) + " one way, " +
           ir::print_number(b.got[k]) + " the other, allowed difference " +
           ir::print_number(static_cast<double>(allowed));
  }
  return std::nullopt;
}

ir::Program only(const ir::Program& program, ir::Id output) {
  ir::Program one = program;
  one.outputs = {output};
  one.guards.clear();
  return ir::remove_dead(one);
}

/// The part of the program on which its largest finite output depends.
std::optional<ir::Program> largest_finite(const ir::Program& program, const Computed& outcome) {
  std::optional<ir::Program> best;
  for (std::size_t k = 0; k < outcome.may.size(); ++k) {
    const Enclosure& e = outcome.may[k];
    if (!e.known() || !std::isfinite(e.value)) continue;
    ir::Program part = only(program, program.outputs[k]);
    if (!best || part.nodes.size() > best->nodes.size()) best = std::move(part);
  }
  return best;
}

/// Compares forward and reverse mode, one parameter after the other.
template <class T>
Finding derivatives(const ir::Program& f, ir::Point point, const Run& run) {
  const ir::Program forward = ir::expand(autodiff::jvp(f));
  const ir::Program reverse = ir::expand(autodiff::vjp(f, autodiff::all_slots(f)));
  point.seeds = {1};
  point.tangents.assign(f.leaves.parameters, 0);
  const Computed pulled = outcome<T>(reverse, point, run);
  if (!pulled.decided) return {.decided = false};
  if (const auto wrong = outside(pulled)) return {"derivative", "in reverse, " + *wrong};
  for (std::size_t k = 0; k < point.tangents.size(); ++k) {
    point.tangents[k] = 1;
    const Computed pushed = outcome<T>(forward, point, run);
    point.tangents[k] = 0;
    if (!pushed.decided) return {.decided = false};
    if (const auto wrong = outside(pushed)) return {"derivative", "forward, " + *wrong};
    const Computed other{.may = {}, .exact = {pulled.exact[k]}, .got = {pulled.got[k]}};
    // If one mode has a pole that a zero cancels in the other mode, only zeros are compared.
    if (!std::isfinite(pushed.got[0]) || !std::isfinite(other.got[0])) continue;
    if (const auto wrong = apart(pushed, other)) {
      return {"derivative", "by parameter " + std::to_string(k) + ", " + *wrong};
    }
  }
  return {};
}

}  // namespace

template <class T>
Finding end_to_end(const ir::Program& program, const ir::Point& point, const Run& run) {
  const ir::Program plain = ir::expand(program);
  const Computed first = outcome<T>(plain, point, run);
  if (!first.decided) return {.decided = false};
  if (const auto wrong = outside(first)) return {"value", *wrong};
  const Computed second = outcome<T>(ir::optimize(program), point, run);
  if (!second.decided) return {.decided = false};
  if (const auto wrong = outside(second)) return {"value", "optimised, " + *wrong};
  if (const auto wrong = apart(first, second)) return {"optimised", *wrong};
  const std::optional<ir::Program> part = largest_finite(plain, first);
  if (!part) return {};
  Finding finding = derivatives<T>(*part, point, run);
  finding.finite = true;
  return finding;
}

template Finding end_to_end<float>(const ir::Program&, const ir::Point&, const Run&);
template Finding end_to_end<double>(const ir::Program&, const ir::Point&, const Run&);

}  // namespace topograd::check
