// The residuals of handles.
#include "subject.hpp"

#include <span>
#include <vector>

namespace topograd::view {

Pulls add_pulls(Problem& problem, const Parameters& points, double weight) {
  const std::size_t count = points.size();
  const std::vector<double> zeros(3 * count);
  Pulls pulls{.targets = problem.add_data(zeros, 3),
              .switches = problem.add_data(std::span(zeros).first(count), 1),
              .weight = problem.add_uniform(weight)};
  for (std::size_t v = 0; v < count; ++v) {
    const Value strength = pulls.weight.value() * pulls.switches[v];
    problem.add_residual((points.vec3(v) - pulls.targets.vec3(v)) * strength, {.label = "handle"});
  }
  return pulls;
}

}  // namespace topograd::view
