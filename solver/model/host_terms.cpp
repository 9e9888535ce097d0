// Evaluation of blocks of opaque code.
#include "host_terms.hpp"

#include "nonfinite.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace topograd {
namespace {

double square_of(std::span<const double> r) {
  return std::inner_product(r.begin(), r.end(), r.begin(), 0.0);
}

std::size_t width_of(const HostBlock& block) {
  return std::accumulate(block.widths.begin(), block.widths.end(), std::size_t{0});
}

}  // namespace

std::string host_name(const Problem& problem, std::size_t block) {
  const std::string_view label = problem.host_label(block);
  return "host residual \"" + (label.empty() ? "host" : std::string(label)) + "\" #" +
         std::to_string(block);
}

HostTerms::HostTerms(const Problem& problem, bool with_losses)
    : problem_(problem),
      blocks_(problem.host_blocks()),
      with_losses_(with_losses),
      constant_(problem.constant_mask().begin(), problem.constant_mask().end()) {
  std::size_t entries = 0;
  for (const HostBlock& block : blocks_) {
    first_entry_.push_back(entries);
    entries += block.rows * width_of(block);
    rows_.resize(std::max<std::size_t>(rows_.size(), block.rows));
  }
  jacobian_.resize(entries);
}

bool HostTerms::is_constant(std::uint32_t offset, std::uint32_t width) const {
  return !constant_.empty() &&
         std::all_of(constant_.begin() + offset, constant_.begin() + offset + width,
                     [](std::uint8_t c) { return c != 0; });
}

bool HostTerms::evaluate(const HostBlock& block, std::span<const double> x, double* residuals,
                         double* jacobian) {
  arguments_.clear();
  derivatives_.clear();
  for (std::size_t k = 0; k < block.offsets.size(); ++k) {
    arguments_.push_back(x.data() + block.offsets[k]);
    if (jacobian == nullptr) continue;
    const std::size_t entries = std::size_t{block.rows} * block.widths[k];
    std::fill_n(jacobian, entries, 0.0);
    derivatives_.push_back(is_constant(block.offsets[k], block.widths[k]) ? nullptr : jacobian);
    jacobian += entries;
  }
  return block.function->evaluate(arguments_.data(), residuals,
                                  jacobian == nullptr ? nullptr : derivatives_.data());
}

double HostTerms::cost_of(const HostBlock& block, std::span<const double> residuals) const {
  const double s = square_of(residuals);
  if (!with_losses_ || block.loss.is_trivial() || !std::isfinite(s)) return s / 2;
  return block.loss.evaluate(s)[0] / 2;
}

/// Corrects residual and Jacobian for the loss (autodiff/derivatives.hpp).
void HostTerms::correct(const HostBlock& block, double* r, double* jacobian) const {
  const double s = square_of({r, block.rows});
  if (!with_losses_ || block.loss.is_trivial() || !std::isfinite(s)) return;
  const auto [value, slope, curvature] = block.loss.evaluate(s);
  const double root = std::sqrt(slope);
  const bool bends_up = curvature > 0 && s > 0;
  const double alpha = bends_up ? 1 - std::sqrt(1 + 2 * s * curvature / slope) : 0;
  for (const std::uint32_t width : block.widths) {
    for (std::uint32_t c = 0; c < width; ++c) {
      double along = 0;
      if (bends_up)
        for (std::uint32_t k = 0; k < block.rows; ++k) along += r[k] * jacobian[k * width + c];
      for (std::uint32_t k = 0; k < block.rows; ++k) {
        double& entry = jacobian[k * width + c];
        entry = root * (bends_up ? entry - alpha / s * r[k] * along : entry);
      }
    }
    jacobian += std::size_t{block.rows} * width;
  }
  for (std::uint32_t k = 0; k < block.rows; ++k) r[k] *= root / (1 - alpha);
}

void HostTerms::prepare(std::span<const double> x, bool derivatives) const {
  if (!blocks_.empty()) blocks_.front().function->prepare(x, derivatives);
}

double HostTerms::cost(std::span<const double> x) {
  prepare(x, false);
  double sum = 0;
  for (const HostBlock& block : blocks_) {
    if (!evaluate(block, x, rows_.data(), nullptr)) return kNaN;
    sum += cost_of(block, std::span(rows_).first(block.rows));
  }
  return sum;
}

double HostTerms::linearize(std::span<const double> x, std::span<double> residuals) {
  prepare(x, true);
  double sum = 0;
  for (std::size_t k = 0; k < blocks_.size(); ++k) {
    const HostBlock& block = blocks_[k];
    double* r = residuals.data() + block.row;
    double* jacobian = jacobian_.data() + first_entry_[k];
    if (!evaluate(block, x, r, jacobian)) return kNaN;
    sum += cost_of(block, {r, block.rows});
    correct(block, r, jacobian);
  }
  return sum;
}

std::optional<std::string> HostTerms::describe_decreasing_loss(std::span<const double> x) {
  prepare(x, false);
  for (std::size_t k = 0; k < blocks_.size(); ++k) {
    const HostBlock& block = blocks_[k];
    if (!with_losses_ || block.loss.is_trivial()) continue;
    if (!evaluate(block, x, rows_.data(), nullptr)) continue;
    const double s = square_of(std::span(rows_).first(block.rows));
    if (!std::isfinite(s)) continue;
    const double slope = block.loss.evaluate(s)[1];
    if (!(slope >= 0)) return decreasing_loss_text(block.loss, host_name(problem_, k), s, slope);
  }
  return std::nullopt;
}

std::optional<std::string> HostTerms::describe_nonfinite(std::span<const double> x) {
  prepare(x, true);
  const auto finite = [](double v) { return std::isfinite(v); };
  for (std::size_t k = 0; k < blocks_.size(); ++k) {
    const std::string name = host_name(problem_, k);
    double* jacobian = jacobian_.data() + first_entry_[k];
    if (!evaluate(blocks_[k], x, rows_.data(), jacobian))
      return name + " has no value: its evaluate() returned false";
    const std::span<const double> rows(rows_.data(), blocks_[k].rows);
    const auto bad = std::ranges::find_if_not(rows, finite);
    if (bad != rows.end())
      return name + " is not finite in row " + std::to_string(bad - rows.begin());
    const std::span<const double> entries(jacobian, blocks_[k].rows * width_of(blocks_[k]));
    if (!std::ranges::all_of(entries, finite)) return "a derivative of " + name + " is not finite";
  }
  return std::nullopt;
}

}  // namespace topograd
