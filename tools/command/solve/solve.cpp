// The subcommand `solve`, with the kernels that it writes on request.
#include "../../../solver/solve.hpp"
#include "../../../api/problem_file.hpp"
#include "../../../api/source.hpp"
#include "../../../frontend/inspect/unread_blocks.hpp"
#include "../../../frontend/problem.hpp"
#include "../../../ir/error.hpp"
#include "../../../runtime/plan/record/plan_record.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/solve/ahead.hpp"
#include "../../../solver/summary.hpp"
#include "../../draw/canvas.hpp"
#include "../../draw/scene.hpp"
#include "../arguments/commands.hpp"
#include "../arguments/output.hpp"
#include "../arguments/shared_arguments.hpp"
#include "../input/named_problem.hpp"
#include "../peers/peer_inputs.hpp"
#include "answer.hpp"
#include "distributed.hpp"
#include "html_report.hpp"
#include "progress.hpp"
#include "solve_peers.hpp"
#include "solve_sets.hpp"

#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd::command {

namespace {

/// The kernels that such a solve runs, as compiled by Vulkan. Needs no device.
std::vector<NamedSource> kernels_of(const Problem& problem, const Summary& summary) {
  std::vector<std::string> passes = {"cost", "gradient"};
  const bool products = form_of(summary.linear_solver) == LinearForm::products;
  switch (summary.step_method) {
    case Method::levenberg_marquardt:
    case Method::gauss_newton:
    case Method::dogleg:
      if (products) {
        passes.insert(passes.end(), {"jtjp", "blocks"});
      } else {
        passes.push_back("jacobian");
      }
      break;
    case Method::newton: passes.push_back(products ? "hvp" : "hessian"); break;
    case Method::lbfgs:
    case Method::adam:
    case Method::adamw:
    case Method::sgd:
    case Method::augmented_lagrangian:
    case Method::barrier:
    case Method::automatic: break;
  }
  SourceOptions options{.precision = summary.precision};
  // The strategy's name comes first, then its reason.
  const std::string strategy =
      summary.accumulation.substr(0, summary.accumulation.find_first_of(" ,:"));
  if (!strategy.empty()) options.accumulation = codegen::parse_accumulation(strategy);
  std::vector<NamedSource> out;
  for (const std::string& pass : passes) {
    options.kernel = pass;
    // In mixed precision the linear solver runs in f32.
    const bool linear = pass == "jtjp" || pass == "blocks";
    if (summary.precision == Precision::mixed)
      options.precision = linear ? Precision::f32 : Precision::f64;
    for (NamedSource& source : sources(problem, options)) out.push_back(std::move(source));
  }
  return out;
}

struct SolveArguments {
  ProblemArguments problem;
  IkArguments ik;
  SolverArguments solver;
  std::string out, json, report, metrics, trace, training;
  std::string command;  // command line of this call
  bool quiet = false, verbose = false, require_convergence = false, covariance = false;
  bool distributed = false;
  std::vector<std::string> peers;

