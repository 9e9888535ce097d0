// The decision about the components of a problem, and their solution one by one.
#pragma once

#include "../model/model.hpp"
#include "../options.hpp"
#include "../summary.hpp"
#include "groups.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd {

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

/// Minimises the components from x, and writes those that took a step back to x. Sets place, costs,
/// steps, termination and the columns of the summary; its termination is CONVERGENCE only if that
/// of all components is.
///
///   lower, upper  by scalar of x, or of its first numbers, which then repeat; or empty
void minimize_components(const ComponentGroups& groups, const SolverOptions& options,
                         std::span<const double> lower, std::span<const double> upper,
                         std::span<double> x, Summary& summary);

}  // namespace topograd
