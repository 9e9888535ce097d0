// Detection of decreasing losses: least squares takes the square root of ρ′.
#include "decreasing_loss.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../runtime/cpu/interpreter/interpreter.hpp"
#include "../../runtime/model/model.hpp"
#include "host_terms.hpp"
#include "nonfinite.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace topograd {
namespace {

/// Built-in losses never decrease.
bool may_decrease(const runtime::Term& term) {
  return !term.energy && term.loss != nullptr && *term.loss != *Loss().program();
}

/// Describes the first block of a term whose loss decreases.
std::optional<std::string> describe_in_term(runtime::RowRunner& runner, const ProblemModel& model,
                                            std::size_t t, std::span<const double> x) {
  constexpr std::size_t kBlocksAtOnce = std::size_t{1} << 16;
  const runtime::Term& term = model.model.terms[t];
  const ir::Program program = autodiff::loss_slope({term.topology->program, *term.loss});
  for (std::size_t first = 0; first < term.batch->size(); first += kBlocksAtOnce) {
    const std::size_t count = std::min(kBlocksAtOnce, term.batch->size() - first);
    const runtime::Columns out = runner.run(program, rows_of(model.model, term, x, first, count));
    const auto found = std::ranges::find_if(out[1], [](double slope) { return slope < 0; });
    if (found == out[1].end()) continue;
    const auto k = static_cast<std::size_t>(found - out[1].begin());
    return decreasing_loss_text(model.problem->loss(model.topologies[t], first + k),
                                model.describe(t, first + k), out[0][k], *found);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> describe_decreasing_loss(runtime::Engine& engine,
                                                    const ProblemModel& model) {
  if (model.problem == nullptr) return std::nullopt;
  const bool on_host = !model.problem->host_blocks().empty();
  std::vector<std::size_t> terms;
  for (std::size_t t = 0; t < model.model.terms.size(); ++t)
    if (may_decrease(model.model.terms[t])) terms.push_back(t);
  if (!on_host && terms.empty()) return std::nullopt;
  std::vector<double> x(model.model.scalars);
  engine.point(x);
  if (on_host) {
    HostTerms host(*model.problem, model.with_losses);
    if (auto text = host.describe_decreasing_loss(x)) return text;
  }
  const std::unique_ptr<runtime::RowRunner> runner =
      runtime::cpu::make_row_runner(runtime::Precision::f64);
  std::optional<std::string> found;
  for (std::size_t k = 0; k < terms.size() && !found; ++k)
    found = describe_in_term(*runner, model, terms[k], x);
  return model.first_of_all(found);
}

std::string decreasing_loss_text(const Loss& loss, const std::string& block, double s,
                                 double slope) {
  return "the loss \"" + loss.describe() + "\" of " + block + " has slope " + number_text(slope) +
         " at a squared norm of " + number_text(s) + "; expected a slope >= 0";
}

}  // namespace topograd
