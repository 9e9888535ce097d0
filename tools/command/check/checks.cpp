// Transfers results and errors of other processes as JSON through a pipe.
#include "checks.hpp"

#include <nlohmann/json.hpp>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"

namespace topograd::command {

using nlohmann::ordered_json;

ordered_json in_a_process(const std::string& check, const std::function<ordered_json()>& work,
                          double seconds) {
  std::string said;
  const platform::ChildEnd end = platform::run_child(
      [&](const std::function<void(const std::string&)>& tell) {
        try {
          tell(work().dump());
        } catch (const Error& error) {
          tell(ordered_json{{"code", static_cast<int>(error.code())}, {"error", error.what()}}
                   .dump());
        }
      },
      [&](const std::string& line) { said = line; }, seconds);
  if (!end.well() || said.empty())
    throw Error(ErrorCode::Internal, check + ": a process ended with status " +
                                         std::to_string(end.status) + ", signal " +
                                         std::to_string(end.signal));
  ordered_json out = ordered_json::parse(said);
  if (out.is_object() && out.contains("error"))
    throw Error(static_cast<ErrorCode>(out["code"].get<int>()), out["error"].get<std::string>());
  return out;
}

}  // namespace topograd::command
