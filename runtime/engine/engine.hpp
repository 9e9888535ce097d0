// The interface between the solver and a backend. x and all derived data belong to the engine.
#pragma once

#include "../../codegen/float64.hpp"
#include "../../codegen/kernel.hpp"
#include "../backend.hpp"
#include "../linear/normal_matrix.hpp"
#include "../linear/preconditioner.hpp"
#include "../model/model.hpp"
#include "../plan/record/plan_record.hpp"
#include "abilities.hpp"
#include "damped_steps.hpp"
#include "engine_stats.hpp"
#include "evaluation.hpp"
#include "need.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace topograd::runtime {

using codegen::Accumulation;
using codegen::Precision;

namespace cpu {
class KrylovMethod;
}

/// Options of one engine; a backend ignores options that do not apply to it.
struct EngineOptions {
  Precision precision = Precision::f64;
  /// Linear systems of try_step() are in f32, with the gradient at the f64 point: a solve ends
  /// where one in f64 does, and its iterations move half the bytes. `precision` is f64.
  bool narrow_system = false;
  int threads = 0;                               ///< CPU: 0 = all
  std::optional<Accumulation> accumulation;      ///< forced strategy; chosen if empty
  std::uint64_t max_instances_per_dispatch = 0;  ///< 0 = the device's limit
  std::string device;                            ///< Vulkan: index or name, empty = default
  std::string mask;  ///< Vulkan: features to hide, comma-separated names
  codegen::Float64 float64 = codegen::Float64::automatic;  ///< Vulkan: f64 of its kernels
  std::uint64_t max_storage_buffer_range = 0;   ///< Vulkan: bytes, lowers the limit; 0 leaves it
  std::uint64_t max_allocation_size = 0;        ///< Vulkan: bytes, lowers the limit
  std::uint32_t max_workgroup_invocations = 0;  ///< Vulkan: lowers the limit
  std::uint32_t shared_memory_bytes = 0;        ///< Vulkan: bytes, lowers the limit
  bool validation = false;                      ///< Vulkan: enable the validation layer
  /// All choices follow rules, none follows a measurement. On the CPU sums are taken by chunk
  /// (cpu/terms/sum_ranges.hpp), so that they have the same bits for any division of the model.
  bool deterministic = false;
  /// The part of a model that the engine's model is; null: the whole one.
  std::shared_ptr<const struct ModelPart> part;
  /// CPU, in f64: solves for steps in the place of conjugate gradients; null: they do.
  std::shared_ptr<cpu::KrylovMethod> krylov;
  Preconditioner preconditioner = Preconditioner::block_jacobi;  ///< of try_step()
  NormalMatrix normal_matrix = NormalMatrix::automatic;          ///< of try_step()
  /// Vulkan: choices of an earlier run, used for the same topology, pass and size.
  std::shared_ptr<const PlanRecord> plan;
};

class RowRunner;

/// Values and first derivatives at a point; abilities() has all optional interfaces.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual Abilities abilities() = 0;
  virtual Backend backend() const = 0;
  virtual std::string device() const = 0;  ///< name of the device that runs the kernels
  virtual EngineStats stats() const = 0;
  /// Runs any program over rows of numbers (../rows/rows.hpp) on this engine's device in its
  /// precision: for debug variants of kernels.
  virtual std::unique_ptr<RowRunner> row_runner() const = 0;

  /// Reads changed batches again, by their versions, and the uniforms and fixed flags of `model`,
  /// which is the same problem.
  virtual void refresh(const Model& model) = 0;

  // Values at the current point. x has model.scalars numbers, residuals model.rows, in the
  // problem's order. Derivatives by fixed scalars may be those of free ones; callers remove them.
  // Residuals, jvp, vjp and jtjp are those of the residual terms.
  /// Moves the point. Column scaling (StepRequest::jacobi_scaling) stays that of the solve's first
  /// step.
  virtual void set_point(std::span<const double> x) = 0;
  virtual void point(std::span<double> x) = 0;
  virtual double cost() = 0;
  virtual void residuals(std::span<double> out) = 0;
  virtual void gradient(std::span<double> out) = 0;
  /// values[(i * m + row) * n + slot] of one term's instances in batch order.
  virtual void jacobian(std::size_t term, std::span<double> values) = 0;
  virtual void jvp(std::span<const double> p, std::span<double> out) = 0;
  virtual void vjp(std::span<const double> seeds, std::span<double> out) = 0;
  virtual void jtjp(std::span<const double> p, std::span<double> out) = 0;
};

// Abilities with a substitute.
/// Uses SeveralValues, else evaluate_in_turn().
void evaluate(Engine& engine, const Values& wanted);
/// Calls cost(), residuals() and gradient() for the values in `wanted`.
void evaluate_in_turn(Engine& engine, const Values& wanted);
/// For engines whose callables may refuse a point: evaluates in turn; all are NaN if the cost is.
void evaluate_unless_refused(Engine& engine, const Values& wanted);
/// Starts an evaluation at x: of kind cost (one number), residual, gradient, or jvp, jtjp and hvp
/// with the direction p. x and p are read before it returns; finish() writes `out`, which must
/// outlive the handle; x becomes the current point. Other calls may follow before finish(). Without
/// AsynchronousEvaluations it has run when it returns. Throws Error{Unsupported} for other kinds.
std::unique_ptr<Pending> begin(Engine& engine, Pass pass, std::span<const double> x,
                               std::span<const double> p, std::span<double> out);
/// Uses KernelsAhead and GradientSteps to start compiling what `need` names, without waiting.
/// Returns true when it is ready, and for engines without KernelsAhead. Throws the error of a
/// failed compilation.
bool prepare(Engine& engine, const Need& need);

// Abilities without a substitute. Throw Error{Unsupported} if they are missing.
DampedSteps& damped_steps(Engine& engine);
StepLengths& step_lengths(Engine& engine);
SecondDerivatives& second_derivatives(Engine& engine);

}  // namespace topograd::runtime
