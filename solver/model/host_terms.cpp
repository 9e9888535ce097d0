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
  find_runs();
  std::size_t entries = 0, rows = 0;
  for (Run& run : runs_) {
    run.entry = entries;
    entries += run.rows * std::accumulate(run.widths.begin(), run.widths.end(), std::size_t{0});
  }
  for (const Part& part : parts_) rows = std::max<std::size_t>(rows, part.rows);
  jacobian_.resize(entries);
  rows_.resize(rows);
}

void HostTerms::find_runs() {
  const HostBlock* last = nullptr;
  HostResidual::Place next;  // of a block that the last part could have, too
  for (const HostBlock& block : blocks_) {
    const bool continues = last != nullptr && last->row + last->rows == block.row &&
                           last->offsets == block.offsets && last->widths == block.widths;
    last = &block;
    if (!continues)
      runs_.push_back({.row = block.row,
                       .offsets = block.offsets,
                       .widths = block.widths,
                       .part = parts_.size()});
    const HostResidual::Place at = block.function->place();
    const bool shares = continues && at.computation != nullptr &&
                        at.computation == next.computation && at.row == next.row;
    if (!shares) parts_.push_back({.blocks = {&block, 0}}), ++runs_.back().parts;
    Part& part = parts_.back();
    part.blocks = {part.blocks.data(), part.blocks.size() + 1};
    part.rows += block.rows;
    part.has_losses |= with_losses_ && !block.loss.is_trivial();
    runs_.back().rows += block.rows;
    next = {at.computation, at.row + block.rows};
  }
}

bool HostTerms::is_constant(std::uint32_t offset, std::uint32_t width) const {
  return !constant_.empty() &&
         std::all_of(constant_.begin() + offset, constant_.begin() + offset + width,
                     [](std::uint8_t c) { return c != 0; });
}

/// Evaluates the blocks of a part.
///
///   jacobians  by parameter block: (rows, width) numbers; empty: none is wanted
bool HostTerms::evaluate(const Part& part, std::span<const double> x, double* residuals,
                         std::span<double* const> jacobians) {
  const HostBlock& block = part.blocks.front();
  arguments_.clear();
  derivatives_.clear();
  for (std::size_t k = 0; k < block.offsets.size(); ++k) {
    arguments_.push_back(x.data() + block.offsets[k]);
    if (jacobians.empty()) continue;
    const bool wanted = !is_constant(block.offsets[k], block.widths[k]);
    std::fill_n(jacobians[k], std::size_t{part.rows} * block.widths[k], wanted ? unwritten() : 0.0);
    derivatives_.push_back(wanted ? jacobians[k] : nullptr);
  }
  std::fill_n(residuals, part.rows, unwritten());
  return block.function->evaluate_run(part.rows, arguments_.data(), residuals,
                                      jacobians.empty() ? nullptr : derivatives_.data());
}

double HostTerms::cost_of(const HostBlock& block, std::span<const double> residuals) const {
  const double s = square_of(residuals);
  if (!with_losses_ || block.loss.is_trivial() || !std::isfinite(s)) return s / 2;
  return block.loss.evaluate(s)[0] / 2;
}

/// Corrects residual and Jacobian for the loss (autodiff/derivatives.hpp).
///
///   jacobians  by parameter block: (rows, width) numbers of this block's rows
void HostTerms::correct(const HostBlock& block, double* r,
                        std::span<double* const> jacobians) const {
  if (!with_losses_ || block.loss.is_trivial()) return;
  const double s = square_of({r, block.rows});
  if (!std::isfinite(s)) return;
  const auto [value, slope, curvature] = block.loss.evaluate(s);
  const double root = std::sqrt(slope);
  const bool convex = curvature > 0 && s > 0;
  const double alpha = convex ? 1 - std::sqrt(1 + 2 * s * curvature / slope) : 0;
  for (std::size_t b = 0; b < block.widths.size(); ++b) {
    const std::uint32_t width = block.widths[b];
    double* const jacobian = jacobians[b];
    for (std::uint32_t c = 0; c < width; ++c) {
      double along = 0;
      if (convex)
        for (std::uint32_t k = 0; k < block.rows; ++k) along += r[k] * jacobian[k * width + c];
      for (std::uint32_t k = 0; k < block.rows; ++k) {
        double& entry = jacobian[k * width + c];
        entry = root * (convex ? entry - alpha / s * r[k] * along : entry);
      }
    }
  }
  for (std::uint32_t k = 0; k < block.rows; ++k) r[k] *= root / (1 - alpha);
}

