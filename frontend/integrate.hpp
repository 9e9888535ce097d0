// Loops over steps, and integration of differential equations with fixed ones, of numbers or
// Values.
#pragma once

#include "../ir/error.hpp"

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace topograd {

/// Runge–Kutta methods. The implicit ones are for stiff equations.
enum class Integrator {
  euler,           ///< order 1, one evaluation of the right side for each step
  rk4,             ///< order 4, four evaluations: the classical method
  dormand_prince,  ///< order 5, six evaluations, without an estimate of the error
  implicit_euler,  ///< order 1, by Newton's method: n + 1 evaluations for each correction
  trapezoidal,     ///< order 2, likewise
};

/// Parameters of integrate().
struct IntegrateOptions {
  Integrator method = Integrator::rk4;
  int steps = 1;        ///< between neighbouring times, >= 1
  int corrections = 8;  ///< of Newton's method in an implicit step, >= 1
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
    case Integrator::implicit_euler:
    case Integrator::trapezoidal: break;
  }
  return {};
}

template <class State>
concept StateOfScalars = requires(State s) {
  s.size();
  s[0] = s[0] + 1.0 * s[0];
};

inline void require_size(std::size_t expected, std::size_t got) {
  if (got == expected) return;
  throw Error(ErrorCode::Shape, "integrate: expected a derivative of " + std::to_string(expected) +
                                    " numbers, as the state has, got " + std::to_string(got));
}

/// The scalars of a state.
template <class State>
auto scalars_of(const State& y) {
  if constexpr (StateOfScalars<State>) {
    std::vector<std::decay_t<decltype(y[0])>> out;
    for (std::size_t i = 0; i < y.size(); ++i) out.push_back(y[i]);
    return out;
  } else {
    return std::vector<State>{y};
  }
}

/// A state like another one, with other scalars.
template <class State, class T>
State with_scalars(const State& like, const std::vector<T>& scalars) {
  if constexpr (StateOfScalars<State>) {
    State out = like;
    for (std::size_t i = 0; i < scalars.size(); ++i) out[i] = scalars[i];
    return out;
  } else {
    return scalars[0];
  }
}

/// States whose numbers implicit steps can solve for.
template <class State>
concept StateOfNumbers = StateOfScalars<State> || requires(State s) {
  s < s;
};

/// One of two numbers, or of two expressions.
template <class T, class Condition>
T chosen(const Condition& condition, const T& a, const T& b) {
  if constexpr (std::is_arithmetic_v<T>) {
    return condition ? a : b;
  } else {
    return select(condition, a, b);
  }
}

/// Solves M x = b by elimination. Of two rows, the one with the larger pivot comes up.
template <class T>
std::vector<T> eliminated(std::vector<std::vector<T>> M, std::vector<T> b) {
  using std::abs;
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = j + 1; i < n; ++i) {
      const auto is_larger = abs(M[i][j]) > abs(M[j][j]);
      const auto exchange = [&](T& above, T& below) {
        const T larger = chosen(is_larger, below, above);
        below = chosen(is_larger, above, below);
        above = larger;
      };
      for (std::size_t k = j; k < n; ++k) exchange(M[j][k], M[i][k]);
      exchange(b[j], b[i]);
    }
    for (std::size_t i = j + 1; i < n; ++i) {
      const T factor = M[i][j] / M[j][j];
      for (std::size_t k = j + 1; k < n; ++k) M[i][k] = M[i][k] - factor * M[j][k];
      b[i] = b[i] - factor * b[j];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] = b[i] - M[i][k] * b[k];
    b[i] = b[i] / M[i][i];
  }
  return b;
}

/// y_new = y + h ((1 − share) f(t, y) + share f(t + h, y_new)), by Newton's method with a matrix of
/// difference quotients.
template <class State, class F>
class ImplicitStep {
 public:
  using T = typename decltype(scalars_of(std::declval<State>()))::value_type;
  using Scalars = std::vector<T>;

  ImplicitStep(F& f, double share, int corrections)
      : f_(f), share_(share), corrections_(corrections) {}

