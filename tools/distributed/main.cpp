// Entry point of topograd-distributed: the command, with solves on the processes of mpirun.
#include "../../distributed/communicator.hpp"
#include "../../distributed/distributed_problem.hpp"
#include "../../ir/error.hpp"
#include "../command/arguments/commands.hpp"
#include "../command/solve/distributed.hpp"
#include "scaling.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace {

using topograd::DistributedReport;
using topograd::distributed::Communicator;
using topograd::distributed::RankReport;

class Ranks final : public topograd::command::DistributedSolver {
 public:
  explicit Ranks(const Communicator& ranks) : ranks_(ranks) {}

  bool speaks() const override { return ranks_.rank() == 0; }
  topograd::Share share() const override { return ranks_.share(); }
  std::vector<double> gather_at_first(std::span<const double> numbers) const override {
    return ranks_.gather_at_first(numbers);
  }
  std::vector<std::string> gather(const std::string& bytes) const override {
    return ranks_.gather_bytes(bytes);
  }
  void write(const std::string& path, std::span<const std::string> texts) const override {
    topograd::distributed::write_shared_file(ranks_, path, texts);
  }

  topograd::Summary solve(topograd::Problem& problem, const topograd::SolverOptions& options,
                          bool of_share) override {
    distribution.residuals =
        of_share ? topograd::RankResiduals::share : topograd::RankResiduals::all;
    return topograd::solve(ranks_, problem, options, distribution, &report_);
  }

  std::string text() const override { return topograd::text(report_); }

  void describe(nlohmann::ordered_json& report) const override {
    nlohmann::ordered_json& out = report["distributed"];
    out["ranks"] = ranks_.size();
    out["residuals"] = distribution.residuals == topograd::RankResiduals::share ? "share" : "all";
    out["imbalance"] = report_.imbalance;
    out["by_rank"] = nlohmann::ordered_json::array();
    for (const RankReport& rank : report_.ranks)
      out["by_rank"].push_back({{"blocks", rank.blocks},
                                {"ghosts", rank.ghosts},
                                {"residuals", rank.residuals},
                                {"residuals_evaluated_twice", rank.residuals_again},
                                {"bytes_per_iteration", rank.bytes_per_iteration},
                                {"messages_per_iteration", rank.messages_per_iteration},
                                {"exchanges", rank.exchanges},
                                {"sums", rank.sums},
                                {"waited_s", rank.waited_seconds},
                                {"device", rank.device}});
  }

  std::vector<topograd::runtime::hybrid::TraceEvent> events() const override {
    constexpr double kUs = 1e6;
    std::vector<topograd::runtime::hybrid::TraceEvent> out;
    for (std::size_t rank = 0; rank < report_.steps.size(); ++rank)
      for (const topograd::RankStep& step : report_.steps[rank])
        out.push_back({.name = "step " + std::to_string(step.step),
                       .lane = "rank " + std::to_string(rank),
                       .start_us = kUs * step.start_seconds,
                       .us = kUs * step.seconds,
                       .arguments = {{"waited_ms", std::to_string(1e3 * step.waited_seconds)}}});
    return out;
  }

  topograd::DistributedOptions distribution;

 private:
  const Communicator& ranks_;
  DistributedReport report_;
};

}  // namespace

int main(int argc, char** argv) {
  topograd::command::SplitArguments arguments = topograd::command::split_arguments(argc, argv);
  int count = arguments.count();
  char** words = arguments.command.data();
  const topograd::distributed::Session session(&count, &words, arguments.petsc);
  const Communicator world(MPI_COMM_WORLD);
  // One rank speaks. The others' errors are told by Communicator::fail().
  if (world.rank() != 0 && std::freopen("/dev/null", "w", stdout) == nullptr)
    world.fail("cannot open /dev/null");
  Ranks ranks(world);
  ranks.distribution.petsc_krylov = !arguments.petsc.empty();
  topograd::command::set_distributed_solver(&ranks);
  topograd::command::Scaling scaling(world);
  topograd::command::set_scaling_meter(&scaling);
  return topograd::command::run(count, words,
                                [&](const std::string& reason) -> int { world.fail(reason); });
}
