// Parts of reports in Ceres' layout.
#include "report.hpp"

#include "../../../ir/machine/formatted.hpp"

#include <cstdarg>

namespace ceres::internal {

std::string Format(const char* text, ...) {
  std::va_list arguments;
  va_start(arguments, text);
  std::string out = topograd::platform::formatted_list(text, arguments);
  va_end(arguments);
  return out;
}

std::string VersionText() { return "Topograd " TOPOGRAD_VERSION; }

std::string Seconds(const char* label, double value) {
  return Format("%-30s %14.6f\n", label, value);
}

std::string Seconds(const char* label, double value, int count) {
  return Format("%-30s %14.6f (%d)\n", label, value, count);
}

std::string WithoutEffectText(const std::vector<std::string>& names) {
  std::string out = names.empty() ? "" : "\nOptions without effect:\n";
  for (const std::string& name : names) out += "  " + name + "\n";
  return out;
}

std::string TerminationText(TerminationType termination, const std::string& message) {
  return Format("\nTermination:        %25s (%s)\n", TerminationTypeToString(termination),
                message.c_str());
}

bool IsUsable(TerminationType termination) {
  return termination == CONVERGENCE || termination == NO_CONVERGENCE || termination == USER_SUCCESS;
}

}  // namespace ceres::internal
