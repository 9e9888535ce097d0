// Parts of reports in Ceres' layout.
#pragma once

#include "../types/types.hpp"

#include <string>
#include <vector>

namespace ceres::internal {

/// snprintf into a string.
[[gnu::format(printf, 1, 2)]] std::string Format(const char* text, ...);
/// "Topograd 0.1.0".
std::string VersionText();
std::string Seconds(const char* label, double value);
/// A line with a time and the number of evaluations or solves.
std::string Seconds(const char* label, double value, int count);
/// Lists the options without effect; empty if there are none.
std::string WithoutEffectText(const std::vector<std::string>& names);
std::string TerminationText(TerminationType termination, const std::string& message);
/// True if the parameters are at least as good as at the start.
bool IsUsable(TerminationType termination);

}  // namespace ceres::internal