  bool silent() const { return quiet || json == "-"; }
  bool wants_answer() const { return !silent() || !report.empty() || !json.empty(); }
  bool wants_picture() const { return !out.empty() || !report.empty(); }
};

[[noreturn]] void refuse(const SolveArguments& arguments, const std::string& option) {
  throw Error(ErrorCode::InvalidArgument, arguments.problem.name + ": " + option);
}

PageContent page_head(const SolveArguments& arguments) {
  return {.title = "topograd solve " + arguments.problem.name, .command = arguments.command};
}

/// Sets standard error and the exit status after all output.
///
///   unconverged  solves without convergence and the reason; empty if there are none
void finish(const SolveArguments& arguments, const std::string& unconverged) {
  end_if_interrupted("outputs hold the best point so far");
  if (unconverged.empty()) return;
  print_warning(unconverged);
  if (arguments.require_convergence) throw BoundBroken{};
}

/// Text of the counters, taken before the work for the answer is counted.
struct Counts {
  std::string metrics, training;
};

Counts counts_of(const SolveArguments& arguments) {
  return {.metrics = arguments.metrics.empty() ? "" : metrics_text(arguments.metrics),
          .training = arguments.training.empty() ? "" : training_text(arguments.training)};
}

void write_counts(const SolveArguments& arguments, const Counts& counts, Outputs& outputs) {
  outputs.write(arguments.metrics, [&] { return counts.metrics; });
  outputs.write(arguments.training, [&] { return counts.training; });
}

/// Adds the answers of one problem's runs to their rows. Prints and returns the answer of the run
/// with the lowest cost; empty for a set.
Answer find_lone_answer(const SolveArguments& arguments, SolvedSet& set) {
  Answer best;
  const Summary* best_summary = nullptr;
  for (std::size_t k = 0; k < set.alone.size(); ++k) {
    const Summary& summary = set.alone[k].summary;
    if (!std::isfinite(summary.final_cost)) continue;  // the start cannot be evaluated
    Answer answer = find_answer(*set.alone[k].problem, summary, arguments.covariance);
    set.report.describe_run(k, answer);
    if (best_summary != nullptr && summary.final_cost >= best_summary->final_cost) continue;
    best = std::move(answer);
    best.title = "From start " + std::to_string(k + 1);
    best_summary = &summary;
  }
  if (best_summary != nullptr && !arguments.silent())
    std::cout << "\n" << report(best, *best_summary) << std::flush;
  return best;
}

void solve_many(const SolveArguments& arguments) {
  if (!arguments.out.empty()) refuse(arguments, "--out expects a problem that has a mesh");
  if (!arguments.trace.empty()) refuse(arguments, "--trace expects a problem, not a set of them");
  if (arguments.solver.profile) refuse(arguments, "--profile expects a problem, not a set of them");
  if (!arguments.solver.checkpoint.empty() || !arguments.solver.resume.empty())
    refuse(arguments, "--checkpoint and --resume expect a problem, not a set of them");
  const bool alone =
      arguments.problem.name == "nist" && read_nist_sets(arguments.problem).size() == 1;
  if (arguments.covariance && !alone)
    refuse(arguments, "--covariance expects a problem, not a set of them");
  check_peers(arguments.peers, arguments.problem);
  SolvedSet set =
      solve_set(arguments.problem, arguments.solver, arguments.peers, arguments.silent());
  if (!arguments.silent()) std::cout << set.report.verdict() << std::endl;
  const Counts counts = counts_of(arguments);
  Outputs outputs;
  PageContent page = page_head(arguments);
  if (arguments.wants_answer())
    outputs.attempt([&] { page.answer = find_lone_answer(arguments, set); });
  const nlohmann::ordered_json json = set.report.json();
  outputs.write(arguments.json, [&] { return json.dump(2) + "\n"; });
  outputs.write(arguments.report, [&] { return html_set_report(json, page); });
  write_counts(arguments, counts, outputs);
  outputs.finish();
  finish(arguments, set.report.unconverged());
}

/// Throws Error{InvalidArgument} for outputs that ik does not have.
void check_ik(const SolveArguments& arguments) {
  const std::pair<bool, const char*> other[] = {
      {!arguments.report.empty(), "--report"},
      {!arguments.trace.empty(), "--trace"},
      {!arguments.solver.plan_out.empty(), "--plan-out"},
      {!arguments.solver.checkpoint.empty(), "--checkpoint"},
      {!arguments.solver.resume.empty(), "--resume"},
      {!arguments.peers.empty(), "--peer"},
      {arguments.covariance, "--covariance"},
      {arguments.distributed, "--distributed"}};
  for (const auto& [given, option] : other)
    if (given) refuse(arguments, std::string(option) + " expects another problem");
}

void solve_kinematics(const SolveArguments& arguments) {
  check_ik(arguments);
  nlohmann::ordered_json json;
  const IkAnswer answer =
      solve_ik(arguments.ik, arguments.solver, arguments.problem.bundle.seed, json);
  if (!arguments.silent()) std::cout << answer.text << std::flush;
  const Counts counts = counts_of(arguments);
  Outputs outputs;
  outputs.write(arguments.out, [&] { return answer.csv; });
  outputs.write(arguments.json, [&] { return json.dump(2) + "\n"; });
  write_counts(arguments, counts, outputs);
  outputs.finish();
  finish(arguments, answer.unconverged);
}

draw::Mesh mesh_to_draw(const Shown& shown) {
  return draw::make_mesh(shown.mesh.positions, shown.mesh.triangles, shown.values);
}

/// Before and after side by side as a PNG; empty for a problem without a mesh.
std::string picture(const Shown& before, const NamedProblem& named, const Summary& summary) {
  if (before.mesh.positions.empty()) return "";
  std::vector<draw::Mesh> meshes = {mesh_to_draw(before), mesh_to_draw(named.shown())};
  const int steps = summary.num_iterations();
  return png(draw::lay_out(
      std::move(meshes),
      {before.caption.empty() ? "before: cost " + short_number(summary.initial_cost, 6)
                              : before.caption,
       "after " + std::to_string(steps) + (steps == 1 ? " step" : " steps") + ": cost " +
           short_number(summary.final_cost, 6)}));
}

/// F.png for a mesh, scene, graph or folder F.
std::string picture_path(std::string out) {
  for (const std::string_view ending : {".obj", ".off", ".ply", ".stl", ".g2o", ".json"})
    if (out.ends_with(ending)) out.resize(out.size() - ending.size());
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  return out + ".png";
}

/// Rows of this library and of the peers; empty if there are no peers.
std::vector<PageContent::Row> peer_rows(const Summary& s, const std::vector<PeerReport>& peers) {
  if (peers.empty()) return {};
  std::vector<PageContent::Row> rows = {{"Topograd", s.times.total_seconds, s.final_cost,
                                         s.num_iterations(),
                                         std::string(linear_solver_name(s)) + ", " + s.device}};
  for (const PeerReport& p : peers) {
    rows.push_back({p.name + " " + p.version, p.solve_s, p.final_cost, p.iterations,
                    p.linear_solver + ", " + p.libraries});
  }
  return rows;
}

std::string page_of(const SolveArguments& arguments, NamedProblem& named, const Summary& summary,
                    const Answer& answer, const std::vector<PeerReport>& peers,
                    const std::string& png) {
  PageContent content = page_head(arguments);
  if (!answer.title.empty()) content.title = answer.title;
  content.answer = answer;
  content.verbose = arguments.verbose;
  content.picture = png;
  content.legend = named.legend();
  content.peers = peer_rows(summary, peers);
  content.kernels = kernels_of(named.problem(), summary);
  return html_report(summary, content);
}

nlohmann::ordered_json json_of(const Summary& summary, const NamedProblem& named,
                               const Answer& answer) {
  auto report = nlohmann::ordered_json::parse(to_json(summary));
  if (const ProblemFile* file = named.file()) {
    report["parameters"] = nlohmann::ordered_json::object();
    for (const ProblemFile::Array& array : file->parameters)
      report["parameters"][array.name] = array.values;
  }
  describe(answer, report);
  named.describe_answer(report);
  return report;
}

Summary solve_shown(NamedProblem& named, const SolverOptions& options, Progress& progress,
                    DistributedSolver* distributed, bool of_share) {
  progress.watch(options, [&named](double cost) { return named.error_text(cost); });
  Summary summary = distributed == nullptr ? named.minimize(options)
                                           : distributed->solve(named.problem(), options, of_share);
  summary.times.build_seconds = named.build_seconds;
  return summary;
}

/// The phase in which the problem is made: "reading bunny.obj".
std::string making_text(const ProblemArguments& problem) {
  const std::string file = !problem.file.empty()             ? problem.file
                           : !problem.mesh.empty()           ? problem.mesh
                           : problem.name.ends_with(".json") ? problem.name
                                                             : "";
  return file.empty() ? "tracing " + problem.name
                      : "reading " + std::filesystem::path(file).filename().string();
}

/// "NO_CONVERGENCE: maximum number of iterations reached: 3"; empty for a solve that converged.
std::string unconverged(const Summary& summary) {
  if (summary.termination == Termination::CONVERGENCE) return "";
  return std::string(name(summary.termination)) + ": " + summary.message;
}

/// The processes that solve together; null: this one alone.
DistributedSolver* processes_for(const SolveArguments& arguments) {
  if (!arguments.distributed) return nullptr;
  if (distributed_solver() == nullptr)
    refuse(arguments,
           "--distributed expects the program topograd-distributed beside topograd; build it with "
           "-DTOPOGRAD_DISTRIBUTED=ON");
  if (arguments.solver.profile)
    refuse(arguments, "--profile expects one process, got --distributed; --trace shows several");
  if (is_set(arguments.problem.name))
    refuse(arguments, "--distributed expects a problem, not a set of them");
  return distributed_solver();
}

/// The problem and the options with which it is solved.
struct MadeProblem {
  std::unique_ptr<NamedProblem> named;
  SolverOptions options;
  const ShareGroup* shares = nullptr;  ///< null: the problem is whole
};

/// A share of the residuals where all processes need no more; otherwise the whole problem.
MadeProblem make_for(const SolveArguments& arguments, const DistributedSolver* distributed) {
  MadeProblem made;
  const auto make = [&](const ShareGroup* shares) {
    ProblemArguments problem = arguments.problem;
    problem.shares = shares;
    made.shares = shares;
    made.named = make_problem(problem);
    made.options = options_of(arguments.solver, *made.named);
  };
  const bool needs_whole = distributed == nullptr || arguments.covariance ||
                           !arguments.report.empty() || !arguments.peers.empty();
  make(!needs_whole && can_share(arguments.problem) ? distributed : nullptr);
  if (made.shares != nullptr && !can_divide(made.options, made.named->problem(), *made.shares))
    make(nullptr);
  return made;
}

void check(const SolveArguments& arguments, NamedProblem& named) {
  if (!arguments.out.empty() && named.writers() == NamedProblem::Writers::none)
    refuse(arguments, "--out expects a problem that has a mesh, a scene or a pose graph");
  if (!arguments.out.empty()) named.check_out(arguments.out);
  if (arguments.covariance) check_covariance(arguments.problem.name, named.problem());
  check_peers(arguments.peers, arguments.problem);
}

/// A solve that has ended, for what is printed and written about it.
struct Solved {
  NamedProblem& named;
  const Summary& summary;
  const Answer& answer;
  DistributedSolver* distributed;  ///< or null
};

void print(const SolveArguments& arguments, const Solved& solved) {
  if (arguments.silent()) return;
  std::cout << report(solved.answer, solved.summary);
  if (arguments.verbose) {
    std::cout << "\n" << solved.summary.full_report();
  } else if (arguments.solver.profile) {
    std::cout << "\n" << profile_table(solved.summary);
  }
  if (solved.distributed != nullptr) std::cout << "\n" << solved.distributed->text();
  std::cout << std::flush;
}

std::vector<PeerReport> run_peers(const SolveArguments& arguments, const SolverOptions& options) {
  if (Interrupts::came()) return {};
  std::vector<PeerReport> peers =
      minimize_with_peers(arguments.peers, arguments.problem, arguments.solver, options);
  for (const PeerReport& peer : peers)
    if (!arguments.silent()) std::cout << "Beside it: " << line_of(peer) << std::endl;
  return peers;
}

void write_report(const SolveArguments& arguments, const Solved& solved,
                  const std::vector<PeerReport>& peers, Outputs& outputs) {
  outputs.write(arguments.json, [&] {
    nlohmann::ordered_json json = json_of(solved.summary, solved.named, solved.answer);
    if (solved.distributed != nullptr) solved.distributed->describe(json);
    if (!peers.empty()) json["peers"] = to_json(peers, peer_threads(arguments.solver));
    return json.dump(2) + "\n";
  });
}

void write_files(const SolveArguments& arguments, const Solved& solved, const Shown& before,
                 const std::vector<PeerReport>& peers, Outputs& outputs) {
  const auto& [named, summary, answer, distributed] = solved;
  outputs.write(arguments.solver.plan_out, [&] { return runtime::to_json(summary.plan); });
  outputs.write(arguments.trace, [&] {
    return distributed == nullptr ? trace_text(summary)
                                  : trace_text(summary, distributed->events());
  });
  std::string png;
  if (arguments.wants_picture()) outputs.attempt([&] { png = picture(before, named, summary); });
  if (!arguments.out.empty() && !png.empty())
    outputs.write(picture_path(arguments.out), [&] { return png; });
  outputs.write(arguments.report,
                [&] { return page_of(arguments, named, summary, answer, peers, png); });
}

void solve_problem(const SolveArguments& arguments) {
  DistributedSolver* const distributed = processes_for(arguments);
  std::optional<Interrupts> interrupts;
  if (distributed == nullptr) interrupts.emplace();  // else a signal ends all processes
  if (is_set(arguments.problem.name)) return solve_many(arguments);
  if (arguments.problem.name == "ik") return solve_kinematics(arguments);
  std::optional<Interrupts::EndAtOnce> reading;
  if (interrupts) reading.emplace();
  const bool speaks = distributed == nullptr || distributed->speaks();
  std::optional<Progress> progress(std::in_place, speaks && !arguments.silent());
  progress->phase(making_text(arguments.problem));
  const DeviceAhead device(distributed == nullptr ? to_options(arguments.solver) : SolverOptions{});
  const auto [named, options, shares] = make_for(arguments, distributed);
  check(arguments, *named);
  reading.reset();
  Shown before;
  if (arguments.wants_picture()) before = named->shown_before();
  const Summary summary = solve_shown(*named, options, *progress, distributed, shares != nullptr);
  progress.reset();
  if (arguments.wants_answer()) named->join_answer();
  Outputs outputs;
  Answer answer;
  if (shares != nullptr && arguments.wants_answer())
    answer = find_answer(*named, summary, false, shares);
  if (!arguments.out.empty() && (speaks || named->writers() == NamedProblem::Writers::all))
    outputs.attempt([&] { named->write(arguments.out); });
  if (!speaks) return outputs.finish();
  const Counts counts = counts_of(arguments);
  if (shares == nullptr && arguments.wants_answer())
    outputs.attempt([&] { answer = find_answer(*named, summary, arguments.covariance); });
  const Solved solved{*named, summary, answer, distributed};
  if (arguments.peers.empty()) write_report(arguments, solved, {}, outputs);
  print(arguments, solved);
  std::vector<PeerReport> peers;
  outputs.attempt([&] { peers = run_peers(arguments, options); });
  if (!arguments.peers.empty()) write_report(arguments, solved, peers, outputs);
  write_files(arguments, solved, before, peers, outputs);
  write_counts(arguments, counts, outputs);
  if (!summary.checkpoint_warning.empty()) print_warning(summary.checkpoint_warning);
  outputs.finish();
  finish(arguments, unconverged(summary));
}

}  // namespace

