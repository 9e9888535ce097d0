// Handles of a mesh: grab, drag, release, undo; their residuals, and the points of an array.
#include "subject.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "../../ir/error.hpp"

namespace topograd::view {
namespace {

Point point_of(std::span<const double> positions, std::uint32_t vertex) {
  return {positions[3 * vertex], positions[3 * vertex + 1], positions[3 * vertex + 2]};
}

double distance(const Point& a, const Point& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

[[noreturn]] void reject(const std::string& message) {
  throw Error(ErrorCode::InvalidArgument, message);
}

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

double diagonal_of(std::span<const double> positions) {
  if (positions.empty()) return 0;
  Point low = point_of(positions, 0), high = low;
  for (std::size_t k = 0; k < positions.size(); ++k) {
    low[k % 3] = std::min(low[k % 3], positions[k]);
    high[k % 3] = std::max(high[k % 3], positions[k]);
  }
  const double diagonal = distance(low, high);
  return diagonal > 0 ? diagonal : 1;
}

Point Handle::position() const {
  const auto found = std::ranges::find(vertices, anchor);
  return targets[static_cast<std::size_t>(found - vertices.begin())];
}

Handles::Handles(std::vector<double> rest, std::vector<Handle> first)
    : rest_(std::move(rest)),
      targets_(rest_),
      switches_(rest_.size() / 3),
      size_(diagonal_of(rest_)) {
  for (Handle& handle : first)
    first_.emplace(static_cast<HandleId>(first_.size() + 1), std::move(handle));
  handles_ = first_;
  put_all();
}

void Handles::put(const Handle& handle) {
  for (std::size_t k = 0; k < handle.vertices.size(); ++k) {
    const std::size_t vertex = handle.vertices[k];
    std::ranges::copy(handle.targets[k],
                      targets_.begin() + static_cast<std::ptrdiff_t>(3 * vertex));
    switches_[vertex] = 1;
  }
}

void Handles::put_all() {
  std::ranges::fill(switches_, 0);
  for (const auto& [id, handle] : handles_) put(handle);
  ++version_;
}

Handle& Handles::find(const char* call, HandleId id) {
  const auto found = handles_.find(id);
  if (found == handles_.end())
    reject(std::string(call) + ": expected the number of a handle, got " + std::to_string(id));
  return found->second;
}

void Handles::grab(HandleId id, std::uint32_t vertex, double radius,
                   std::span<const double> present) {
  const std::size_t count = switches_.size();
  if (vertex >= count)
    reject("grab: expected a vertex in 0 .. " + std::to_string(count) + " - 1, got " +
           std::to_string(vertex));
  if (!(radius >= 0) || !std::isfinite(radius)) reject("grab: expected a radius >= 0");
  if (handles_.contains(id)) return;
  if (handles_.size() >= kMostHandles)
    reject("grab: expected at most " + std::to_string(kMostHandles) + " handles");
  if (switches_[vertex] != 0)
    reject("grab: vertex " + std::to_string(vertex) + " belongs to a handle");
  Handle handle{.anchor = vertex, .vertices = {}, .targets = {}};
  const Point center = point_of(rest_, vertex);
  for (std::uint32_t v = 0; v < count; ++v) {
    if (switches_[v] != 0 || distance(point_of(rest_, v), center) > radius) continue;
    handle.vertices.push_back(v);
    handle.targets.push_back(point_of(present, v));
  }
  put(handle);
  handles_.emplace(id, std::move(handle));
  ++version_;
}

void Handles::drag(HandleId id, const Point& position) {
  Handle& handle = find("drag", id);
  for (const double x : position) {
    if (!(std::abs(x) <= kFarthest * size_))
      reject("drag: expected coordinates within " + std::to_string(kFarthest * size_));
  }
  const Point old = handle.position();
  for (Point& target : handle.targets)
    for (std::size_t k = 0; k < 3; ++k) target[k] += position[k] - old[k];
  put(handle);
  ++version_;
}

void Handles::release(HandleId id) {
  for (const std::uint32_t vertex : find("release", id).vertices) switches_[vertex] = 0;
  handles_.erase(id);
  ++version_;
}

void Handles::remember() {
  past_.push_back(handles_);
  const auto vertices = [](const std::map<HandleId, Handle>& handles) {
    std::size_t sum = 0;
    for (const auto& [id, handle] : handles) sum += handle.vertices.size();
    return sum;
  };
  std::size_t sum = 0;
  for (const auto& handles : past_) sum += vertices(handles);
  while (past_.size() > kMostUndo || (past_.size() > 1 && sum > kMostUndoVertices)) {
    sum -= vertices(past_.front());
    past_.erase(past_.begin());
  }
}

bool Handles::undo() {
  if (past_.empty()) return false;
  handles_ = std::move(past_.back());
  past_.pop_back();
  put_all();
  return true;
}

void Handles::reset() {
  remember();
  handles_ = first_;
  put_all();
}

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
