// Backends and random numbers of the self-tests.
#pragma once

#include "../ir/checking/random_program.hpp"
#include "../ir/program.hpp"
#include "../runtime/rows/rows.hpp"
#include "check_options.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace topograd::check {

/// One backend in one precision.
struct CheckedBackend {
  std::unique_ptr<runtime::RowRunner> runner;
  bool keeps_subnormals = true;   ///< measured by a sum of subnormals
  bool emulated_float64 = false;  ///< f64 by 32-bit integers
};

/// Opens all backends and precisions that the options select. Throws what a forced device throws.
std::vector<CheckedBackend> open_backends(const Options& options);

/// The precisions of `backends`, without duplicates.
std::vector<Precision> precisions_of(std::span<const CheckedBackend> backends);

/// y = op(p0, p1, p2); composite ops are expanded.
ir::Program single_op(ir::Op op);

using ir::Random;

/// Converts numbers to T, for calls that take spans of T.
template <class T>
std::vector<T> narrowed(std::span<const double> values) {
  std::vector<T> out;
  for (const double v : values) out.push_back(static_cast<T>(v));
  return out;
}

}  // namespace topograd::check
