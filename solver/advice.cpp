// Advice for a solve that reached its limit of steps.
#include "summary.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace topograd {
namespace {

constexpr std::size_t kLast = 10;     // steps that are looked at
constexpr double kStillFalls = 1e-2;  // share of the cost that they took off
constexpr double kPoorGain = 0.5;     // actual over predicted decrease, of half of them

}  // namespace

Advice advise(const Summary& summary) {
  // Limits of constrained solves are on minimisations, whose steps do not say why they were many.
  const bool limited = summary.termination == Termination::NO_CONVERGENCE &&
                       !takes_constraints(summary.method) && summary.num_iterations() > 0 &&
                       summary.iterations.size() > 1;
  if (!limited) return Advice::none;
  const std::span steps =
      std::span(summary.iterations).last(std::min(kLast, summary.iterations.size() - 1));
  const double before = (&steps.front() - 1)->cost, after = steps.back().cost;
  const bool falls = before - after > kStillFalls * std::abs(before);
  const bool newton_is_left = step_method(summary) != Method::newton && summary.host_residuals == 0;
  const Advice flat = newton_is_left ? Advice::looser_tolerance : Advice::good_enough;
  if (step_method(summary) == Method::newton) return falls ? Advice::more_steps : flat;
  if (takes_energies(step_method(summary))) return Advice::other_method;
  const auto poor = std::ranges::count_if(steps, [](const IterationSummary& step) {
    return !step.step_is_successful || step.relative_decrease < kPoorGain;
  });
  const bool poor_model = 2 * static_cast<std::size_t>(poor) >= steps.size();
  if (poor_model && newton_is_left) return Advice::second_derivatives;
  return falls ? Advice::more_steps : flat;
}

std::string_view text(Advice advice) {
  constexpr std::string_view kSentences[] = {
#define TG_ADVICE(advice, sentence) sentence,
#include "advice.def"
  };
  return kSentences[static_cast<std::size_t>(advice)];
}

}  // namespace topograd
