// What the solver and the evaluator ask of a backend. x and what belongs to it live with the
// engine.
#pragma once

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

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace topograd::runtime {

using codegen::Accumulation;
using codegen::Precision;

/// Options of one engine; what does not apply to a backend is ignored by it.
struct EngineOptions {
  Precision precision = Precision::f64;
  int threads = 0;                               ///< CPU: 0 = all
  std::optional<Accumulation> accumulation;      ///< forced rung; otherwise chosen
  std::uint64_t max_instances_per_dispatch = 0;  ///< 0 = the device's limit
  std::string device;                            ///< Vulkan: index or name, empty = default
  std::string mask;                             ///< Vulkan: features to hide, comma-separated names
  std::uint64_t max_storage_buffer_range = 0;   ///< Vulkan: bytes, lowers the limit; 0 leaves it
  std::uint64_t max_allocation_size = 0;        ///< Vulkan: likewise
  std::uint32_t max_workgroup_invocations = 0;  ///< Vulkan: likewise
  std::uint32_t shared_memory_bytes = 0;        ///< Vulkan: likewise
  bool validation = false;                      ///< Vulkan: with the validation layer
  bool deterministic = false;  ///< every choice from rules alone, none from measurement
  Preconditioner preconditioner = Preconditioner::block_jacobi;  ///< of try_step()
  NormalMatrix normal_matrix = NormalMatrix::automatic;          ///< likewise
  /// Vulkan: choices of an earlier run, taken where their topology, pass and size are the same.
  std::shared_ptr<const PlanRecord> plan;
};

class RowRunner;

/// Values and first derivatives at a point; whatever else an engine can do is in its abilities.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual Abilities abilities() = 0;
  virtual Backend backend() const = 0;
  virtual std::string device() const = 0;  ///< name of what runs the kernels
  virtual EngineStats stats() const = 0;
  /// Runs any program over rows of numbers (../rows/rows.hpp) where this engine's kernels run, in
  /// its precision: for debug variants of them.
  virtual std::unique_ptr<RowRunner> row_runner() const = 0;

  /// Re-reads what changed, by the versions of the model's batches; uniforms and constant flags are
  /// taken as they are in `model`, which is the same problem.
  virtual void refresh(const Model& model) = 0;

  // Values at the current point. x has model.scalars numbers, residuals model.rows, in the
  // problem's order. Derivatives by constant scalars may be given as if these were free; callers
  // take them out. Residuals, jvp, vjp and jtjp are those of the residual terms.
  /// Column scaling (StepRequest::jacobi_scaling) stays what the first step since begin_solve() has
  /// made it.
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

// Abilities that have a substitute.
/// By SeveralValues, else by evaluate_in_turn().
void evaluate(Engine& engine, const Values& wanted);
/// cost(), residuals() and gradient(), as far as they are wanted.
void evaluate_in_turn(Engine& engine, const Values& wanted);
/// Of engines whose callables may refuse a point: in turn, and all NaN where the cost is.
void evaluate_unless_refused(Engine& engine, const Values& wanted);
/// Begins an evaluation at x: of kind cost (one number), residual, gradient, or jvp, jtjp and hvp
/// with the direction p. x and p are read before it returns, `out` is written by finish() and
/// outlives the handle; x is the current point then. Other calls may follow before finish(). Throws
/// Error{Unsupported} for other kinds. Without AsynchronousEvaluations it has run when it returns.
std::unique_ptr<Pending> begin(Engine& engine, KernelKind kind, std::span<const double> x,
                               std::span<const double> p, std::span<double> out);
/// By KernelsAhead; true without it.
bool prepare(Engine& engine, KernelKind kind);
bool prepare_step(Engine& engine);

// Abilities that have none. Throw Error{Unsupported} without them.
DampedSteps& damped_steps(Engine& engine);
StepLengths& step_lengths(Engine& engine);
SecondDerivatives& second_derivatives(Engine& engine);

}  // namespace topograd::runtime
