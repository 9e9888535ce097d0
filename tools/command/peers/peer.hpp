// What other solvers are given and what they answer: they are libraries of their own, opened when
// they are there, so that the command needs none of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace topograd::command {

/// Residual blocks of one kind over blocks of three unknowns.
struct PeerTerm {
  enum class Kind : std::uint8_t {
    spring,     ///< ‖a − b‖ − L: blocks a, b; numbers L
    target,     ///< w (a − c), three rows: block a; numbers w, c
    arap_edge,  ///< p − q − R(r) u, three rows: blocks p, q, r; numbers u
    smoothing,  ///< √max(w, 10⁻⁴) (a − b), three rows, w = ½ (cot at l + cot at r): blocks a, b, l,
                ///< r
    observation,  ///< a point in Snavely's camera (BundleScene) less (u, v), two rows:
                  ///< blocks c, the first of the camera's three, and the point; numbers u, v
    star  ///< an energy: Developability::covariance (problems/developable.hpp) of a fan, blocks its
          ///< vertex and its ring; numbers 1 if it is closed, else 0
  };
  Kind kind = Kind::spring;
  std::vector<std::uint32_t> blocks;
  std::vector<double> numbers;
  std::size_t width = blocks_of(kind);  ///< blocks of one

  /// 0 where each term says it itself.
  static constexpr std::size_t blocks_of(Kind kind) {
    constexpr std::size_t kBlocks[] = {2, 1, 3, 4, 2, 0};
    return kBlocks[static_cast<std::size_t>(kind)];
  }
};
constexpr std::size_t numbers_of(PeerTerm::Kind kind) {
  constexpr std::size_t kNumbers[] = {1, 4, 3, 0, 2, 1};
  return kNumbers[static_cast<std::size_t>(kind)];
}

/// How a peer minimises; names and meanings are those of SolverOptions.
struct PeerSolve {
  int max_iterations = 50, max_linear_iterations = 500;
  double function_tolerance = 1e-6, gradient_tolerance = 1e-10, parameter_tolerance = 1e-8;
  double time_limit_s = 1e9;
  enum class Linear : std::uint8_t { sparse, schur, conjugate_gradients, dense };
  Linear linear = Linear::sparse;
  bool dogleg = false;  ///< in place of Levenberg-Marquardt
};

/// A problem of which the peer is given values and derivatives in the place of terms; one of the
/// two is there. They answer false where a number is not finite.
struct PeerFunctions {
  std::uint64_t rows = 0;  ///< of the residuals
  /// r has `rows` numbers, J rows × unknowns by rows; J may be null.
  std::function<bool(const double* x, double* r, double* J)> least_squares;
  /// The gradient may be null.
  std::function<bool(const double* x, double* cost, double* gradient)> objective;
};

struct PeerInput {
  std::vector<double> x;  ///< of terms: three numbers a block
  std::vector<PeerTerm> terms;
  PeerFunctions functions;
  int threads = 1;
  bool evaluate = true;   ///< time evaluations; otherwise only what making the problem takes
  bool step = true;       ///< time a step too
  bool minimize = false;  ///< from x to the end, instead of timing evaluations
  PeerSolve solve;
};

/// Times in µs; 0 where there is none.
struct PeerReport {
  std::string name, version;
  std::string libraries;  ///< for linear algebra, as found
  double build_s = 0, initial_cost = 0;
  double residual_us = 0;           ///< inside of a solve
  double jacobian_us = 0;           ///< residuals and Jacobian inside of a solve
  double evaluate_jacobian_us = 0;  ///< the same by the call for single evaluations
  double gradient_us = 0;           ///< by that call
  double step100_us = 0;            ///< a Gauss-Newton step with 100 CG iterations
  // Of a minimisation:
  double solve_s = 0, final_cost = 0;
  int iterations = 0;  ///< accepted and rejected steps
  std::string linear_solver, termination, message;
  std::vector<double> x;  ///< at the end
};

/// The one function of a peer's library.
using RunPeer = void (*)(const PeerInput& input, PeerReport& report);
inline constexpr const char* kRunPeer = "topograd_run_peer";

}  // namespace topograd::command
