// Reads Jacobians and Hessians of the objective.
#include "unknown_units.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../../frontend/problem.hpp"

namespace topograd {
namespace {

// The unit is at least this share of that at the start.
constexpr double kShareOfStart = 1e-2;
// Units below this share of the largest count as this share.
constexpr double kLeast = 1e-100;

}  // namespace

UnknownUnits::UnknownUnits(const ProblemModel& model, const TangentSpace& space)
    : model_(model),
      space_(space),
      now_(space.scalars(), 1),
      first_(space.scalars(), 0),
      filled_(space.scalars(), false) {}

std::vector<double> UnknownUnits::squares(runtime::Engine& engine) const {
  const Problem& problem = *model_.problem;
  std::vector<double> out(now_.size()), values;
  const bool curves = !problem.has_manifolds() && problem.host_blocks().empty();
  for (std::size_t t = 0; t < model_.topologies.size(); ++t) {
    const BlockKind kind = problem.kind(model_.topologies[t]);
    const runtime::Term& term = model_.model.terms[t];
    const std::size_t count = term.batch->size(), slots = term.batch->parameter_columns();
    if (kind == BlockKind::residual) {
      const std::size_t rows = term.topology->program.outputs.size();
      values.resize(count * rows * slots);
      engine.jacobian(t, values);
      for (std::size_t k = 0; k < values.size(); ++k)
        out[term.batch->index(k / (rows * slots), static_cast<std::uint32_t>(k % slots))] +=
            values[k] * values[k];
    } else if (kind == BlockKind::energy && curves) {
      const std::size_t packed = slots * (slots + 1) / 2;
      values.resize(count * packed);
      runtime::second_derivatives(engine).hessian(t, false, values);
      for (std::size_t i = 0; i < count; ++i) {
        const double* entry = &values[i * packed];
        for (std::uint32_t s = 0; s < slots; entry += slots - s, ++s)
          out[term.batch->index(i, s)] += std::abs(*entry);
      }
    }
  }
  return out;
}

void UnknownUnits::join_blocks(std::vector<double>& units) const {
  for (const TangentSpace::Block& block : space_.blocks()) {
    const std::span<double> of_block = std::span(units).subspan(block.offset, block.width);
    std::ranges::fill(of_block, *std::ranges::max_element(of_block));
  }
}

void UnknownUnits::measure(runtime::Engine& engine, std::span<const double> gradient, double cost) {
  std::vector<double> found = squares(engine);
  const bool slopes = cost > 0 && model_.problem->energy_count() > 0;
  for (std::uint32_t k = 0; k < found.size(); ++k) {
    if (slopes) found[k] = std::max(found[k], gradient[k] * gradient[k] / cost);
    found[k] = is_free(k) && std::isfinite(found[k]) ? std::sqrt(found[k]) : 0;
  }
  join_blocks(found);
  if (!(largest_ > 0)) largest_ = *std::ranges::max_element(found);
  for (std::uint32_t k = 0; k < found.size(); ++k) {
    if (!is_free(k)) continue;
    const double unit = largest_ > 0 ? found[k] / largest_ : 0;
    if (!(first_[k] > 0) && unit > 0) first_[k] = std::max(unit, kLeast);
    now_[k] = std::max(unit, (filled_[k] ? 1 : kShareOfStart) * first_[k]);
  }
}

bool UnknownUnits::missing() const {
  return std::ranges::any_of(now_, [](double unit) { return !(unit > 0); });
}

void UnknownUnits::pass_on(std::size_t rows, std::span<const Entry> entries) {
  std::vector<double> squared(rows), found(now_.size());
  for (const Entry& entry : entries)
    if (is_free(entry.scalar) && now_[entry.scalar] > 0)
      squared[entry.row] += std::pow(entry.derivative / now_[entry.scalar], 2);
  for (const Entry& entry : entries) {
    if (now_[entry.scalar] > 0 || !(squared[entry.row] > 0)) continue;
    const double unit = std::abs(entry.derivative) / std::sqrt(squared[entry.row]);
    if (std::isfinite(unit)) found[entry.scalar] = std::max(found[entry.scalar], unit);
  }
  join_blocks(found);
  for (std::size_t k = 0; k < found.size(); ++k)
    if (!(now_[k] > 0) && found[k] > 0) now_[k] = std::max(found[k], kLeast);
}

void UnknownUnits::fill(std::size_t rows, std::span<const Entry> entries) {
  std::vector<bool> was_missing(now_.size());
  for (std::size_t k = 0; k < now_.size(); ++k) was_missing[k] = !(now_[k] > 0);
  pass_on(rows, entries);
  for (std::size_t k = 0; k < now_.size(); ++k) {
    if (!was_missing[k]) continue;
    filled_[k] = now_[k] > 0;
    if (!filled_[k]) now_[k] = 1;
    first_[k] = now_[k];
  }
}

}  // namespace topograd
