// Random programs, points to evaluate them at, and a shrinker for those that fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "../evaluate.hpp"
#include "../program.hpp"

namespace topograd::ir {

/// The 64-bit Mersenne twister.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// Uniform in [0, n); n > 0.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  /// Picks one element; `from` is not empty.
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::mt19937_64 engine_;
};

/// A number for each leaf of a program.
struct Point {
  std::vector<double> parameters, data, uniforms, tangents, seeds;

  Inputs<double> inputs() const { return {parameters, data, uniforms, tangents, seeds}; }
};

/// Size, ops and leaves of a random program.
struct RandomProgramOptions {
  std::size_t operations = 20;  ///< about how many nodes are neither leaf nor literal
  std::vector<Op> ops;          ///< ops to choose from; empty: every op
  LeafCounts leaves = {.parameters = 3, .data = 2, .uniforms = 1};
  std::size_t outputs = 1;  ///< at most
  std::size_t guards = 0;   ///< at most
  double literals = 0.2;    ///< share of the leaves that are literals
  bool tree = false;        ///< every operation has one user (leaves may have more)
  /// A point at which all values are ordinary numbers, or null. Ops and operands are drawn again, a
  /// limited number of times, while the value at this point is NaN, infinite, beyond a hundred, or
  /// below a thousandth but not 0, or while rounding in float could decide a comparison or a jump.
  const Point* ordinary_at = nullptr;
};

/// A program that satisfies the verifier; the same seed gives the same program on every machine.
Program random_program(std::uint64_t seed, const RandomProgramOptions& options = {});

/// Every op that is no leaf, in the order of the table.
std::vector<Op> all_ops();
/// Ops that are smooth on their domain, so that differences can check their derivatives.
std::vector<Op> smooth_ops();

/// Numbers of ordinary size; a share `special` of them is drawn from special_values().
Point random_point(std::uint64_t seed, const LeafCounts& leaves, double special = 0);

/// Zeros, ones, infinities, NaN, subnormals, halves, huge and tiny numbers, of both signs.
const std::vector<double>& special_values();

/// Equal bits, or both NaN.
bool same_bits(double a, double b);
bool same_bits(float a, float b);

/// Removes outputs, guards and nodes for as long as `fails` holds; `fails(program)` must hold.
Program shrink(Program program, const std::function<bool(const Program&)>& fails);

}  // namespace topograd::ir
