// Times of kernels that have never run, from those of others: a small linear regression.
#pragma once

#include <topograd/runtime/hybrid/decision.hpp>
#include <topograd/runtime/hybrid/history.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace topograd::runtime::hybrid {

/// One measured run with the features of its task.
struct TrainingRow {
  Hash128 kernel;
  std::string operation;
  std::uint64_t size = 0;
  Features features;
  double us = 0;  ///< of the kernel alone
};

/// log(µs) of one target as a linear function of the logarithms of size, work and traffic, with
/// bends where overhead gives way to work. Ridge regression, refitted as rows come. Not safe for
/// several threads.
class FirstGuess {
 public:
  static constexpr std::size_t kInputs = 11;

  /// Cost: kInputs² operations; every sixteenth row a fit of kInputs³.
  void add(const TrainingRow& row);
  /// Not known below some dozens of rows of three kernels.
  Estimate at(std::uint64_t size, const Features& features) const;
  /// exp of the root mean square error of log(µs): 1.3 = 30 % off. 0 before the first fit.
  double error_factor() const;

 private:
  using Inputs = std::array<double, kInputs>;
  static Inputs inputs(std::uint64_t size, const Features& features);
  void fit();

  std::array<Inputs, kInputs> normal_{};  // Σ φ φᵀ
  Inputs moment_{};                       // Σ φ log(µs)
  Inputs weights_{};
  double squares_ = 0;  // Σ log(µs)²
  std::uint64_t rows_ = 0, fitted_rows_ = 0;
  double sigma_ = 0;
  std::vector<Hash128> kernels_;  // the first few, to know that there are several
};

/// Error on kernels that were not fitted: each kernel's rows are predicted from those of the
/// others. exp of the root mean square error of log(µs); 0 for fewer than four kernels.
double held_out_error(const std::vector<TrainingRow>& rows);

}  // namespace topograd::runtime::hybrid
