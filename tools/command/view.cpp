// topograd view: pull at a problem in the browser, on film, or for a measurement.
#include "../../view/service.hpp"
#include "../problems/bundle.hpp"
#include "../problems/developable.hpp"
#include "../view/film/film.hpp"
#include "../view/film/measure.hpp"
#include "../view/subjects/subjects.hpp"
#include "arguments/commands.hpp"
#include "arguments/output.hpp"
#include "arguments/shared_arguments.hpp"
#include "input/mesh_problem.hpp"
#include "input/named_problem.hpp"
#include "input/pose_graph_file.hpp"

#include "../../api/formats/bal.hpp"
#include "../../api/formats/pose_graph_problem.hpp"
#include "../../api/problem_file.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/platform.hpp"
#include "../../solver/interrupts.hpp"

#include <nlohmann/json.hpp>

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;

struct ViewArguments {
  ProblemArguments problem;
  SolverArguments solver;
  view::ServerOptions server;
  std::optional<int> steps;
  double budget = 16;
  bool open = false;
  std::string array, record, script, json;
  std::optional<double> bench;
  std::optional<std::uint64_t> random;
};

/// Names of the problems that can be viewed.
const std::vector<std::string>& viewed() {
  static const std::vector<std::string> kNames = {"arap",   "smooth", "developable", "springs",
                                                  "bundle", "bal",    "pose-graph"};
  return kNames;
}

view::Subject make_subject(const ViewArguments& arguments) {
  const ProblemArguments& problem = arguments.problem;
  const std::string& name = problem.name;
  if (name == "arap") {
    const TriangleMesh mesh = read_problem_mesh(problem).mesh;
    return view::arap_subject(mesh, arap_pins(problem, mesh));
  }
  if (name == "smooth")
    return view::smooth_subject(read_problem_mesh(problem).mesh, smooth_noise(problem));
  if (name == "developable")
    return view::developable_subject(read_problem_mesh(problem).mesh,
                                     problems::parse_developability(problem.energy));
  if (name == "springs") return view::springs_subject(problem.width);
  if (name == "bundle") return view::bundle_subject(*problems::bundle(bundle_options(problem)));
  if (name == "bal") {
    if (problem.file.empty()) throw Error(ErrorCode::InvalidArgument, "bal: expected a file");
    return view::bundle_subject(
        read_bal(input_file(problem.file)),
        {.loss = parse_loss(problem.loss), .fixed = problem.fixed, .normalize = problem.normalize});
  }
  if (name == "pose-graph")
    return view::pose_graph_subject(
        pose_graph_at_start(problem),
        {.objective = parse_pose_objective(problem.objective), .loss = parse_loss(problem.loss)});
  if (name.ends_with(".json")) return view::file_subject(read_problem(name), arguments.array);
  std::string names;
  for (const std::string& one : viewed()) names += (names.empty() ? "" : ", ") + one;
  throw Error(ErrorCode::InvalidArgument, "view: expected the problem " + names +
                                              " or a problem file that ends in .json, got \"" +
                                              name + "\"" + did_you_mean(name, viewed()));
}

view::LiveOptions live_options(const ViewArguments& arguments, SolverOptions options) {
  if (arguments.steps) options.max_iterations = *arguments.steps;
  options.max_linear_iterations = view::kLinearIterations;
  return {.solver = to_options(arguments.solver, options),
          .budget_ms =
              arguments.record.empty() ? arguments.budget : std::numeric_limits<double>::infinity(),
          .paused = !arguments.record.empty()};
}

/// Opens an address with the program that the desktop has for web pages. The address has a token,
/// and other users see the arguments of processes, so the program is given a file that leads to it
/// and that only this user can read. The file lives as long as this object.
class OpenedPage {
 public:
  explicit OpenedPage(const std::string& url)
      : folder_((std::filesystem::temp_directory_path() / "topograd-view-XXXXXX").string()) {
    if (::mkdtemp(folder_.data()) == nullptr) {
      print_warning("no browser could be opened: " + folder_ + " cannot be made");
      folder_.clear();
      return;
    }
    const std::string file = folder_ + "/page.html";
    const std::string page =
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" "
        "content=\"no-referrer\"><meta http-equiv=\"refresh\" content=\"0; "
        "url=" +
        url + "\"><title>topograd view</title>\n";
    const std::string command = "xdg-open '" + file + "' >/dev/null 2>&1 &";
    if (!platform::replace_file(file, std::as_bytes(std::span(page))) ||
        std::system(command.c_str()) != 0)
      print_warning("no browser could be opened");
  }
  ~OpenedPage() {
    std::error_code failed;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, failed);
  }
  OpenedPage(const OpenedPage&) = delete;
  OpenedPage& operator=(const OpenedPage&) = delete;

 private:
  std::string folder_;  // only this user enters it
};

/// Serves until a signal comes.
void serve(view::Subject subject, const ViewArguments& arguments,
           const view::LiveOptions& options) {
  view::Service service(std::move(subject), options);
  view::Server server(arguments.server, service);
  service.set_server(&server);
  std::cout << server.url() << std::endl;
  std::optional<OpenedPage> page;
  if (arguments.open) page.emplace(server.url());
  constexpr auto kLook = std::chrono::milliseconds(50);
  while (!Interrupts::came()) std::this_thread::sleep_for(kLook);
  service.set_server(nullptr);
}

