// The ordinary solve, with a distributed engine and decisions that all ranks share.
#include "distributed_problem.hpp"

#include "../api/version.hpp"
#include "../frontend/inspect/problem_use.hpp"
#include "../ir/error.hpp"
#include "../ir/text.hpp"
#include "../runtime/cache/content_hash.hpp"
#include "../solver/checkpoint/checkpoints.hpp"
#include "../solver/model/model.hpp"
#include "../solver/solve.hpp"
#include "communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <limits>
#include <span>
#include <thread>
#include <utility>

namespace topograd {
namespace {

using distributed::Communicator;
using distributed::DistributedEngine;
using distributed::RankDevice;
using distributed::RankReport;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::Unsupported, "distributed: " + what);
}

std::string got(const std::string& what) {
  return "with a share of the residuals on each rank " + what +
         "; add all residuals on every rank for others";
}

/// Refuses steps on manifolds that the host makes.
void check_manifolds_of_share(const Problem& problem, const SolverOptions& options) {
  if (!problem.has_manifolds()) return;
  if (!engines_know_manifolds(problem))
    refuse(got("expected manifolds of expressions, on blocks without bounds and single constants"));
  if (options.precision != Precision::f64)
    refuse(
        got("and manifolds expected precision f64, got " + std::string(name(options.precision))));
  if (options.method == Method::lbfgs)
    refuse(got("and manifolds expected another method than lbfgs"));
}

/// Refuses what needs the residuals of the whole problem on one rank.
void check_share(const Problem& problem, const SolverOptions& options) {
  ProblemUse::settle_long_blocks(problem, true);
  if (!problem.host_blocks().empty()) refuse(got("expected residuals that are traced"));
  if (problem.constraint_count() > 0) refuse(got("expected no constraints"));
  if (options.domain != DomainPolicy::mathematical || options.cross_check != 0)
    refuse(got("expected domain mathematical and no cross_check"));
  if (options.profile) refuse(got("expected no profile"));
  if (options.method == Method::dogleg || options.method == Method::newton ||
      takes_constraints(options.method))
    refuse(got("expected another method than " + std::string(name(options.method))));
  if (options.linear_solver != LinearSolver::automatic &&
      options.linear_solver != LinearSolver::pcg)
    refuse(got("expected linear solver pcg, got " + std::string(name(options.linear_solver))));
}

/// Decides what the solver would decide by residuals that this rank may not have.
SolverOptions options_of_share(SolverOptions options, const Problem& problem,
                               const Communicator& ranks) {
  check_share(problem, options);
  const bool energies = ranks.any(problem.energy_count() > 0);
  if (options.method == Method::automatic)
    options.method = energies ? Method::lbfgs : Method::levenberg_marquardt;
  check_manifolds_of_share(problem, options);
  options.linear_solver = LinearSolver::pcg;
  return options;
}

/// Options of the same solve on the CPU, with choices that do not depend on a rank's machine: what
/// a rank has for an engine is no matter of the solver.
SolverOptions options_of_ranks(SolverOptions options, const Communicator& ranks, bool with_petsc) {
  if (options.preconditioner == Preconditioner::two_level)
    refuse("expected preconditioner block_jacobi, got two_level");
  if (with_petsc && options.precision != Precision::f64)
    refuse("PETSc's options are for f64, got " + std::string(name(options.precision)));
  options.backend = Backend::cpu;
  options.device.clear();
  options.deterministic = true;
  if (options.threads == 0) {
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    options.threads = std::max(1, cores / ranks.ranks_here());
  }
  return options;
}

/// True if engines make the steps on manifolds, by conjugate gradients. Where devices are asked for
/// and every rank has all residuals, hosts make them.
bool engines_move_blocks(const Problem& problem, const SolverOptions& options, bool of_share) {
  return problem.has_manifolds() && options.precision == Precision::f64 &&
         (of_share ||
          (options.linear_solver == LinearSolver::pcg && options.backend != Backend::vulkan)) &&
         engines_know_manifolds(problem);
}

/// The device of this rank.
///
///   cpus_for  what CPUs alone do; empty: nothing
RankDevice device_of_rank(const Communicator& ranks, SolverOptions options,
                          const std::string& cpus_for) {
  if (options.backend == Backend::automatic && !options.device.empty())
    options.backend = Backend::vulkan;
  if (!cpus_for.empty() && options.backend == Backend::vulkan)
    refuse(cpus_for + " for backend cpu, got vulkan");
  if (!cpus_for.empty()) options.backend = Backend::cpu;
  return choose_device(ranks, options);
}

