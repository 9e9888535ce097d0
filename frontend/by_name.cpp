// The tables of built-in losses and manifolds, searched by name.
#include "by_name.hpp"

#include <algorithm>

namespace topograd {
namespace {

struct ManifoldRow {
  std::string_view name;
  Manifold (*make)(int width);
};
constexpr ManifoldRow kManifolds[] = {
    {"quaternion", [](int) { return Manifold::quaternion(); }},
    {"eigen_quaternion", [](int) { return Manifold::eigen_quaternion(); }},
    {"so3_axis_angle", [](int) { return Manifold::so3_axis_angle(); }},
    {"sphere", Manifold::sphere},
};

}  // namespace

const LossRow* find_loss(std::string_view name) {
  const auto found = std::ranges::find(kLosses, name, &LossRow::name);
  return found == std::end(kLosses) ? nullptr : found;
}

std::size_t number_count(const LossRow& loss) { return loss.one != nullptr ? 1 : 2; }

Loss make_loss(const LossRow& loss, std::span<const double> numbers) {
  return loss.one != nullptr ? loss.one(numbers[0]) : loss.two(numbers[0], numbers[1]);
}

std::optional<Manifold> find_manifold(std::string_view name, int width) {
  const auto found = std::ranges::find(kManifolds, name, &ManifoldRow::name);
  if (found == std::end(kManifolds)) return std::nullopt;
  return found->make(width);
}

std::string manifold_names() {
  std::string names;
  for (const ManifoldRow& row : kManifolds)
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace topograd