  State operator()(double t, double h, const State& start) const {
    using std::abs;
    const Scalars y = scalars_of(start), slope = right_side(t, y, start);
    Scalars base = y, moved, next = y, correction;
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (share_ < 1) base[i] = y[i] + ((1 - share_) * h) * slope[i];
      moved.push_back(abs(h * slope[i]));
    }
    for (int k = 0; k < corrections_; ++k) {
      correction = correct(t + h, h, next, base, moved, start);
      for (std::size_t i = 0; i < y.size(); ++i) next[i] = next[i] - correction[i];
    }
    T unsolved = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const T beyond = abs(correction[i]) - kSmall * (abs(next[i]) + moved[i]);
      unsolved = unsolved + chosen(beyond <= 0.0, T(0.0), T(1.0));
    }
    const T unknown = std::numeric_limits<double>::quiet_NaN();
    for (T& number : next) number = chosen(unsolved == 0.0, number, unknown);
    return with_scalars(start, next);
  }

 private:
  static constexpr double kBeside = 0x1p-20, kSmall = 1e-6;

  Scalars right_side(double t, const Scalars& y, const State& like) const {
    const State at = with_scalars(like, y);
    Scalars out = scalars_of(f_(t, at));
    require_size(y.size(), out.size());
    return out;
  }

  Scalars correct(double t, double h, const Scalars& y, const Scalars& base, const Scalars& moved,
                  const State& like) const {
    using std::abs;
    const std::size_t n = y.size();
    const Scalars now = right_side(t, y, like);
    Scalars size, rest;
    T largest = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      size.push_back(abs(y[i]) + moved[i]);
      largest = chosen(size[i] > largest, size[i], largest);
      rest.push_back(y[i] - (share_ * h) * now[i] - base[i]);
    }
    const T otherwise = chosen(largest > 0.0, largest, T(1.0));
    std::vector<Scalars> M(n, Scalars(n, T(0.0)));
    for (std::size_t j = 0; j < n; ++j) {
      const T by = kBeside * chosen(size[j] > 0.0, size[j], otherwise);
      Scalars beside = y;
      beside[j] = y[j] + by;
      const Scalars there = right_side(t, beside, like);
      for (std::size_t i = 0; i < n; ++i) {
        const T slope = (share_ * h) * ((there[i] - now[i]) / by);
        M[i][j] = i == j ? 1.0 - slope : -slope;
      }
    }
    return eliminated(std::move(M), std::move(rest));
  }

  F& f_;
  double share_;
  int corrections_;
};

template <class State, class F>
State implicit_step(F& f, double t, double h, const State& y, const IntegrateOptions& options) {
  if constexpr (StateOfNumbers<State>) {
    const double share = options.method == Integrator::trapezoidal ? 0.5 : 1;
    return ImplicitStep<State, F>(f, share, options.corrections)(t, h, y);
  } else {
    throw Error(ErrorCode::Unsupported,
                "integrate: expected a number, a std::vector or a std::array as the state of an "
                "implicit method, got a vector type");
  }
}

/// y += h k, for each scalar of a state or for the whole.
template <class State>
void add_scaled(State& y, double h, const State& k) {
  if constexpr (StateOfScalars<State>) {
    require_size(y.size(), k.size());
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
/// Implicit methods solve each step by Newton's method. A state whose last correction is not small
/// is NaN, so that a solver rejects the point.
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
  if (options.corrections < 1)
    throw Error(ErrorCode::InvalidArgument,
                "integrate: expected corrections >= 1, got " + std::to_string(options.corrections));
  const bool is_implicit =
      options.method == Integrator::implicit_euler || options.method == Integrator::trapezoidal;
  const detail::Tableau tableau = detail::tableau(options.method);
  std::vector<State> states = {y};
  std::vector<State> slopes;
  for (std::size_t k = 1; k < times.size(); ++k) {
    const double h = (times[k] - times[k - 1]) / options.steps;
    for (int step = 0; step < options.steps; ++step) {
      slopes.clear();
      const double t = times[k - 1] + step * h;
      if (is_implicit) {
        y = detail::implicit_step(f, t, h, y, options);
        continue;
      }
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
