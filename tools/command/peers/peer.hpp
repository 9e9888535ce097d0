// Input and output of other solvers. Each is a separate library, opened if it is available, so that
// the command does not depend on them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace topograd::command {

/// Residual blocks of one kind over blocks of three unknowns.
struct PeerTerm {
  enum class Kind : std::uint8_t {
    /// ‖a − b‖ − L: blocks a, b; numbers L.
    spring,
    /// w (a − c), three rows: block a; numbers w, c.
    target,
    /// p − q − R(r) u, three rows: blocks p, q, r; numbers u.
    arap_edge,
    /// √max(w, 10⁻⁴) (a − b), three rows, w = ½ (cot at l + cot at r): blocks a, b, l, r.
    smoothing,
    /// The projection of a point in Snavely's camera (BundleScene) minus (u, v), two rows:
    /// blocks c, the first of the camera's three, and the point; numbers u, v.
    observation,
    /// The projection of a point in one of COLMAP's camera models up to THIN_PRISM_FISHEYE minus
    /// (u, v), two rows: blocks of the pose, the first of the two of a rotation vector and a
    /// position, of the camera, the first of those of its parameters, and of the point; numbers
    /// the number of the model, u, v.
    colmap_observation,
    /// The same in a rig: a rotation vector and a translation take points from the frame of the
    /// pose to that of the camera; blocks of the pose, of the sensor, also the first of two, of the
    /// camera and of the point.
    colmap_rig_observation,
    /// A (c − p) of the position c of a camera: the block of its pose; numbers p and A.
    colmap_prior,
    /// The same in a rig: blocks of the pose and of the sensor.
    colmap_rig_prior,
    /// An energy: Developability::covariance (problems/developable.hpp) of a fan: blocks its vertex
    /// and its ring; numbers 1 if it is closed, else 0.
    star,
    /// A (R(a)ᵀ (q − p) − u, angle b − a − ũ), three rows: blocks (p, a), (q, b); numbers u, ũ, 1
    /// if the angle d counts as 2 sin(d / 2), else 0 for d in [−π, π), and A.
    planar_edge,
    /// A (R(a)ᵀ (q − p) − u, 2 vec(ũ (a⁻¹ b)⁻¹)), six rows, with the quaternion that turns by at
    /// most π: blocks p, a, q, b, of which a and b are the first of two with a unit quaternion
    /// w, x, y, z; numbers u, ũ and A.
    spatial_edge
  };
  Kind kind = Kind::spring;
  std::vector<std::uint32_t> blocks;
  std::vector<double> numbers;
  std::size_t width = blocks_of(kind);  ///< blocks of one residual
  /// ρ, ρ′ and ρ″ of the sum of squares of a residual's rows; empty for squares.
  std::function<std::array<double, 3>(double)> loss = {};

  /// 0 if each term has its own number.
  static constexpr std::size_t blocks_of(Kind kind) {
    constexpr std::size_t kBlocks[] = {2, 1, 3, 4, 2, 3, 4, 1, 2, 0, 2, 4};
    return kBlocks[static_cast<std::size_t>(kind)];
  }
};
constexpr std::size_t numbers_of(PeerTerm::Kind kind) {
  // Matrices A are lower triangles, row by row.
  constexpr std::size_t kNumbers[] = {1, 4, 3, 0, 2, 3, 3, 3 + 6, 3 + 6, 1, 4 + 6, 7 + 21};
  return kNumbers[static_cast<std::size_t>(kind)];
}

/// Options of a peer's minimisation; names and meanings are those of SolverOptions.
struct PeerSolve {
  int max_iterations = 50, max_linear_iterations = 500;
  double function_tolerance = 1e-6, gradient_tolerance = 1e-10, parameter_tolerance = 1e-8;
  double time_limit_s = 1e9;
  enum class Linear : std::uint8_t { sparse, schur, conjugate_gradients, dense };
  Linear linear = Linear::sparse;
  bool dogleg = false;  ///< instead of Levenberg-Marquardt
};

/// A problem given to the peer as functions instead of terms; one of the two functions is set. They
/// return false if a number is not finite.
struct PeerFunctions {
  std::uint64_t rows = 0;  ///< number of residuals
  /// r has `rows` numbers, J rows × unknowns by rows; J may be null.
  std::function<bool(const double* x, double* r, double* J)> least_squares;
  /// The gradient may be null.
  std::function<bool(const double* x, double* cost, double* gradient)> objective;
};

struct PeerInput {
  std::vector<double> x;  ///< with terms: three numbers per block
  std::vector<PeerTerm> terms;
  std::vector<std::uint8_t> constant;  ///< 1 for each number of x that stays; empty: none stays
  PeerFunctions functions;
  int threads = 1;
  bool evaluate = true;   ///< time evaluations; otherwise only the construction of the problem
  bool step = true;       ///< also time a step
  bool minimize = false;  ///< minimise from x instead of timing evaluations
  PeerSolve solve;
};

/// Times in µs; 0 if not measured.
struct PeerReport {
  std::string name, version;
  std::string libraries;  ///< for linear algebra, as detected
  double build_s = 0, initial_cost = 0;
  double residual_us = 0;           ///< within a solve
  double jacobian_us = 0;           ///< residuals and Jacobian within a solve
  double evaluate_jacobian_us = 0;  ///< the same by the function for single evaluations
  double gradient_us = 0;           ///< by that function
  double step100_us = 0;            ///< a Gauss-Newton step with 100 CG iterations
  // Results of a minimisation:
  double solve_s = 0, final_cost = 0;
  int iterations = 0;  ///< accepted and rejected steps
  std::string linear_solver, termination, message;
  std::vector<double> x;  ///< at the end
};

/// The only function of a peer's library.
using RunPeer = void (*)(const PeerInput& input, PeerReport& report);
inline constexpr const char* kRunPeer = "topograd_run_peer";

}  // namespace topograd::command
