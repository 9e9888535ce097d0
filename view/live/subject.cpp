// The residuals of handles, and the points of an array.
#include "subject.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace topograd::view {
namespace {

constexpr std::size_t kMostAxes = 3;

/// Writes the blocks of an array as points.
struct ShowBlocks {
  const double* values;
  std::size_t count, width;
  Axes axes;
  double spread;  ///< blocks of one: the extent in x

  void operator()(std::span<double> to) const {
    std::ranges::fill(to, 0.0);
    for (std::size_t v = 0; v < count; ++v) {
      if (axes.first != 0 && count > 1)
        to[3 * v] = spread * static_cast<double>(v) / static_cast<double>(count - 1);
      std::copy_n(values + width * v, axes.count,
                  to.begin() + static_cast<std::ptrdiff_t>(3 * v + axes.first));
    }
  }
};

template <std::size_t N>
void check_points(const std::vector<std::array<std::uint32_t, N>>& shapes, const char* what,
                  std::size_t count) {
  for (std::size_t k = 0; k < shapes.size(); ++k)
    for (const std::uint32_t point : shapes[k])
      if (point >= count)
        throw Error(ErrorCode::InvalidArgument,
                    "view: expected points in 0 .. " + std::to_string(count) + " - 1, got " +
                        std::to_string(point) + " in " + what + " " + std::to_string(k));
}

}  // namespace

Axes axes_of(const Parameters& points) {
  const auto width = static_cast<std::size_t>(points.width());
  return {.first = width == 1 ? 1u : 0u, .count = std::min(width, kMostAxes)};
}

Pulls add_pulls(Problem& problem, const Parameters& points, double weight) {
  const std::size_t count = points.size();
  const Axes axes = axes_of(points);
  const std::vector<double> zeros(axes.count * count);
  Pulls pulls{.targets = problem.add_data(zeros, static_cast<int>(axes.count)),
              .switches = problem.add_data(std::span(zeros).first(count), 1),
              .weight = problem.add_uniform(weight),
              .axes = axes,
              .residuals = {}};
  std::vector<Value> rows;
  for (std::size_t v = 0; v < count; ++v) {
    const Value strength = pulls.weight.value() * pulls.switches[v];
    rows.clear();
    for (int k = 0; k < static_cast<int>(axes.count); ++k)
      rows.push_back((points(v, k) - pulls.targets(v, k)) * strength);
    pulls.residuals.push_back(problem.add_residual(rows, {.label = "handle"}));
  }
  return pulls;
}

void set_pulls(Problem& problem, const Pulls& pulls, std::span<const double> targets,
               std::span<const double> switches) {
  problem.set(pulls.switches, switches);
  const auto [first, count] = pulls.axes;
  if (count == kMostAxes) return problem.set(pulls.targets, targets);
  std::vector<double> numbers;
  numbers.reserve(count * switches.size());
  for (std::size_t v = 0; v < switches.size(); ++v)
    for (std::size_t k = first; k < first + count; ++k) numbers.push_back(targets[3 * v + k]);
  problem.set(pulls.targets, numbers);
}

const double* values_of(const Problem& problem, const Parameters& array) {
  const std::uint32_t offset = problem.offset_of("view", {array, 0});
  for (const ParameterArray& one : problem.arrays())
    if (one.offset == offset) return one.values;
  return nullptr;
}

Subject make_subject(Problem& problem, const Parameters& points, Connections connections,
                     double weight) {
  check_points(connections.triangles, "triangle", points.size());
  check_points(connections.lines, "line", points.size());
  Subject out{.name = "problem", .problem = &problem, .points = points};
  const auto width = static_cast<std::size_t>(points.width());
  ShowBlocks show{values_of(problem, points), points.size(), width, axes_of(points), 1};
  if (width == 1) {
    // Twice as wide as high.
    const auto [low, high] = std::ranges::minmax(std::span(show.values, points.size()));
    if (high > low) show.spread = 2 * (high - low);
  }
  out.pulls = add_pulls(problem, points, weight);
  out.sliders = {{"handles", out.pulls.weight, 0, kMostHandleWeights * weight}};
  out.shown = points.size();
  out.show = show;
  out.connections = std::move(connections);
  return out;
}

}  // namespace topograd::view
