// The choice between the CPU and a device for separate components: facts, rules, and the machine.
#pragma once

#include "../executor.hpp"
#include "../plan/decide.hpp"
#include "../summary.hpp"
#include "device_minimizer.hpp"
#include "groups.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace topograd {

/// Work of one component of a group.
struct ComponentWork {
  double unknowns = 0;      ///< coordinates of a step
  double operations = 0;    ///< of its residuals
  double products = 0;      ///< that JᵀJ sums
  double up = 0, down = 0;  ///< numbers that a device receives and returns
};

/// Cost: a pass over the rows of a component, and one over its programs.
ComponentWork work_of(const ComponentGroup& group);

/// A group of components.
struct GroupWork {
  ComponentWork one;
  double count = 0;
  bool on_device = true;  ///< on the device, once it is known
};

/// The device that the options choose, and what this process knows of it.
struct RouteDeviceFacts {
  DeviceFacts found;
  Precision precision = Precision::f32;  ///< of the kernels
  bool named = false;                    ///< the device is, or software may be chosen
  bool refused = false;                  ///< the executor keeps work from it: it failed before
  /// Measured times of the same components; empty: they have not run there.
  std::optional<double> cpu_seconds = {}, seconds = {};
};

struct RouteFacts {
  std::vector<GroupWork> groups;
  std::uint64_t instances = 0, threshold = 0;  ///< residual blocks of all, and the least number
  int threads = 1;                             ///< of the host
  bool host_checks = true;                     ///< the host gives the verdicts
  bool deterministic = false;                  ///< neither clocks nor the past decide
  bool opened = false;                         ///< this process has used a device before
  bool kernels_made = false;                   ///< it has made the kernels of these components
  /// Seconds of solves that could have used a device: of all, and of these components.
  double spent = 0, spent_here = 0;
  std::optional<RouteDeviceFacts> device;  ///< looked at if `next` asks for it
};

enum class RouteReason : std::uint8_t {
  asked_for,
  below_threshold,
  short_solve,  ///< too short for any device to save time, or for opening one
  no_device,
  software_device,  ///< and nobody named it
  refused,
  no_component,  ///< can be minimised there
  slower,        ///< on the device
  faster,
  device_failed,
};

/// Seconds of a solve on a device, by its parts.
struct RouteSeconds {
  double setup = 0;      ///< the device is opened, kernels are made
  double transfers = 0;  ///< with the gathering of the numbers
  double kernels = 0;
  double host = 0;  ///< its checks, and the other components

  double total() const { return setup + transfers + kernels + host; }
};

struct RouteChoice {
  bool asks_for_device = false;  ///< RouteFacts::device has to be known
  bool on_device = false;
  RouteReason reason = RouteReason::asked_for;
  double cpu_seconds = 0;
  RouteSeconds device_seconds;

  /// No device was considered.
  bool is_by_size() const {
    return !asks_for_device &&
           (reason == RouteReason::below_threshold || reason == RouteReason::short_solve);
  }
};

/// Predicts the time of all components on the CPU.
double cpu_seconds(const RouteFacts& facts);
/// The same on a device.
RouteSeconds device_seconds(const RouteFacts& facts, Precision precision);

/// Decides where components are solved for under Backend::automatic: rules first, then the times
/// that were measured, or else predicted. A device has to be clearly faster, also where it has to
/// be opened first. The times of solves that could have used one count for that, and those of
/// the same components for their kernels: so no more is lost than about as much again.
///
/// Problems that are too small for any device are decided without a look for one.
RouteChoice decide_route(const RouteFacts& facts);

/// One line; empty for what is asked for.
///
///   problem  of the device, if it failed
std::string text(const RouteChoice& choice, const RouteFacts& facts, const std::string& problem);

/// Decides before each solve whether a device minimises the components. One thread.
class ComponentRoute {
 public:
  /// Both outlive it. Only counts of the groups may change.
  ///
  ///   options      resolved
  ///   host_checks  the host gives the verdicts of components on a device
  ComponentRoute(const ComponentGroups& groups, const SolverOptions& options, bool host_checks);

  /// The device for the next solve, or null: the CPU. It is looked for once.
  ///
  /// Throws the device's error if the options ask for one and there is none.
  const MinimizerDevice* decide();
  /// Why the device that was found does not minimise all components; empty: it does.
  std::string obstacle() const;

  /// True if the CPU takes over: the device failed that was chosen, not asked for.
  bool take_over(const Error& failure);
  /// A solve has ended where it was decided.
  ///
  ///   cold  the device's kernels were made for it
  void ended(double seconds, bool cold);

  /// Adds the reason for the choice, and the time of the look for a device.
  void describe(Summary& summary) const;

 private:
  void look();
  void ask_executor();
  runtime::hybrid::TaskShape task() const;

  const ComponentGroups& groups_;
  const SolverOptions& options_;
  RouteFacts facts_;
  RouteChoice choice_;
  std::vector<std::uint64_t> blocks_;  // of one component, by group
  ir::Hash128 kernel_;
  std::optional<MinimizerDevice> device_;
  std::size_t target_ = runtime::hybrid::kCpu;  // of the executor
  std::string problem_;
  double search_seconds_ = 0;
};

}  // namespace topograd
