// topograd info and topograd doctor.
#include "info.hpp"

#include "arguments/commands.hpp"
#include "arguments/output.hpp"
#include "bench/ops/bench_ops.hpp"

#include "../../ir/op.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <thread>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;

/// Prints objects as indented "key: value" lines.
void print(std::ostream& out, const ordered_json& value, int indent) {
  for (const auto& [key, item] : value.items()) {
    out << std::string(static_cast<std::size_t>(indent), ' ') << key << ':';
    if (item.is_object()) {
      out << '\n';
      print(out, item, indent + 2);
    } else if (item.is_array()) {
      for (const auto& element : item) {
        if (element.is_object()) {
          out << '\n';
          print(out, element, indent + 2);
        } else {
          out << ' ' << (element.is_string() ? element.get<std::string>() : element.dump());
        }
      }
      if (item.empty() || !item.front().is_object()) out << '\n';
    } else {
      out << ' ' << (item.is_string() ? item.get<std::string>() : item.dump()) << '\n';
    }
  }
}

ordered_json describe() {
  ordered_json json;
  json["version"] = TOPOGRAD_VERSION;
  json["ops"] = ir::kOpCount;
  json["cpu_threads"] = std::thread::hardware_concurrency();
  json["devices"] = describe_devices();
  json["cache"] = describe_cache();
  return json;
}

/// The checks of the doctor as lines: state, name, detail and advice.
std::string lines_of_checks(const ordered_json& checks) {
  constexpr std::size_t kStateWidth = 9;
  std::string text;
  for (const ordered_json& check : checks) {
    std::string state = check["state"];
    state.resize(kStateWidth, ' ');
    text += state + check["name"].get<std::string>() + ": " + check["detail"].get<std::string>();
    if (check.contains("advice")) text += "; " + check["advice"].get<std::string>();
    text += "\n";
  }
  return text;
}

}  // namespace

void add_info(Command app) {
  auto json = std::make_shared<std::string>();
  auto ops = std::make_shared<bool>(false);
  Command command = app.subcommand("info", "Says what this build and this machine can do");
  command.output("--json", json.get(), "file, - for standard output");
  command.flag("--ops", *ops,
               "where operations on arrays go to a device: guesses, and what was measured");
  command.callback([json, ops] {
    ordered_json described = describe();
    if (*ops) described["operations"] = describe_operations();
    if (*json != "-") print(std::cout, described, 0);
    write_json(*json, described);
  });
}

void add_doctor(Command app) {
  auto device = std::make_shared<std::string>();
  auto json = std::make_shared<std::string>();
  Command command = app.subcommand("doctor", "Looks for what Vulkan needs, and runs a shader");
  command.option("--device", device.get(), "index or name of a Vulkan device");
  command.output("--json", json.get(),
                 "file of the checks and of what info says, - for standard output");
  command.callback([device, json] {
    const ordered_json checks = run_doctor(*device);
    const bool ok = std::ranges::none_of(
        checks, [](const ordered_json& check) { return check["state"] == "missing"; });
    if (*json != "-") std::cout << lines_of_checks(checks) << std::flush;
    if (!json->empty()) {
      ordered_json report = {{"ok", ok}, {"checks", checks}};
      report.update(describe());
      write_json(*json, report);
    }
    if (!ok) throw BoundBroken{};
  });
}

}  // namespace topograd::command
