// The engines of a session, and which of them serves while the kernels of a device are compiled.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "../../ir/error.hpp"
#include "../../runtime/engine/engine.hpp"
#include "../../runtime/engine/first_order.hpp"
#include "../../runtime/engine/outer_engine.hpp"

namespace topograd {

/// The device serves an evaluation or a step once all kernels that it needs are ready, and the
/// interpreter serves until then. No engine is asked: `ready` says which kernels are there, and
/// begins to make those that are not.
class StartUp {
 public:
  using Ready = std::function<bool(const runtime::Need&)>;

  /// True if the device serves what needs these kernels. All of them are asked for, so that all are
  /// begun; what is missing is remembered until it is ready.
  bool on_device(std::span<const runtime::Need> needs, const Ready& ready);
  /// The same for a linearisation. Evaluations that were asked for before have to be ready, too:
  /// more of them may follow at the point.
  bool steps_on_device(std::span<const runtime::Need> needs, const Ready& ready);
  /// True if something that was asked for is not ready yet.
  bool waits() const { return !missing_.empty(); }

 private:
  std::set<runtime::Need> missing_;
};

/// Gives the engine for the next evaluation or step. With a device and an interpreter, no call
/// waits for a compiler (StartUp), and a device that cannot make its kernels is let go of. With one
/// engine, it is always that one.
///
/// Every call may end the engine that served before it, so callers ask anew; between calls it
/// stays.
class Engines {
 public:
  using Make = std::function<std::unique_ptr<runtime::Engine>()>;

  explicit Engines(std::unique_ptr<runtime::Engine> only);
  /// `only` outlives it.
  explicit Engines(runtime::Engine& only) : chosen_(&only), serving_(&only) {}
  ///   scalars           of points
  ///   device            of the same model as what make_interpreter makes
  ///   make_interpreter  called when it is needed, of the model as it is then
  ///   is_device_error   true if the error means that the device is of no use, asked once; other
  ///                     errors are thrown on
  Engines(std::size_t scalars, std::unique_ptr<runtime::Engine> device, Make make_interpreter,
          std::function<bool(const Error&)> is_device_error);

  /// The engine that serves now; it holds the point.
  runtime::Engine& here() const { return outer_.empty() ? *serving_ : *outer_.back(); }
  /// The engine that serves once all kernels are ready, without what is around it. It has the
  /// plan, and linear systems are prepared on it.
  runtime::Engine& planned() const { return *chosen_; }

  /// The engine for an evaluation of this kind, at any point: the caller sets its point.
  runtime::Engine& for_evaluation(runtime::Pass pass);
  /// The same, with its point at x.
  runtime::Engine& at(runtime::Pass pass, std::span<const double> x);
  /// The engine for a linearisation and for steps from there, at the point of here().
  runtime::Engine& for_steps(std::span<const runtime::Need> needs);
  /// The engine's own steps along gradients, which serve from then on; the caller sets the point
  /// of here(). Null if there are none, and, without `wait` or while the interpreter serves, as
  /// long as their kernels are compiled.
  runtime::FirstOrderSteps* first_order_steps(bool wait);
  runtime::DescentSteps* descent_steps(bool wait);

  /// Starts to make kernels of the planned engine; true when they are ready.
  bool prepare(const runtime::Need& need);

  /// The device's engine; null without one. Evaluations that were begun on it hold it until they
  /// have finished, since it may be let go of before.
  std::shared_ptr<const runtime::Engine> hold() const { return owned_; }

  /// Puts an engine around the one that serves; it was made with here() as its inner one.
  void put_around(std::unique_ptr<runtime::OuterEngine> outer);
  /// Brings all engines to the problem's present numbers.
  void refresh(const runtime::Model& model);
  /// The same without what is around them.
  void refresh_inside(const runtime::Model& model);
  void begin_solve();
  /// Sums of all engines, also of those that are gone.
  runtime::EngineStats stats() const;
  /// True while an interpreter serves in the place of the planned device.
  bool starting() const { return serving_ == interpreter_.get() && chosen_ != serving_; }
  /// One line: why kernels run where they do, given why the planned backend was chosen.
  std::string reason(const std::string& why) const;

 private:
  /// All engines, without what is around them.
  std::vector<runtime::Engine*> all() const;
  StartUp::Ready ready();
  runtime::Engine& serve(bool on_device, bool keeps_point);
  template <class Steps>
  Steps* gradient_steps(runtime::Need::Of of, bool wait,
                        Steps* (runtime::GradientSteps::*give)(bool));
  void let_go(const Error& error);

  std::shared_ptr<runtime::Engine> owned_;
  std::unique_ptr<runtime::Engine> interpreter_;
  std::vector<std::unique_ptr<runtime::OuterEngine>> outer_;  // from the innermost
  runtime::Engine* chosen_;   // owned_, or the interpreter after the device was let go of
  runtime::Engine* serving_;  // has the point: chosen_ or interpreter_
  Make make_interpreter_;
  std::function<bool(const Error&)> is_device_error_;
  StartUp start_up_;
  std::vector<double> x_;         // scratch
  runtime::EngineStats earlier_;  // of engines that are gone
  std::string failure_;
};

}  // namespace topograd