/// Names the part of a solve that only CPUs do: PETSc's methods, systems in f32, and moves along
/// manifolds; "" if there is none.
std::string work_for_cpus(const Problem& problem, const SolverOptions& options, bool with_petsc,
                          bool of_share) {
  if (with_petsc) return "PETSc's options are";
  if (options.precision == Precision::mixed) return "precision mixed is";
  if (engines_move_blocks(problem, options, of_share)) return "linear solver pcg on manifolds is";
  return "";
}

void require_same(const Communicator& ranks, const SolveFacts& facts) {
  for (const SolveFacts::Fact& fact : facts.facts) ranks.require_same(fact.what, fact.value);
}

/// Throws Error{InvalidArgument}, on all ranks alike, if options differ. Clocks, callbacks, threads
/// and backends of the evaluation may.
void require_same_options(const Communicator& ranks, const SolverOptions& options,
                          const DistributedOptions& distribution) {
  ranks.require_same("version", std::string(version()));
  const bool of_share = distribution.residuals == RankResiduals::share;
  ranks.require_same("residuals", of_share ? "a share on each rank" : "all on every rank");
  ranks.require_same("use of PETSc", distribution.petsc_krylov ? "its methods" : "none");
  const bool in_order = distribution.partition == distributed::PartitionMethod::contiguous;
  ranks.require_same("partition", in_order ? "contiguous" : "scotch");
  require_same(ranks, facts_of(options, OptionScope::ranks));
}

/// The same for uniforms, among which are the numbers of losses; tells the first one that differs.
void require_same_uniforms(const Communicator& ranks, std::span<const double> uniforms) {
  ranks.require_same("number of uniforms", std::to_string(uniforms.size()));
  const auto bytes = std::as_bytes(uniforms);
  const std::string hash = runtime::hex(runtime::hash_bytes(bytes, {}));
  if (!ranks.any(hash != ranks.from_first([&] { return std::string(hash); }))) return;
  const std::string first = ranks.from_first(
      [&] { return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()); });
  const auto other = std::ranges::mismatch(bytes, std::as_bytes(std::span(first))).in1;
  auto k = static_cast<std::uint64_t>(other - bytes.begin()) / sizeof(double);
  MPI_Allreduce(MPI_IN_PLACE, &k, 1, MPI_UINT64_T, MPI_MIN, ranks.comm());
  ranks.require_same("number " + std::to_string(k) + " of uniforms and losses",
                     ir::print_number(uniforms[k]));
}

/// The same if problem or start differ.
///
///   of_share  true: residuals, with their losses and uniforms, may differ
void require_same_problem(const Communicator& ranks, const Problem& problem,
                          const SolverOptions& options, bool of_share) {
  ProblemModel model =
      make_model("solve", problem, true, constraint_terms(options.method), of_share);
  if (of_share) {
    model.model.terms.clear();
    model.model.rows = 0;
  }
  std::vector<double> x(model.model.scalars);
  problem.read_x(x);
  SolveFacts facts = facts_of(model, options, {}, x);
  const std::string start = runtime::hex(runtime::hash_bytes(std::as_bytes(std::span(x)), {}));
  facts.facts.push_back({"start", start, true});
  // The data are those of instances with their uniforms.
  SolveFacts data;
  const auto is_data = [](const SolveFacts::Fact& fact) {
    return fact.what.starts_with("data of");
  };
  std::ranges::copy_if(facts.facts, std::back_inserter(data.facts), is_data);
  std::erase_if(facts.facts, is_data);
  require_same(ranks, facts);
  if (!of_share) require_same_uniforms(ranks, model.model.uniforms);
  require_same(ranks, data);
}

/// The clock of a rank at the end of each step. All ranks start it together.
class StepClock {
 public:
  explicit StepClock(const Communicator& ranks) : ranks_(ranks) {
    MPI_Barrier(ranks.comm());
    start_ = std::chrono::steady_clock::now();
  }

  void end_step(int step, double waited_seconds) {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now() - start_;
    for (const double number :
         {static_cast<double>(step), end_, now.count() - end_, waited_seconds - waited_})
      numbers_.push_back(number);
    end_ = now.count();
    waited_ = waited_seconds;
  }

