// Chains: many small problems of one form, with any number of unknowns each.
#pragma once

#include "../../frontend/value/math.hpp"
#include "../../solver/solve_many.hpp"

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace topograd::problems {

/// Numbers of data that each chain has.
constexpr std::size_t chain_entries(std::size_t unknowns) { return 2 * unknowns + 1; }

/// Starts and data of some chains, one after the other, for solve_many().
struct Chains {
  std::vector<double> starts;  ///< count x unknowns
  std::vector<double> data;    ///< count x chain_entries(unknowns)
};
inline Chains make_chains(std::size_t count, std::size_t unknowns) {
  const std::size_t entries = chain_entries(unknowns);
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> around(-1, 1);
  Chains out;
  out.starts.assign(count * unknowns, 0.1);
  out.data.resize(count * entries);
  for (std::size_t k = 0; k < count; ++k) {
    std::vector<double> x(unknowns);
    for (double& number : x) number = 0.5 * around(random);
    double* const data = out.data.data() + k * entries;
    double sum = 0;
    for (std::size_t i = 0; i < unknowns; ++i) {
      sum += x[i];
      data[i] = x[i] + 0.01 * around(random);
      if (i + 1 < unknowns) data[unknowns + i] = std::exp(x[i + 1] - x[i]) + 0.01 * around(random);
    }
    data[2 * unknowns] = std::tanh(sum);
  }
  return out;
}

/// The residuals of one chain: rows of one, of two and of all unknowns.
inline std::vector<Value> chain_rows(const One& one) {
  std::vector<Value> rows;
  const std::size_t n = one.size();
  Value sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum = sum + one.x(i);
  rows.push_back(tanh(sum) - one.data(0, 2 * n));
  for (std::size_t i = 0; i < n; ++i) rows.push_back(0.3 * (one.x(i) - one.data(0, i)));
  for (std::size_t i = 0; i + 1 < n; ++i)
    rows.push_back(exp(one.x(i + 1) - one.x(i)) - one.data(0, n + i));
  return rows;
}

}  // namespace topograd::problems
