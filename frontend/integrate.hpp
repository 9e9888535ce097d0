// Loops over steps, and integration of differential equations with fixed ones, of numbers or
// Values.
#pragma once

#include "../ir/error.hpp"

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd {

/// Explicit Runge–Kutta methods.
enum class Integrator {
  euler,           ///< order 1, one evaluation of the right side for each step
  rk4,             ///< order 4, four evaluations: the classical method
  dormand_prince,  ///< order 5, six evaluations, without an estimate of the error
};

/// Parameters of integrate().
struct IntegrateOptions {
  Integrator method = Integrator::rk4;
  int steps = 1;  ///< between neighbouring times, >= 1
};

namespace detail {

/// Row i has the weights of stages 0 .. i − 1 for stage i; the last row those of the step.
using Tableau = std::vector<std::vector<double>>;

/// Source: Hairer, Nørsett, Wanner, Solving Ordinary Differential Equations I, 2nd ed., tables
/// II.1.2 and II.5.2.
inline Tableau tableau(Integrator method) {
  switch (method) {
    case Integrator::euler: return {{}, {1}};
    case Integrator::rk4: return {{}, {0.5}, {0, 0.5}, {0, 0, 1}, {1. / 6, 1. / 3, 1. / 3, 1. / 6}};
    case Integrator::dormand_prince:
      return {{},
              {1. / 5},
              {3. / 40, 9. / 40},
              {44. / 45, -56. / 15, 32. / 9},
              {19372. / 6561, -25360. / 2187, 64448. / 6561, -212. / 729},
              {9017. / 3168, -355. / 33, 46732. / 5247, 49. / 176, -5103. / 18656},
              {35. / 384, 0, 500. / 1113, 125. / 192, -2187. / 6784, 11. / 84}};
  }
  return {};
}

template <class State>
concept StateOfScalars = requires(State s) {
  s.size();
  s[0] = s[0] + 1.0 * s[0];
};

/// y += h k, for each scalar of a state or for the whole.
template <class State>
void add_scaled(State& y, double h, const State& k) {
  if constexpr (StateOfScalars<State>) {
    if (k.size() != y.size())
      throw Error(ErrorCode::Shape,
                  "integrate: expected a derivative of " + std::to_string(y.size()) +
                      " numbers, as the state has, got " + std::to_string(k.size()));
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = y[i] + h * k[i];
  } else {
    y = y + h * k;
  }
}

inline void check_times(std::span<const double> times, int steps) {
  const auto fail = [](const std::string& what) {
    throw Error(ErrorCode::InvalidArgument, "integrate: expected " + what);
  };
  if (times.empty()) fail("at least one time, got none");
  if (steps < 1) fail("steps >= 1, got " + std::to_string(steps));
  for (std::size_t k = 0; k < times.size(); ++k) {
    const bool turns = k > 1 && (times[k] - times[k - 1]) * (times[1] - times[0]) < 0;
    if (std::isfinite(times[k]) && !turns) continue;
    fail("finite times that only ascend or only descend, got " + std::to_string(times[k]) +
         " at position " + std::to_string(k));
  }
}

}  // namespace detail

/// The states of y′ = f(t, y) at `times`, the first of which is that of `y`.
///
/// Values go through the same code as numbers, so that a residual block may be what was measured
/// less these states, with unknown starts and parameters of f. Add all rows of one integration by
/// one add_residual(): it evaluates long expressions step by step (docs/modelling.md). The length
/// of the steps is data: it does not depend on unknowns, and nothing controls the error.
///
///   f      callable with (double t, const State& y); returns the derivative as a State
///   y      a Value, a Vec or a number, or a std::vector or std::array of these
///   times  finite, only ascending or only descending
///
/// Throws Error{InvalidArgument} for other times and options, Error{Shape} if f returns another
/// number of scalars. Cost: that of f for each stage of each step.
template <class State, class F>
std::vector<State> integrate(F&& f, State y, std::span<const double> times,
                             const IntegrateOptions& options = {}) {
  detail::check_times(times, options.steps);
  const detail::Tableau tableau = detail::tableau(options.method);
  std::vector<State> states = {y};
  std::vector<State> slopes;
  for (std::size_t k = 1; k < times.size(); ++k) {
    const double h = (times[k] - times[k - 1]) / options.steps;
    for (int step = 0; step < options.steps; ++step) {
      slopes.clear();
      const double t = times[k - 1] + step * h;
      for (const std::vector<double>& weights : tableau) {
        State at = y;
        double node = 0;
        for (std::size_t j = 0; j < weights.size(); ++j) {
          node += weights[j];
          if (weights[j] != 0) detail::add_scaled(at, h * weights[j], slopes[j]);
        }
        if (&weights == &tableau.back()) {
          y = std::move(at);
        } else {
          slopes.push_back(f(t + node * h, std::as_const(at)));
        }
      }
    }
    states.push_back(y);
  }
  return states;
}
template <class State, class F>
std::vector<State> integrate(F&& f, State y, std::initializer_list<double> times,
                             const IntegrateOptions& options = {}) {
  return integrate(std::forward<F>(f), std::move(y),
                   std::span<const double>(times.begin(), times.size()), options);
}

/// The states of a loop: `state`, f(0, state), f(1, f(0, state)), ...: n + 1 of them.
///
/// A recursion such as a filter or a map, of Values or numbers. Values and derivatives are those of
/// the plain loop. Add what residuals read of the states by one add_residual(), as for integrate().
/// The number of steps is an integer, so that it cannot depend on unknowns.
///
///   n      >= 0
///   state  a Value, a Vec or a number, or a std::vector or std::array of these
///   f      callable with (std::size_t step, const State& state); returns the next State
///
/// Throws Error{InvalidArgument} for n < 0, Error{Shape} if a state gets another size. Cost: that
/// of f for each step; a Value's operation takes some 100 bytes until the block is removed.
template <class State, class F>
std::vector<State> scan(std::integral auto n, State state, F&& f) {
  if (std::cmp_less(n, 0))
    throw Error(ErrorCode::InvalidArgument,
                "scan: expected n >= 0 steps, got " + std::to_string(n));
  std::vector<State> states;
  states.reserve(static_cast<std::size_t>(n) + 1);
  states.push_back(std::move(state));
  for (std::size_t k = 0; std::cmp_less(k, n); ++k) {
    State next = f(k, std::as_const(states.back()));
    if constexpr (detail::StateOfScalars<State>) {
      if (next.size() != states.back().size())
        throw Error(ErrorCode::Shape, "scan: expected a state of " +
                                          std::to_string(states.back().size()) +
                                          " numbers after step " + std::to_string(k) +
                                          ", as before it, got " + std::to_string(next.size()));
    }
    states.push_back(std::move(next));
  }
  return states;
}

}  // namespace topograd
