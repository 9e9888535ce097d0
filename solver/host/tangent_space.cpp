// The coordinates that a problem's unknowns really have.
#include "tangent_space.hpp"

#include "../../frontend/inspect/array_names.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/formatted.hpp"
#include "../model/model.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace topograd {
namespace {

std::string number(double value) { return platform::formatted("%.17g", value); }

bool is_constant(std::span<const std::uint8_t> mask, std::size_t scalar) {
  return !mask.empty() && mask[scalar] != 0;
}

}  // namespace

TangentSpace::TangentSpace(const Problem& problem)
    : at_(problem.parameter_count(), kNone),
      arrays_(problem.arrays().begin(), problem.arrays().end()),
      constant_(problem.constant_mask().begin(), problem.constant_mask().end()) {
  if (has_bounds(problem)) {
    lower_.assign(problem.lower_bounds().begin(), problem.lower_bounds().end());
    upper_.assign(problem.upper_bounds().begin(), problem.upper_bounds().end());
  }
  if (problem.has_manifolds()) in_block_.assign(at_.size(), kNone);
  for (std::size_t a = 0; a < arrays_.size(); ++a) {
    for (std::uint32_t b = 0; b < arrays_[a].blocks; ++b) {
      if (problem.manifold(a, b) != nullptr) {
        add_block(problem, a, b);
        continue;
      }
      const std::uint32_t first = arrays_[a].offset + b * arrays_[a].width;
      for (std::uint32_t k = first; k < first + arrays_[a].width; ++k)
        if (!is_constant(constant_, k)) at_[k] = static_cast<std::uint32_t>(size_++);
    }
  }
}

void TangentSpace::add_block(const Problem& problem, std::size_t array, std::uint32_t number) {
  const ParameterArray& a = arrays_[array];
  Block block{.offset = a.offset + number * a.width,
              .width = a.width,
              .column = static_cast<std::uint32_t>(size_),
              .basis = basis_size_,
              .manifold = problem.manifold(array, number),
              .array = static_cast<std::uint32_t>(array),
              .block = number};
  std::uint32_t constants = 0;
  for (std::uint32_t k = 0; k < a.width; ++k)
    constants += is_constant(constant_, block.offset + k) ? 1 : 0;
  if (constants == a.width) return;
  if (constants > 0) {
    throw Error(ErrorCode::Unsupported,
                "solve: " + block_text({a.name, array, a.blocks, a.width}, number) +
                    " is on the manifold " + block.manifold->name() +
                    " and has single constant coordinates; use a product with a subset manifold");
  }
  block.tangent = static_cast<std::uint32_t>(block.manifold->tangent_size());
  for (std::uint32_t k = 0; k < a.width; ++k) {
    at_[block.offset + k] = block.tangent == 0 ? kNone : block.column;
    in_block_[block.offset + k] = static_cast<std::uint32_t>(blocks_.size());
  }
  size_ += block.tangent;
  basis_size_ += std::size_t{block.width} * block.tangent;
  blocks_.push_back(block);
}

bool TangentSpace::plus(std::span<const double> x, std::span<const double> delta,
                        std::span<double> out) const {
  for (std::uint32_t k = 0; k < at_.size(); ++k)
    out[k] = at_[k] == kNone || block_of(k) != nullptr ? x[k] : x[k] + delta[at_[k]];
  for (const Block& block : blocks_) {
    const auto step = delta.subspan(block.column, block.tangent);
    if (std::ranges::all_of(step, [](double d) { return d == 0; })) continue;  // no step
    if (!block.manifold->plus(&x[block.offset], step.data(), &out[block.offset])) return false;
  }
  for (std::size_t k = 0; k < lower_.size(); ++k)
    if (!is_constant(constant_, k)) out[k] = std::max(out[k], lower_[k]);
  for (std::size_t k = 0; k < upper_.size(); ++k)
    if (!is_constant(constant_, k)) out[k] = std::min(out[k], upper_[k]);
  return true;
}

bool TangentSpace::basis(std::span<const double> x, std::vector<double>& values) const {
  values.resize(basis_size_);
  return std::ranges::all_of(blocks_, [&](const Block& block) {
    return block.tangent == 0 ||
           block.manifold->plus_jacobian(&x[block.offset], values.data() + block.basis);
  });
}

void TangentSpace::project(std::span<const double> basis, std::span<const double> gradient,
                           std::span<double> out) const {
  for (std::uint32_t k = 0; k < at_.size(); ++k)
    if (at_[k] != kNone && block_of(k) == nullptr) out[at_[k]] = gradient[k];
  for (const Block& block : blocks_) {
    for (std::uint32_t t = 0; t < block.tangent; ++t) {
      double sum = 0;
      for (std::uint32_t k = 0; k < block.width; ++k)
        sum += basis[block.basis + k * block.tangent + t] * gradient[block.offset + k];
      out[block.column + t] = sum;
    }
  }
}

std::vector<double> TangentSpace::by_coordinate(std::span<const double> by_scalar) const {
  std::vector<double> out(size_);
  for (std::uint32_t k = 0; k < at_.size(); ++k)
    if (at_[k] != kNone && block_of(k) == nullptr) out[at_[k]] = by_scalar[k];
  for (const Block& block : blocks_)
    for (std::uint32_t t = 0; t < block.tangent; ++t)
      out[block.column + t] = by_scalar[block.offset];
  return out;
}

void TangentSpace::check_bounds(const char* call, std::span<const double> x) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!bounded()) return;
  for (std::size_t a = 0; a < arrays_.size(); ++a) {
    const std::size_t end = arrays_[a].offset + std::size_t{arrays_[a].blocks} * arrays_[a].width;
    for (std::size_t k = arrays_[a].offset; k < end; ++k) {
      const double low = lower_.empty() ? -kInfinity : lower_[k];
      const double high = upper_.empty() ? kInfinity : upper_[k];
      const bool constant = is_constant(constant_, k);
      // Bounds of a constant do not matter to a solve unless its value is outside.
      if ((constant || low < high) && x[k] >= low && x[k] <= high) continue;
      const std::string subject =
          std::string(call) + ": " + scalar_text(std::span<const ParameterArray>(arrays_), k);
      const std::string range = "[" + number(low) + ", " + number(high) + "]";
      if (!constant && !(low < high))
        throw Error(ErrorCode::InvalidArgument,
                    subject + " has infeasible bounds " + range +
                        "; expected lower < upper (hold it with set_constant)");
      throw Error(ErrorCode::InvalidArgument,
                  subject + " starts at " + number(x[k]) + ", outside its bounds " + range);
    }
  }
}

}  // namespace topograd
