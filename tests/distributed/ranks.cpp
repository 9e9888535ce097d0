// Solves one of the cases on the processes of mpirun, for the tests of this folder.
//
//   mpirun -n N test_distributed_ranks CASE FILE [WORD...] [-- PETSC OPTIONS]
//
// Words: share (each rank adds a slice of the residuals), petsc, contiguous, tao, report, divide
// (tells the ranks of all chunks, ten times, without a solve); mixed,
// two_level, vulkan, mask=NAME (of a feature to hide), range=BYTES (of a storage buffer, at most),
// second_range=BYTES (on rank 1); precision, data, width, mode (other ones on a rank),
// other=uniform, scale, loss, tolerance, petsc, resume or partition (on rank 1); all_throw;
// checkpoint=FILE (after each step), resume=FILE, steps=N (at most), fail=... (failure.hpp),
// restore, restore_fails=... (restore.hpp).
#include "../../distributed/distributed_problem.hpp"
#include "../../distributed/local_model.hpp"
#include "../../distributed/shares.hpp"
#include "../../ir/error.hpp"
#include "../../solver/model/model.hpp"

#include "cases.hpp"
#include "failure.hpp"
#include "restore.hpp"
#include "tao.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace topograd::test {
namespace {

/// The words of the command line after CASE and FILE.
class Words {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {}
  bool has(const std::string& word) const {
    return std::ranges::find(words_, word) != words_.end();
  }
  /// The text behind "name="; empty if it is not there.
  std::string value(const std::string& name) const {
    for (const std::string& word : words_)
      if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
    return "";
  }

 private:
  std::vector<std::string> words_;
};

SolverOptions options_of(const Case& solved, const Words& words,
                         const distributed::Communicator& ranks) {
  SolverOptions options = solved.options;
  if (words.has("precision") && ranks.rank() == 1) options.precision = Precision::f32;
  if (words.has("all_throw")) {
    options.callback = [](const IterationSummary& step) {
      if (step.iteration == 2) throw std::runtime_error("all callbacks have failed");
      return CallbackReturn::SOLVER_CONTINUE;
    };
  }
  if (words.has("vulkan")) options.backend = Backend::vulkan;
  if (words.has("mixed")) options.precision = Precision::mixed;
  if (words.has("two_level")) options.preconditioner = Preconditioner::two_level;
  std::string range = words.value("range");
  if (range.empty() && ranks.rank() == 1) range = words.value("second_range");
  if (!range.empty()) options.restrictions.max_storage_buffer_range = std::stoull(range);
  options.restrictions.mask = words.value("mask");
  options.resume = words.value("resume");
  const std::string other = ranks.rank() == 1 ? words.value("other") : "";
  if (other == "tolerance") options.absolute_gradient_tolerance = 1e-3;
  if (other == "resume") options.resume = "/none";
  const std::string checkpoint = words.value("checkpoint");
  if (!checkpoint.empty()) options.checkpoint = {.file = checkpoint, .every_seconds = 0};
  const std::string steps = words.value("steps"), failure = words.value("fail");
  if (!steps.empty()) options.max_iterations = std::stoi(steps);
  if (!failure.empty()) inject_failure(failure, ranks, options);
  const std::string solver = words.value("solver");
  if (!solver.empty()) options.linear_solver = parse_linear_solver(solver);
  return options;
}

/// Ten divisions among the ranks, a line for each: the ranks of all chunks.
std::string divisions_of(const Case& of, bool of_share, const distributed::Communicator& ranks) {
  using namespace distributed;
  ProblemModel whole = make_model("test", *of.problem, true, {}, of_share);
  std::optional<Shares> shares;
  if (of_share) shares.emplace(ranks, whole);
  ChunkGraph graph = chunk_graph(whole.model, runtime::chunks_of(whole.model.arrays));
  if (of_share) graph = joined_graph(ranks, graph);
  std::string out;
  for (int k = 0; k < 10; ++k) {
    for (const int rank : partition(ranks, graph, ranks.size(), PartitionMethod::scotch))
      out += std::to_string(rank) + " ";
    out += "\n";
  }
  return out;
}

std::string answer_of(const std::string& name, const Words& words,
                      const distributed::Communicator& ranks) {
  const bool of_share = words.has("share");
  Case solved = of_share ? make_case(name, ranks.share()) : make_case(name);
  if (words.has("tao")) return tao_text(solved);
  if (words.has("restore")) {
    solved.options = options_of(solved, words, ranks);
    return restored_step(solved, words.value("restore_fails"), ranks);
  }
  if (words.has("divide")) return divisions_of(solved, of_share, ranks);
  if (words.has("data") && ranks.rank() == 1) *const_cast<double*>(solved.unknowns[0].data()) += 1;
  const std::string other = ranks.rank() == 1 ? words.value("other") : "";
  if (other == "uniform" || other == "scale" || other == "loss") solved = make_other_bounds(other);
  if (words.has("width") && ranks.rank() == 1) solved = make_case("last", Share{});
  DistributedReport report;
  const DistributedOptions distribution{
      .residuals = of_share && !(words.has("mode") && ranks.rank() == 1) ? RankResiduals::share
                                                                         : RankResiduals::all,
      .partition = words.has("contiguous") || other == "partition"
                       ? distributed::PartitionMethod::contiguous
                       : distributed::PartitionMethod::scotch,
      .petsc_krylov = words.has("petsc") || other == "petsc"};
  const Summary summary =
      solve(ranks, *solved.problem, options_of(solved, words, ranks), distribution, &report);
  if (words.has("report")) return topograd::text(report);
  if (words.has("petsc")) return std::to_string(summary.final_cost) + "\n";
  return exact_text(solved, summary);
}

int run(const std::vector<std::string>& all, const distributed::Communicator& ranks) {
  const Words words(std::vector<std::string>(all.begin() + 2, all.end()));
  const std::string answer = answer_of(all[0], words, ranks);
  if (ranks.rank() == 0) std::ofstream(all[1]) << answer;
  return 0;
}

}  // namespace
}  // namespace topograd::test

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc), petsc;
  const auto dashes = std::ranges::find(words, "--");
  if (dashes != words.end()) {
    petsc.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  const topograd::distributed::Session session(&argc, &argv, petsc);
  const topograd::distributed::Communicator ranks(MPI_COMM_WORLD);
  try {
    return topograd::test::run(words, ranks);
  } catch (const std::exception& error) {
    ranks.fail(error.what());
  }
}
