// Problem files: a problem that can be evaluated, or an error with its place.
#include "target.hpp"

#include "../../api/problem_file.hpp"
#include "../../solver/evaluator.hpp"

namespace topograd::fuzz {

void problem_file(std::string_view text) {
  constexpr std::size_t kMostResiduals = 1000;
  std::unique_ptr<ProblemFile> file;
  // Every file that it names has the text after its own, from a line with # on.
  const std::size_t end = text.find("}\n#");
  const std::string_view table = end == text.npos ? text : text.substr(end + 2);
  if (end != text.npos) text = text.substr(0, end + 1);
  const auto read = [&] {
    file = parse_problem_file(text, "problem.json",
                              [&](const std::string&) { return std::string(table); });
  };
  if (!reads(read, {ErrorCode::Parse})) return;
  if (file->problem.residual_count() > kMostResiduals) return;
  Evaluator evaluator(file->problem, {.backend = Backend::cpu});
  evaluator.cost();
  evaluator.gradient();
}

}  // namespace topograd::fuzz
