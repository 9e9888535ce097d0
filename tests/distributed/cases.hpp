// Problems that are solved by one process and by several.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../ir/share.hpp"
#include "../../solver/options.hpp"
#include "../../solver/summary.hpp"

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::test {

/// A problem with its memory and options.
struct Case {
  Problem* problem = nullptr;
  std::vector<std::span<const double>> unknowns;
  SolverOptions options;
  std::shared_ptr<void> memory;
};

/// The residuals on the host of the case "host" throw while this is true.
extern std::atomic<bool> host_residual_fails;

/// "springs", "arap", ...: see the table in cases.cpp.
Case make_case(const std::string& name);
std::vector<std::string> case_names();
/// Cases from tools/problems/portable.hpp, with portable bits.
std::vector<std::string> portable_case_names();
/// The case "bounds" with another value of its uniform ("uniform"), another scale of a loss
/// ("scale") or another loss ("loss").
Case make_other_bounds(const std::string& other);
/// Problems with a share of their residuals. "not_finite" is none of the names.
Case make_case(const std::string& name, Share share);
std::vector<std::string> share_case_names();

/// The answer with all bits: the cost of each step, its linear iterations, and the unknowns.
std::string exact_text(const Case& solved, const Summary& summary);

}  // namespace topograd::test
