// Ridge regression of log(µs) by normal equations.
#include <topograd/runtime/hybrid/first_guess.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace topograd::runtime::hybrid {
namespace {

constexpr std::uint64_t kRowsNeeded = 32;
constexpr std::size_t kKernelsNeeded = 3;
constexpr std::uint64_t kRefit = 16;
constexpr double kRidge = 1e-2;
// Of an unknown kernel never as sure as of a known one.
constexpr double kMostConfidence = 0.5;

/// Solves the symmetric positive definite system in place by Cholesky's method.
template <std::size_t N>
std::array<double, N> solve(std::array<std::array<double, N>, N> a, std::array<double, N> b) {
  for (std::size_t j = 0; j < N; ++j) {
    for (std::size_t k = 0; k < j; ++k) a[j][j] -= a[j][k] * a[j][k];
    a[j][j] = std::sqrt(a[j][j]);
    for (std::size_t i = j + 1; i < N; ++i) {
      for (std::size_t k = 0; k < j; ++k) a[i][j] -= a[i][k] * a[j][k];
      a[i][j] /= a[j][j];
    }
  }
  for (std::size_t i = 0; i < N; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = N; i-- > 0;) {
    for (std::size_t k = i + 1; k < N; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

}  // namespace

FirstGuess::Inputs FirstGuess::inputs(std::uint64_t size, const Features& f) {
  const double items = std::log1p(static_cast<double>(size));
  const auto beyond = [&](double bend) { return std::max(0.0, items - std::log(bend)); };
  const double work = items + std::log(std::max(f.operations, 1e-3));
  const double traffic = items + std::log(std::max(f.bytes, 1e-3));
  return {1,
          items,
          beyond(1e3),
          beyond(3e4),
          beyond(1e6),
          std::max(0.0, work - std::log(1e5)),
          std::max(0.0, traffic - std::log(1e6)),
          std::log(std::max(f.operations, 1e-3)),
          std::log(std::max(f.parallelism, 1e-6)) + std::log(std::max(f.reuse, 1.0)),
          f.pattern == MemoryPattern::gather ? 1.0 : 0.0,
          f.pattern == MemoryPattern::scatter || f.pattern == MemoryPattern::reduction ? 1.0 : 0.0};
}

void FirstGuess::add(const TrainingRow& row) {
  const Inputs phi = inputs(row.size, row.features);
  const double y = std::log(std::max(row.us, 1e-3));
  for (std::size_t i = 0; i < kInputs; ++i) {
    for (std::size_t j = 0; j < kInputs; ++j) normal_[i][j] += phi[i] * phi[j];
    moment_[i] += phi[i] * y;
  }
  squares_ += y * y;
  ++rows_;
  if (kernels_.size() < kKernelsNeeded &&
      std::find(kernels_.begin(), kernels_.end(), row.kernel) == kernels_.end())
    kernels_.push_back(row.kernel);
  if (rows_ >= kRowsNeeded && kernels_.size() >= kKernelsNeeded && rows_ >= fitted_rows_ + kRefit)
    fit();
}

void FirstGuess::fit() {
  auto normal = normal_;
  for (std::size_t i = 0; i < kInputs; ++i) normal[i][i] += kRidge * static_cast<double>(rows_);
  weights_ = solve(normal, moment_);
  double error = squares_;
  for (std::size_t i = 0; i < kInputs; ++i) {
    error -= 2 * weights_[i] * moment_[i];
    for (std::size_t j = 0; j < kInputs; ++j) error += weights_[i] * normal_[i][j] * weights_[j];
  }
  sigma_ = std::sqrt(std::max(error, 0.0) / static_cast<double>(rows_));
  fitted_rows_ = rows_;
}

Estimate FirstGuess::at(std::uint64_t size, const Features& features) const {
  if (fitted_rows_ == 0) return {};
  const Inputs phi = inputs(size, features);
  double y = 0;
  for (std::size_t i = 0; i < kInputs; ++i) y += weights_[i] * phi[i];
  const double off = sigma_ / std::log(2.0);
  return {.us = std::exp(y),
          .confidence = kMostConfidence / (1 + off * off),
          .samples = fitted_rows_,
          .known = true};
}

double FirstGuess::error_factor() const { return fitted_rows_ == 0 ? 0 : std::exp(sigma_); }

double held_out_error(const std::vector<TrainingRow>& rows) {
  std::set<Hash128> kernels;
  for (const TrainingRow& row : rows) kernels.insert(row.kernel);
  if (kernels.size() <= kKernelsNeeded) return 0;
  double squares = 0;
  std::uint64_t count = 0;
  for (const Hash128& left_out : kernels) {
    FirstGuess guess;
    for (const TrainingRow& row : rows)
      if (row.kernel != left_out) guess.add(row);
    for (const TrainingRow& row : rows) {
      if (row.kernel != left_out) continue;
      const Estimate estimate = guess.at(row.size, row.features);
      if (!estimate) continue;
      const double off = std::log(estimate.us / std::max(row.us, 1e-3));
      squares += off * off;
      ++count;
    }
  }
  return count == 0 ? 0 : std::exp(std::sqrt(squares / static_cast<double>(count)));
}

}  // namespace topograd::runtime::hybrid
