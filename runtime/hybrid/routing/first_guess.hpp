// Predicted times of kernels that have never run: a small linear regression over other kernels.
#pragma once

#include "decision.hpp"
#include "history.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace topograd::runtime::hybrid {

/// Time of a kernel at one size, with the features of its task.
struct TrainingRow {
  Hash128 kernel;
  std::string operation;
  std::uint64_t size = 0;
  Features features;
  double us = 0;  ///< of the kernel alone; the latest median

  /// There is one row for each kernel and power of two of its size.
  bool replaces(const TrainingRow& other) const {
    return kernel == other.kernel && size_class(size) == size_class(other.size);
  }
};

/// Predicts log(µs) of one target: the logarithm of the work, corrected by a linear function of the
/// logarithms of size and features, with bends between overhead and work, and by a constant for
/// each family of tasks of an operation. Ridge regression, refitted as rows come. Not thread-safe.
class FirstGuess {
 public:
  static constexpr std::size_t kInputs = 10;

  /// Cost: kInputs² operations; kInputs³ for a fit, at every eighth call if there are many rows.
  void add(const TrainingRow& row) { count(row, 1); }
  /// Removes a row that was added.
  void remove(const TrainingRow& row) { count(row, -1); }
  /// Unknown below a dozen rows of three kernels.
  Estimate at(std::string_view operation, std::uint64_t size, const Features& features) const;
  /// exp of the root mean square error of log(µs): 1.3 = 30 % off. 0 before the first fit.
  double error_factor() const;

 private:
  using Inputs = std::array<double, kInputs>;
  /// Sums over rows of the inputs φ and of y, the remaining logarithm.
  struct Family {
    double rows = 0;
    Inputs inputs{};  // Σ φ
    double left = 0;  // Σ y
    double offset = 0;
  };
  static Inputs inputs(std::uint64_t size, const Features& features);
  static Hash128 family_of(std::string_view operation, const Features& features);
  void count(const TrainingRow& row, double sign);
  void fit();

  std::array<Inputs, kInputs> normal_{};  // Σ φ φᵀ
  Inputs moment_{};                       // Σ φ y
  Inputs weights_{};
  double squares_ = 0;  // Σ y²
  std::unordered_map<Hash128, Family> families_;
  std::map<Hash128, int> kernels_;  // rows of each
  std::uint64_t rows_ = 0, since_fit_ = 0;
  bool fitted_ = false;
  double sigma_ = 0;
};

/// Number of training rows kept per target: several times what a small regression needs.
inline constexpr std::size_t kMaxTrainingRows = 512;

/// The latest training rows of one target, at most kMaxTrainingRows, and the regression over them.
/// Not thread-safe.
class TrainingSet {
 public:
  /// Adds a row, or replaces the one of the same kernel and size, or else the oldest if it is full.
  void keep(TrainingRow row);
  const std::vector<TrainingRow>& rows() const { return rows_; }
  const FirstGuess& guess() const { return guess_; }

 private:
  FirstGuess guess_;
  std::vector<TrainingRow> rows_;
  std::size_t next_ = 0;  // the entry that is overwritten next, once it is full
};

/// Cross-validated error: each kernel's rows are guessed from those of the other kernels. Returns
/// the median factor, up or down; 0 for fewer than four kernels.
double held_out_error(const std::vector<TrainingRow>& rows);

}  // namespace topograd::runtime::hybrid
