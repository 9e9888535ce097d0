// Problem files: a problem that can be evaluated, or a place in the text.
#include "fuzz/target.hpp"

#include <topograd/api/problem_file.hpp>
#include <topograd/solver/evaluator.hpp>

namespace topograd::fuzz {

void problem_file(std::string_view text) {
  constexpr std::size_t kMostResiduals = 1000;
  std::unique_ptr<ProblemFile> file;
  const auto read = [&] { file = parse_problem_file(text, "problem.json"); };
  if (!reads(read, {ErrorCode::Parse})) return;
  if (file->problem.residual_count() > kMostResiduals) return;
  Evaluator evaluator(file->problem, {.backend = Backend::cpu});
  evaluator.cost();
  evaluator.gradient();
}

}  // namespace topograd::fuzz
