// topograd demo: deforms a mesh that is in the program, on the CPU and on a GPU, and draws it.
#include "../draw/canvas.hpp"
#include "../draw/scene.hpp"
#include "../problems/arap.hpp"
#include "arguments/commands.hpp"
#include "arguments/output.hpp"
#include "info.hpp"
#include "solve/html_report.hpp"
#include "solve/progress.hpp"

#include "../../api/formats/mesh/mesh.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../../solver/interrupts.hpp"
#include "../../solver/solve.hpp"
#include "../../solver/summary.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::command {

/// samples/data/spot.obj, embedded by CMakeLists.txt.
extern const std::string_view kDemoMesh;

namespace {

struct DemoArguments {
  std::string out = "topograd-demo";
  bool software = false;
};

struct Solved {
  TriangleMesh mesh;
  Summary summary;
};

Solved deform(const TriangleMesh& mesh, Backend backend, const std::string& device) {
  const auto begin = std::chrono::steady_clock::now();
  Progress progress(true);
  progress.phase("tracing residuals");
  const std::unique_ptr<problems::Arap> arap = problems::arap(mesh);
  const double build_seconds = seconds_since(begin);
  SolverOptions options{.max_iterations = 100};
  options.backend = backend;
  options.device = device;
  options.precision = Precision::f64;
  progress.watch(options);
  Summary summary = solve(arap->problem, options);
  summary.times.build_seconds = build_seconds;
  return {{arap->positions, mesh.triangles}, std::move(summary)};
}

/// The device of the second solve, and in `reason` why there is none.
std::string choose_device(bool software, std::string& reason) {
  const nlohmann::ordered_json devices = describe_devices();
  if (devices.is_object()) {
    reason = devices["error"];
    return "";
  }
  std::string only_software;
  for (const nlohmann::ordered_json& device : devices) {
    if (device.contains("unusable")) continue;
    std::string index = std::to_string(device["index"].get<int>());
    if (device["type"] != "software") return index;
    if (only_software.empty()) only_software = std::move(index);
  }
  if (only_software.empty()) {
    reason = "no usable device";
  } else if (!software) {
    reason = "only a software device, which --software uses";
  }
  return software ? only_software : "";
}

/// A path as a word of a shell.
std::string quoted(const std::string& path) {
  return path.find(' ') == std::string::npos ? path : "'" + path + "'";
}

std::string cell(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// A column for each solve, a row for each figure.
std::string table(const std::vector<Solved>& solves) {
  constexpr std::size_t kLabel = 20, kColumn = 32;
  std::string out;
  const auto row = [&](const char* label, const std::function<std::string(const Summary&)>& text) {
    std::string line = label;
    line.resize(kLabel, ' ');
    for (const Solved& solved : solves) {
      const std::string value = text(solved.summary).substr(0, kColumn - 1);
      line += std::string(kColumn - value.size(), ' ') + value;
    }
    out += line + "\n";
  };
  row("", [](const Summary& s) { return s.backend; });
  row("device", [](const Summary& s) { return s.device; });
  row("cost at the start", [](const Summary& s) { return cell("%.9g", s.initial_cost); });
  row("cost at the end", [](const Summary& s) { return cell("%.12g", s.final_cost); });
  row("steps", [](const Summary& s) { return std::to_string(s.num_iterations()); });
  row("termination", [](const Summary& s) { return std::string(name(s.termination)); });
  row("tracing, s", [](const Summary& s) { return cell("%.3f", s.times.build_seconds); });
  row("plan, s", [](const Summary& s) { return cell("%.3f", s.times.plan_seconds); });
  row("whole solve, s", [](const Summary& s) { return cell("%.3f", s.times.total_seconds); });
  return out;
}

draw::Sheet sheet_of(const TriangleMesh& before, const Solved& after) {
  const Summary& s = after.summary;
  return draw::lay_out({draw::make_mesh(before.positions, before.triangles),
                        draw::make_mesh(after.mesh.positions, after.mesh.triangles)},
                       {"before: cost " + short_number(s.initial_cost, 6),
                        "after " + std::to_string(s.num_iterations()) + " steps: cost " +
                            short_number(s.final_cost, 6)});
}

/// The files of the demo in its folder.
struct DemoFiles {
  std::string before, after, png, svg;
};

DemoFiles prepare_files(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw Error(ErrorCode::File, folder + ": cannot be made: " + failed.message());
  const auto in_folder = [&](const char* name) {
    return (std::filesystem::path(folder) / name).string();
  };
  DemoFiles files{in_folder("spot_before.obj"), in_folder("spot_after.obj"), in_folder("spot.png"),
                  in_folder("spot.svg")};
  for (const std::string* path : {&files.before, &files.after, &files.png, &files.svg})
    check_writable(*path);
  return files;
}

void run_demo(const DemoArguments& arguments) {
  const DemoFiles files = prepare_files(arguments.out);
  const TriangleMesh mesh = parse_mesh(kDemoMesh, MeshFormat::obj, "spot.obj");
  std::cout << "A mesh of " << mesh.vertex_count()
            << " vertices is deformed: the lowest 5 % stay, the highest 5 % are lifted, and all\n"
               "edges turn with their vertices and keep their lengths as far as they can.\n"
            << std::flush;
  std::string reason;
  std::vector<Solved> solves = {deform(mesh, Backend::cpu, "")};
  const std::string device = choose_device(arguments.software, reason);
  if (!device.empty() && !Interrupts::came())
    solves.push_back(deform(mesh, Backend::vulkan, device));
  const Summary& first = solves.front().summary;
  std::cout << first.parameters << " unknowns, " << first.residuals << " residuals\n\n"
            << table(solves);
  if (device.empty()) std::cout << "\nNo second column: " << reason << " (topograd doctor)\n";
  write_mesh(files.before, mesh);
  write_mesh(files.after, solves.back().mesh);
  const draw::Sheet sheet = sheet_of(mesh, solves.back());
  write_text(files.png, png(sheet));
  draw::write_svg(sheet, files.svg);
  std::cout << "\n"
            << files.png << " shows the mesh before and after; colour: how far a vertex moved.\n"
            << "Next:\n"
            << "  topograd view arap --mesh " << quoted(files.before) << " --open\n"
            << "  topograd solve arap --mesh " << quoted(files.before) << " --report page.html\n"
            << std::flush;
  end_if_interrupted("files hold the best point so far");
}

}  // namespace

void add_demo(Command app) {
  auto arguments = std::make_shared<DemoArguments>();
  Command command = app.subcommand(
      "demo", "Deforms a mesh that is in the program, and draws it before and after");
  command.option("--out", &arguments->out, "folder for the meshes and their picture");
  command.flag("--software", arguments->software,
               "also on a Vulkan device in software, which is slower than the CPU without it");
  command.example("topograd demo --out demo");
  command.callback(noting_signals([arguments] { run_demo(*arguments); }));
}

}  // namespace topograd::command