  std::vector<std::vector<RankStep>> of_all() const {
    const std::vector<double> all = ranks_.gather(numbers_);
    std::vector<std::vector<RankStep>> out(static_cast<std::size_t>(ranks_.size()));
    for (std::size_t first = 0; first < all.size(); first += 4)
      out[first / numbers_.size()].push_back({.step = static_cast<int>(all[first]),
                                              .start_seconds = all[first + 1],
                                              .seconds = all[first + 2],
                                              .waited_seconds = all[first + 3]});
    return out;
  }

 private:
  const Communicator& ranks_;
  std::chrono::steady_clock::time_point start_;
  double end_ = 0, waited_ = 0;
  std::vector<double> numbers_;  // four for each step
};

/// Lets rank 0 decide whether the solve goes on: clocks and callers differ.
class SharedDecision {
 public:
  ///   step_ends  is called with each step's number
  SharedDecision(const Communicator& ranks, SolverOptions& options,
                 std::function<void(int)> step_ends)
      : ranks_(ranks),
        callback_(options.callback),
        step_ends_(std::move(step_ends)),
        limit_(options.time_limit_seconds) {
    options.time_limit_seconds = std::numeric_limits<double>::max();
    options.callback = [this](const IterationSummary& iteration) { return decide(iteration); };
  }
  bool timed_out() const { return timed_out_; }
  double limit() const { return limit_; }

 private:
  /// An exception of one rank alone ends the others, which wait for this one.
  CallbackReturn call_back(const IterationSummary& iteration) const {
    try {
      return callback_ ? callback_(iteration) : CallbackReturn::SOLVER_CONTINUE;
    } catch (const std::exception& error) {
      ranks_.fail_unless_all(error.what());
      throw;
    }
  }

  CallbackReturn decide(const IterationSummary& iteration) {
    const CallbackReturn answer = call_back(iteration);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    const bool late = elapsed.count() >= limit_;
    constexpr int kLate = 100;
    const int decided = ranks_.from_first(late ? kLate : static_cast<int>(answer));
    timed_out_ = decided == kLate;
    step_ends_(iteration.iteration);
    return timed_out_ ? CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY
                      : static_cast<CallbackReturn>(decided);
  }

  const Communicator& ranks_;
  IterationCallback callback_;
  std::function<void(int)> step_ends_;
  double limit_;
  bool timed_out_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The ranks as the solver knows them.
class Group final : public SolveGroup {
 public:
  ///   on_device  this rank is to be on a device
  Group(const Communicator& ranks, bool has_shares, bool on_device)
      : ranks_(ranks), has_shares_(has_shares), moves_blocks_(!ranks.any(on_device)) {}
  std::string from_first(const std::function<std::string()>& make) override {
    return ranks_.from_first(make);
  }
  bool any(bool here) override { return ranks_.any(here); }
  std::string write(const std::string& path, std::span<const std::byte> bytes) override {
    const Slice mine = ranks_.share().slice(bytes.size());
    const auto* const at = reinterpret_cast<const char*>(bytes.data());
    const std::string text(at + mine.first, mine.size());
    return distributed::replace_shared_file(ranks_, path, std::span(&text, 1));
  }
  void failed(const std::string& reason) override { ranks_.fail_unless_all(reason); }
  bool moves_blocks() const override { return moves_blocks_; }
  bool has_shares() const override { return has_shares_; }
  void share(ProblemModel& model) override {
    shares_ = std::make_shared<const distributed::Shares>(ranks_, model);
    model.shares = shares_;
    if (model.instances() == 0)
      throw Error(ErrorCode::EmptyProblem, "solve: no rank has residuals");
  }
  /// Null without shares.
  const distributed::Shares* shares() const { return shares_.get(); }