void add_solve(Command app) {
  auto arguments = std::make_shared<SolveArguments>();
  Command command = app.subcommand("solve", "Minimises a problem or what a JSON file describes");
  add_problem_options(command, arguments->problem, {.also = {"ik"}});
  add_data_option(command, arguments->problem);
  add_generator_options(command, arguments->problem);
  add_ik_options(command, arguments->ik);
  add_backend_options(command, arguments->solver);
  add_solve_options(command, arguments->solver);
  add_checkpoint_options(command, arguments->solver);
  command.group("Several processes");
  command.flag("--distributed", arguments->distributed,
               "solve together with the processes of mpirun; options of PETSc follow --");
  command.group("Output");
  command
      .output(
          "--out", &arguments->out,
          "file for the mesh (.obj, .off, .ply or .stl), the scene (.ply, else BAL; OpenMVG: "
          ".json) or the pose graph (g2o) at the end, or folder for COLMAP's model, with a picture "
          "beside it, as PNG; or CSV of the joints")
      .folder_with({"colmap"})
      .writes_also(picture_path);
  command.output("--report", &arguments->report, "HTML file for a page about the solve");
  command
      .option("--peer", &arguments->peers,
              "another solver to run on the same problem (not on problem files and mgh --count)")
      .choices({"ceres"});
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.output("--metrics", &arguments->metrics,
                 "file for what was counted: Prometheus text, or JSON if it ends in .json");
  command.output("--trace", &arguments->trace,
                 "file for a trace to open in Perfetto or chrome://tracing");
  command.flag("--profile", arguments->solver.profile,
               "time every kernel and pass of the steps: a table, and more in --json, --report and "
               "--trace");
  command.output("--training-data", &arguments->training,
                 "file for the runs that first guesses are fitted on: CSV, or JSON if it ends "
                 "in .json");
  command.flag("--covariance", arguments->covariance,
               "standard errors and correlations of the parameters");
  command.flag("--verbose", arguments->verbose,
               "add topologies, plan, kernels, times and counters to summary and page");
  command.flag("--quiet", arguments->quiet, "print no summary");
  command.flag("--require-convergence", arguments->require_convergence,
               "exit status 1 unless the solve, or every one of a set, converges");
  command.example("topograd solve samples/data/curve_fit.json --json report.json");
  command.example("topograd solve arap --mesh spot.obj --out deformed.obj --report page.html");
  command.example(
      "topograd solve ik --robot samples/data/arm7.urdf --targets samples/data/arm7_targets.csv");
  command.example("topograd solve bundle --cameras 49 --backend vulkan --peer ceres");
  command.callback([arguments, command] {
    arguments->command = command.line();
    solve_problem(*arguments);
  });
}

}  // namespace topograd::command