ordered_json quantiles(const std::vector<double>& values) {
  constexpr double kHalf = 0.5, kAlmost = 0.99;
  return {{"p50", view::quantile(values, kHalf)},
          {"p99", view::quantile(values, kAlmost)},
          {"max", view::quantile(values, 1)}};
}

ordered_json bench(view::LiveSolver& live, const view::Script& script,
                   const ViewArguments& arguments) {
  const view::Measured m =
      view::measure(live, script, {.seconds = *arguments.bench, .random = arguments.random});
  const double seconds = std::max(m.seconds, 1e-9);
  return {{"problem", live.subject().name},
          {"points", live.subject().shown},
          {"unknowns", live.subject().problem->parameter_count()},
          {"backend", m.last->backend},
          {"device", m.last->device},
          {"precision", live.state()->precision},
          {"seconds", m.seconds},
          {"solves", m.solves},
          {"solves_per_second", static_cast<double>(m.solves) / seconds},
          {"steps_per_second", static_cast<double>(m.steps) / seconds},
          {"drags", m.drags},
          {"frame_ms", quantiles(m.frame_ms)},
          {"drag_to_frame_ms", quantiles(m.drag_to_frame_ms)},
          {"drag_to_frame_frames", quantiles(m.drag_to_frame)},
          {"encode_ms", quantiles(m.encode_ms)},
          {"frame_bytes", quantiles(m.frame_bytes)},
          {"shaders_compiled", m.compiled},
          {"nonfinite_frames", m.nonfinite},
          {"resident_bytes_before", m.bytes_before},
          {"resident_bytes_after", m.bytes_after},
          {"cost", m.last->cost},
          {"message", live.state()->message}};
}

void run_view(const ViewArguments& arguments) {
  if (!arguments.record.empty() && arguments.bench)
    throw Error(ErrorCode::InvalidArgument, "view: expected --record or --bench, got both");
  if (!arguments.record.empty()) view::check_film(arguments.record);
  std::optional<Interrupts::EndAtOnce> reading(std::in_place);
  view::Subject subject = make_subject(arguments);
  reading.reset();
  const view::LiveOptions options = live_options(arguments, subject.options);
  if (arguments.record.empty() && !arguments.bench)
    return serve(std::move(subject), arguments, options);
  view::LiveSolver live(std::move(subject), options);
  constexpr double kSeconds = 4;
  const view::Script script =
      arguments.script.empty() ? view::turning_script(live, kSeconds)
                               : view::parse_script(read_text(arguments.script), arguments.script);
  ordered_json report;
  if (arguments.bench) {
    report = bench(live, script, arguments);
    if (arguments.json.empty()) std::cout << report.dump(2) << '\n';
  } else {
    const std::shared_ptr<const view::Frame> last = view::record(live, script, arguments.record);
    report = {{"problem", live.subject().name},
              {"film", arguments.record},
              {"solves", last == nullptr ? 0 : last->number},
              {"cost", last == nullptr ? 0 : last->cost}};
  }
  write_json(arguments.json, report);
  end_if_interrupted("what was done so far is in the output");
}

}  // namespace

void add_view(Command app) {
  auto arguments = std::make_shared<ViewArguments>();
  Command command = app.subcommand(
      "view", "Serves a page on which a problem can be pulled at while it is solved");
  add_problem_options(command, arguments->problem);
  command.option("--array", &arguments->array,
                 "problem file: array of unknowns that is shown and pulled");
  command.group("The page");
  command.option("--port", &arguments->server.port, "port of the page; 0: one that is free")
      .range(0, 65535);
  command.option("--host", &arguments->server.host, "numeric address that is listened on");
  command.flag("--allow-remote", arguments->server.allow_remote,
               "accept a --host that other machines reach; nothing is encrypted");
  command.flag("--open", arguments->open, "open the page in the desktop's browser");
  command.group("Without a page");
  command.output("--record", &arguments->record,
                 "film of a scripted drag: an animated .png, or .mp4 by ffmpeg");
  command.option("--script", &arguments->script,
                 "JSON file with drags; if not given, the last handle goes around twice");
  command.option("--bench", &arguments->bench,
                 "seconds of dragging by the script, and measurements as JSON");
  command.option("--random", &arguments->random,
                 "with --bench: seed of random drags instead of a script");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  add_backend_options(command, arguments->solver);
  add_method_options(command, arguments->solver);
  command.group("One solve");
  command.option("--steps", &arguments->steps, "accepted and rejected steps of one solve, at most")
      .range(1, 1000)
      .shown_default("8, for developable 50");
  command.option("--budget", &arguments->budget,
                 "milliseconds after which a solve ends with its first accepted step");
  command.example("topograd view arap --mesh samples/data/spot.obj --open");
  command.example("topograd view samples/data/triangle.json");
  command.example("topograd view arap --icosphere 5 --bench 20 --json -");
  command.example("topograd view arap --icosphere 3 --record film.png --script drag.json");
  command.callback(noting_signals([arguments] { run_view(*arguments); }));
}

}  // namespace topograd::command