 private:
  const Communicator& ranks_;
  bool has_shares_, moves_blocks_;
  std::shared_ptr<const distributed::Shares> shares_;
};

DistributedReport report_of(const Communicator& ranks, const DistributedEngine& engine) {
  const RankReport mine = engine.report();
  const std::vector<double> numbers = {static_cast<double>(mine.blocks),
                                       static_cast<double>(mine.ghosts),
                                       static_cast<double>(mine.residuals),
                                       static_cast<double>(mine.residuals_again),
                                       static_cast<double>(mine.bytes_per_iteration),
                                       static_cast<double>(mine.messages_per_iteration),
                                       static_cast<double>(mine.exchanges),
                                       static_cast<double>(mine.sums),
                                       mine.waited_seconds};
  const std::vector<double> all = ranks.gather(numbers);
  const std::vector<std::string> devices = ranks.gather_bytes(mine.device);
  DistributedReport report;
  double most = 0, sum = 0;
  for (std::size_t first = 0; first < all.size(); first += numbers.size()) {
    const auto count = [&](std::size_t k) { return static_cast<std::uint64_t>(all[first + k]); };
    const std::size_t rank = report.ranks.size();
    report.ranks.push_back({.blocks = count(0),
                            .ghosts = count(1),
                            .residuals = count(2),
                            .residuals_again = count(3),
                            .bytes_per_iteration = count(4),
                            .messages_per_iteration = count(5),
                            .exchanges = count(6),
                            .sums = count(7),
                            .waited_seconds = all[first + 8],
                            .device = devices[rank]});
    most = std::max(most, all[first + 2]);
    sum += all[first + 2];
  }
  if (sum > 0) report.imbalance = most * static_cast<double>(report.ranks.size()) / sum;
  return report;
}

}  // namespace

std::string text(const DistributedReport& report) {
  std::string out =
      "rank     blocks    ghosts residuals evaluated twice  bytes/iteration  messages/iteration  "
      "waited  device\n";
  int rank = 0;
  for (const RankReport& r : report.ranks) {
    char line[200];
    std::snprintf(line, sizeof line, "%4d %10llu %9llu %9llu %15llu  %15llu  %18llu  %.3f s",
                  rank++, static_cast<unsigned long long>(r.blocks),
                  static_cast<unsigned long long>(r.ghosts),
                  static_cast<unsigned long long>(r.residuals),
                  static_cast<unsigned long long>(r.residuals_again),
                  static_cast<unsigned long long>(r.bytes_per_iteration),
                  static_cast<unsigned long long>(r.messages_per_iteration), r.waited_seconds);
    out += line + ("  " + r.device) + "\n";
  }
  char line[80];
  std::snprintf(line, sizeof line, "imbalance of residuals: %.3f\n", report.imbalance);
  return out + line;
}

namespace {

Summary solve_together(const Communicator& ranks, Problem& problem, const SolverOptions& asked,
                       const DistributedOptions& distribution, DistributedReport* report) {
  require_same_options(ranks, asked, distribution);
  SolverOptions options = options_of_ranks(asked, ranks, distribution.petsc_krylov);
  const bool of_share = distribution.residuals == RankResiduals::share;
  const RankDevice device = device_of_rank(
      ranks, asked, work_for_cpus(problem, asked, distribution.petsc_krylov, of_share));
  if (of_share) {
    options = options_of_share(options, problem, ranks);
    require_same_problem(ranks, problem, asked, true);
  }
  DistributedEngine* engine = nullptr;
  StepClock clock(ranks);
  SharedDecision decision(ranks, options, [&](int step) {
    clock.end_step(step, engine == nullptr ? 0 : engine->traffic().seconds);
  });
  Group group(ranks, of_share, device.use == RankDevice::Use::device);
  Solver solver(
      problem, options,
      [&](const runtime::Model& model, const runtime::EngineOptions& of_engine) {
        if (!of_share) require_same_problem(ranks, problem, asked, false);
        auto made =
            std::make_unique<DistributedEngine>(ranks, model, of_engine, distribution.partition,
                                                device, distribution.petsc_krylov, group.shares());
        engine = made.get();
        return made;
      },
      &group);
  Summary summary = solver.solve();
  if (decision.timed_out() && summary.termination == Termination::USER_SUCCESS) {
    summary.termination = Termination::NO_CONVERGENCE;
    summary.message = "time limit reached: " + std::to_string(decision.limit()) + " s";
  }
  if (report != nullptr && engine != nullptr) {
    *report = report_of(ranks, *engine);
    report->steps = clock.of_all();
  }
  return summary;
}

}  // namespace

Summary solve(const Communicator& ranks, Problem& problem, const SolverOptions& options,
              const DistributedOptions& distribution, DistributedReport* report) {
  try {
    return solve_together(ranks, problem, options, distribution, report);
  } catch (const std::exception& error) {
    ranks.fail_unless_all(error.what());
    throw;
  }
}

DistributedProblem::DistributedProblem(MPI_Comm comm)
    : ranks_(std::make_unique<Communicator>(comm)) {}

Summary DistributedProblem::solve(const SolverOptions& options) {
  return topograd::solve(*ranks_, *this, options, distribution, &report_);
}

}  // namespace topograd
