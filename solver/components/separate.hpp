// The decision about the components of a problem, and their solution one by one.
#pragma once

#include "../model/model.hpp"
#include "../options.hpp"
#include "../summary.hpp"
#include "groups.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd {

struct MinimizerDevice;

/// `automatic` separates from so many components on, if none has more coordinates than that.
inline constexpr std::size_t kLeastComponents = 32;
inline constexpr std::uint32_t kLargestComponent = 64;
/// `separate` takes components up to this size: their matrices are dense.
inline constexpr std::uint32_t kLargestSeparate = 1024;

/// Why components cannot be solved for separately with these options, whatever the problem is;
/// empty: they can.
std::string obstacle_of(const SolverOptions& options);

/// The decision of SolverOptions::components.
struct ComponentChoice {
  bool separate = false;
  std::string why = {};                          ///< one line; empty: there is nothing to tell
  std::unique_ptr<ComponentSearch> search = {};  ///< of the components that are separate
};

/// Decides whether a problem is solved by component.
///
///   options     resolved
///   elsewhere   this is one process of several, or the engine is another one than the library's
///
/// Throws Error{Unsupported} that names what `separate` cannot do.
ComponentChoice choose_components(const ProblemModel& model, const SolverOptions& options,
                                  bool elsewhere);

/// Throws Error{Unsupported} that names what components of a model cannot be solved for with.
///
///   call  begins the message
void check_components(const char* call, const ProblemModel& model, const SolverOptions& options);

/// Minimises components, any number of times. What the groups say of counts and numbers may change
/// between two runs.
class ComponentSolver {
 public:
  /// How often it runs. Kernels that run again are kept, otherwise those of one group at a time.
  enum class Runs : std::uint8_t { once, again };

  /// Says who gives the verdicts of components on a device. The host does it in f64 and
  /// goes on where the device ended too early; the device does it in its own precision. Components
  /// that no rule of the device ended, and components with covariances, are always the host's.
  enum class Verdicts : std::uint8_t { host, device };

  /// Groups and bounds outlive it. On the CPU components are solved in f64, whatever precision is
  /// asked for.
  ///
  ///   lower, upper  by scalar of x, or of its first numbers, which then repeat; or empty
  ///   device        that minimises the components that it can; or null
  ComponentSolver(const ComponentGroups& groups, const SolverOptions& options,
                  std::span<const double> lower, std::span<const double> upper, Runs runs,
                  const MinimizerDevice* device, Verdicts verdicts = Verdicts::host);
  ~ComponentSolver();

  /// Minimises from x, and writes the components that took a step back to x. Sets backend, costs,
  /// steps, termination and the columns of the summary; its termination is CONVERGENCE only if that
  /// of all components is.
  void run(std::span<double> x, Summary& summary);

 private:
  struct DeviceGroups;
  struct Kernels;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd
