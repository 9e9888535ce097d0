// The blocks of opaque code: values and derivatives, corrected for their losses.
#pragma once

#include "../../frontend/problem.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// Value of a block that has none.
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Name of a host block in messages: label and number.
std::string host_name(const Problem& problem, std::size_t block);

/// Evaluates a problem's host blocks one after the other on the calling thread.
///
/// The problem must outlive it and keep its host blocks meanwhile.
class HostTerms {
 public:
  ///   with_losses  false: ignore robust losses
  HostTerms(const Problem& problem, bool with_losses);

  bool empty() const { return blocks_.empty(); }
  std::span<const HostBlock> blocks() const { return blocks_; }

  /// Blocks with adjacent rows over the same parameter blocks.
  struct Run {
    std::uint64_t row = 0;  ///< its first one
    std::uint32_t rows = 0;
    std::span<const std::uint32_t> offsets, widths;  ///< of the parameter blocks
    /// Start of its Jacobian in jacobian(): (rows, width) row by row for each parameter block in
    /// turn.
    std::size_t entry = 0;
    std::size_t part = 0, parts = 0;  ///< its part of the private list
  };
  std::span<const Run> runs() const { return runs_; }

  /// ½ Σ ρ; NaN if a block has no value.
  double cost(std::span<const double> x);
  /// Writes corrected residuals into the blocks' rows of `residuals`, and Jacobians into
  /// jacobian(). Returns false if a block has no value. Parameter blocks without a free coordinate
  /// get zeros.
  ///
  ///   residuals  of the whole problem
  bool linearize(std::span<const double> x, std::span<double> residuals);
  std::span<const double> jacobian() const { return jacobian_; }

  /// Calls f(row, scalar, entry) for the entries of jacobian().
  template <class F>
  void for_entries(const F& f) const {
    const double* entry = jacobian_.data();
    for (const Run& run : runs_)
      for (std::size_t b = 0; b < run.offsets.size(); ++b)
        for (std::uint32_t r = 0; r < run.rows; ++r)
          for (std::uint32_t c = 0; c < run.widths[b]; ++c)
            f(run.row + r, run.offsets[b] + c, *entry++);
  }

  /// Names the first block without a finite value at x; nothing if there is none.
  std::optional<std::string> describe_nonfinite(std::span<const double> x);
  /// Names the block whose loss has a slope that is negative or NaN at x; nothing if there is none.
  std::optional<std::string> describe_decreasing_loss(std::span<const double> x);

 private:
  /// Blocks that are evaluated by one call.
  struct Part {
    std::span<const HostBlock> blocks;
    std::uint32_t rows = 0;
    bool has_losses = false;
  };

  void find_runs();
  void prepare(std::span<const double> x, bool derivatives) const;
  bool evaluate(const Part& part, std::span<const double> x, double* residuals,
                std::span<double* const> jacobians);
  double cost_of(const HostBlock& block, std::span<const double> residuals) const;
  void correct(const HostBlock& block, double* residuals, std::span<double* const> jacobians) const;
  bool is_constant(std::uint32_t offset, std::uint32_t width) const;

  const Problem& problem_;
  std::span<const HostBlock> blocks_;
  bool with_losses_;
  std::vector<std::uint8_t> constant_;
  std::vector<Part> parts_;
  std::vector<Run> runs_;
  std::vector<double> jacobian_, rows_;
  std::vector<const double*> arguments_;
  std::vector<double*> derivatives_;
};

}  // namespace topograd