void HostTerms::prepare(std::span<const double> x, bool derivatives) const {
  if (!blocks_.empty()) blocks_.front().function->prepare(x, derivatives);
}

double HostTerms::cost(std::span<const double> x) {
  prepare(x, false);
  double sum = 0;
  for (const Part& part : parts_) {
    if (!evaluate(part, x, rows_.data(), {})) return kNaN;
    const double* r = rows_.data();
    if (!part.has_losses) {
      sum += square_of({r, part.rows}) / 2;
      continue;
    }
    for (const HostBlock& block : part.blocks) {
      sum += cost_of(block, {r, block.rows});
      r += block.rows;
    }
  }
  return sum;
}

bool HostTerms::linearize(std::span<const double> x, std::span<double> residuals) {
  prepare(x, true);
  std::vector<double*> jacobians;  // by parameter block, of the next row
  for (const Run& run : runs_) {
    jacobians.clear();
    double* entry = jacobian_.data() + run.entry;
    for (const std::uint32_t width : run.widths) {
      jacobians.push_back(entry);
      entry += std::size_t{run.rows} * width;
    }
    double* r = residuals.data() + run.row;
    for (const Part& part : std::span(parts_).subspan(run.part, run.parts)) {
      if (!evaluate(part, x, r, jacobians)) return false;
      const auto advance = [&](std::uint32_t rows) {
        r += rows;
        for (std::size_t b = 0; b < jacobians.size(); ++b)
          jacobians[b] += std::size_t{rows} * run.widths[b];
      };
      if (!part.has_losses) {
        advance(part.rows);
        continue;
      }
      for (const HostBlock& block : part.blocks) {
        correct(block, r, jacobians);
        advance(block.rows);
      }
    }
  }
  return true;
}

std::optional<std::string> HostTerms::describe_decreasing_loss(std::span<const double> x) {
  prepare(x, false);
  for (std::size_t k = 0; k < blocks_.size(); ++k) {
    const HostBlock& block = blocks_[k];
    if (!with_losses_ || block.loss.is_trivial()) continue;
    if (!evaluate({blocks_.subspan(k, 1), block.rows}, x, rows_.data(), {})) continue;
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
  const auto fault = [](double v) { return is_unwritten(v) ? "not written" : "not finite"; };
  for (std::size_t k = 0; k < blocks_.size(); ++k) {
    const HostBlock& block = blocks_[k];
    const std::string name = host_name(problem_, k);
    std::vector<std::vector<double>> entries;
    std::vector<double*> jacobians;
    for (const std::uint32_t width : block.widths) {
      entries.emplace_back(std::size_t{block.rows} * width);
      jacobians.push_back(entries.back().data());
    }
    if (!evaluate({blocks_.subspan(k, 1), block.rows}, x, rows_.data(), jacobians))
      return name + " has no value: its evaluate() returned false";
    const std::span<const double> rows(rows_.data(), block.rows);
    const auto bad = std::ranges::find_if_not(rows, finite);
    if (bad != rows.end())
      return name + " is " + fault(*bad) + " in row " + std::to_string(bad - rows.begin());
    for (const std::vector<double>& of_block : entries) {
      const auto entry = std::ranges::find_if_not(of_block, finite);
      if (entry != of_block.end()) return "a derivative of " + name + " is " + fault(*entry);
    }
  }
  return std::nullopt;
}

}  // namespace topograd
