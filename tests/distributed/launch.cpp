// mpirun with options for shared and small machines.
#include "launch.hpp"

#include "../../solver/solve.hpp"
#include "../support/paths.hpp"
#include "cases.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <chrono>
#include <cstdlib>

namespace topograd::test {

std::string mpirun(int ranks) {
  return "mpirun --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 "
         "-n " +
         std::to_string(ranks) + " ";
}

RankRun run_ranks(int ranks, const std::string& name, const std::vector<std::string>& words,
                  const std::string& petsc) {
  const TemporaryDir folder;
  const std::filesystem::path answer = folder.path() / "answer", err = folder.path() / "err",
                              out = folder.path() / "out";
  std::string command = mpirun(ranks) + (program_dir() / "tests/test_distributed_ranks").string() +
                        " " + name + " " + answer.string();
  for (const std::string& word : words) command += " " + word;
  if (!petsc.empty()) command += " -- " + petsc;
  command += " >" + out.string() + " 2>" + err.string();
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(command.c_str());
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  RankRun run{.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
              .out = read_file(out),
              .err = read_file(err),
              .ended = now.count()};
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (std::filesystem::exists(answer)) run.answer = read_file(answer);
  return run;
}

int most_ranks() {
  const char* const asked = std::getenv("TOPOGRAD_RANKS");
  return asked == nullptr ? 2 : std::atoi(asked);
}

namespace {

std::string answer_of(Case of, const std::string& name) {
  of.options.backend = Backend::cpu;
  of.options.deterministic = true;
  const Summary summary = solve(*of.problem, of.options);
  EXPECT_GT(summary.iterations.size(), 1U) << name;
  return exact_text(of, summary);
}

}  // namespace

std::string ordinary_answer(const std::string& name) { return answer_of(make_case(name), name); }
std::string ordinary_share_answer(const std::string& name) {
  return answer_of(make_case(name, Share{}), name);
}

namespace {

double cost_at(const std::string& answer, std::size_t at) {
  return at == std::string::npos ? -1 : std::strtod(answer.c_str() + at + 6, nullptr);
}

}  // namespace

double first_cost(const std::string& answer) { return cost_at(answer, answer.find(" cost ")); }
double last_cost(const std::string& answer) { return cost_at(answer, answer.rfind(" cost ")); }

}  // namespace topograd::test
