// Search for residuals without a finite value or derivative, and for losses that decrease.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../../autodiff/kinks.hpp"
#include "../../runtime/engine/engine.hpp"
#include "model.hpp"

namespace topograd {

/// Names the residual block whose loss has a negative slope at the engine's point: label, instance,
/// loss and slope; nothing if there is none. Runs on the interpreter in double for every engine.
///
/// Cost: reads the point and evaluates the blocks with custom, host or composed losses, if there
/// are any; built-in ones never decrease.
std::optional<std::string> describe_decreasing_loss(runtime::Engine& engine,
                                                    const ProblemModel& model);

/// "the loss "minus" of residual "a" #0 has slope -1 at a squared norm of 4; expected a slope >=
/// 0".
///
///   block  name of the block
///   s      its squared norm
///   slope  ρ′(s)
std::string decreasing_loss_text(const Loss& loss, const std::string& block, double s,
                                 double slope);

/// Names the residual (label, instance, topology), or its derivative, that is not finite at the
/// engine's point, and the first op that made it so with its operands. Operands are values of the
/// kernel's debug variant, run on the engine's device at its point.
///
/// Reads residuals and, if these are finite, Jacobians and energies. Cost: an evaluation and a
/// readback of each, and one shader.
std::string describe_nonfinite(runtime::Engine& engine, const ProblemModel& model);

/// The same for residuals at the engine's last trial point; empty if the engine does not give the
/// point or every residual is finite there. Cost: an evaluation.
std::string describe_nonfinite_trial(runtime::Engine& engine, const ProblemModel& model);

/// Search for instances whose cost has a kink at a point (autodiff/kinks.hpp).
///
/// Kinks by fixed unknowns do not count.
class KinkCheck {
 public:
  /// Differentiates the topologies that have kinks.
  ///
  ///   model   outlives it
  ///   fixed   by scalar, at most as many as the model has; outlives it
  KinkCheck(const ProblemModel& model, std::span<const std::uint8_t> fixed,
            runtime::Precision precision, autodiff::KinksSought sought);

  /// Names the first instance of this process, and the op; nothing if there is none. Evaluates on
  /// the CPU in the precision.
  ///
  /// Cost: nothing if no topology has a kink, else about that of the gradient.
  std::optional<std::string> describe(std::span<const double> x) const;
  /// Unknowns that are not fixed, of all instances of this process with such a kink, ascending.
  /// Leaves out data on a device. Cost: as describe().
  std::vector<std::uint32_t> unknowns_at(std::span<const double> x) const;

 private:
  struct Search {
    std::size_t term = 0;
    ir::Program cost;
    autodiff::KinkSearch kinks;
  };
  /// Calls visit(instance) for those with a kink, until it returns true; returns that.
  template <class Visit>
  bool visit(const Search& search, std::span<const double> x, const Visit& visit) const;
  std::optional<std::string> describe_instance(const Search& search, std::size_t instance,
                                               std::span<const double> x) const;

  const ProblemModel& model_;
  std::span<const std::uint8_t> fixed_;
  runtime::Precision precision_;
  autodiff::KinksSought sought_;
  std::vector<Search> searches_;
};

/// A number for a message, with all of its digits.
std::string number_text(double value);

/// Throws Error{NonFinite} that names array, block and coordinate of the first value that is not
/// finite.
///
///   call  name for the message, e.g. "solve"
///   x     of the problem, parameter_count() values
void check_start(const char* call, const Problem& problem, std::span<const double> x);

}  // namespace topograd
