// Predicts the time of a step by each linear solver, and decides who makes the sparse factor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "../../runtime/engine/step_elimination.hpp"
#include "../../runtime/model/model.hpp"
#include "../options.hpp"

namespace topograd {

/// Operations of a sparse factor for each second and core: 24 to 37e9 were measured
/// (docs/notes/linear-solvers.md). More cores than these find little to do beside each other.
inline constexpr double kHostFactorRate = 2.5e10;
inline constexpr int kMostFactorThreads = 8;
/// The same on a device, of tiles that go through shared memory, in f64 and f32. A step is a chain
/// of up to 32 pivots, each with a division and a barrier, in the factor and both solutions: it
/// takes that time whatever else runs. An empty dispatch with its barrier takes 2.1 µs. From the
/// times of two meshes on an H200 (docs/notes/linear-solvers.md).
inline constexpr double kDeviceFactorRate = 2.4e12, kNarrowFactorRate = 4.7e12;
inline constexpr double kFactorStepSeconds = 7.3e-5;
inline constexpr double kDispatchSeconds = 2.1e-6;
/// Seconds of a step's iterations on a device where only block-Jacobi preconditions them: 200 of
/// 7.5e-5. A pose graph of 2,500 poses took 500 (docs/notes/linear-solvers.md).
inline constexpr double kFactorSeconds = 1.5e-2;
/// Unknowns beyond which a factor is not planned for that comparison.
inline constexpr std::uint64_t kMostFactoredThere = 100'000;
/// Operations below which a device is not asked: steps of its levels take longer.
inline constexpr double kLeastOnDevice = 2e9;
/// Unknowns below which there are not that many.
inline constexpr std::uint64_t kLeastUnknowns = 2000;

/// Facts about a sparse factor of JᵀJ.
struct FactorFacts {
  double entries = 0, operations = 0;
};

/// Facts for the decision where a factor is made. Optional ones are expensive: decide_factor() asks
/// for them.
struct FactorBackendFacts {
  FactorPlace asked = FactorPlace::automatic;
  bool on_device = false;  ///< kernels run on one, and steps are made there
  bool software = false;   ///< it is one
  int threads = 1;         ///< of the host
  std::uint64_t unknowns = 0;
  std::optional<FactorFacts> factor;
  std::optional<runtime::FactorUse> device;  ///< the engine's answer
};

enum class FactorReason {
  asked_for,
  no_device,       ///< kernels run on the CPU, or steps are made on the host
  software,        ///< the device is the host's processor
  few,             ///< operations
  data_on_device,  ///< and the factor takes less time than iterations there
  not_possible,    ///< the engine says why
  slower,          ///< on the device, as predicted
  faster,
};

struct FactorChoice {
  enum class Fact { none, factor, device };
  Fact next = Fact::none;                   ///< what has to be known before more is decided
  FactorPlace backend = FactorPlace::host;  ///< not automatic: `host` stands for all of the host
  FactorReason reason = FactorReason::no_device;
  double host_seconds = 0, device_seconds = 0;  ///< predicted; 0: they were not needed
};

/// Predicts the time of a factorisation with its solution on a device.
double device_factor_seconds(const runtime::FactorUse& use);

/// Decides from facts alone. A device that is asked for and cannot is FactorReason::no_device or
/// not_possible, with FactorPlace::device; the caller refuses it.
FactorChoice decide_factor(const FactorBackendFacts& facts);

/// Work of the parts of a step, as sums over all instances.
struct StepWork {
  double unknowns = 0;  ///< free scalars
  double instances = 0;
  double operations = 0;   ///< of residuals and energies
  double numbers = 0;      ///< of the stored Jacobian
  double products = 0;     ///< that JᵀJ sums
  double block_pairs = 0;  ///< pairs of blocks of an instance: entries to which JᵀJ adds products
  double cubes = 0;        ///< n³ for the n unknowns of an instance: projection of its Hessian
  double columns = 0;      ///< n × operations: the Hessian of an instance
  bool linear = false;     ///< every residual is affine in the unknowns, and none has a loss
  bool penalties = false;  ///< of constraints, whose weights grow
};

/// Cost: linear in the operations of all topologies; index columns are sampled.
StepWork step_work(const runtime::Model& model);

/// Seconds of the linear solver in a step; 0: not predicted.
struct StepSeconds {
  double cholesky = 0, pcg = 0;
};

/// Seconds of the sum of JᵀJ, without a factor.
double sum_seconds(const StepWork& work, int threads);
/// The same with a factor and a solution.
double factor_seconds(const StepWork& work, const FactorFacts& factor, int threads);
/// The part of a step in the time that planning the sum of JᵀJ and its factor takes.
double plan_seconds_of_step(const StepWork& work);
/// One iteration of conjugate gradients with a stored Jacobian.
double iteration_seconds(const StepWork& work, int threads);

/// What the iterations of a step depend on.
struct IterationFacts {
  std::optional<std::size_t> reach = {};  ///< of a mesh with two levels (Elimination::reach)
  std::optional<int> tried = {};          ///< that the first system took
};
/// Iterations of conjugate gradients in a step, the mean over a solve whose forcing follows the
/// gradient. On a mesh with two levels they grow with the root of `reach`, fitted to the problems
/// of bench/automatic.cpp (docs/notes/linear-solvers.md).
double expected_iterations(const StepWork& work, const IterationFacts& facts);

/// Newton's method: Hessians of all instances without their negative eigenvalues.
double projection_seconds(const StepWork& work, int threads);
/// Newton's method: the products with the Hessian of a step.
double curved_products_seconds(const StepWork& work, int threads);

/// A whole solve with a usual number of steps, before anything but sizes is known.
double solve_seconds(const StepWork& work, int threads);

}  // namespace topograd
