// Random programs, points to evaluate them at, and a shrinker for those that fail.
#pragma once

#include <topograd/ir/evaluate.hpp>
#include <topograd/ir/program.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace topograd::test {

/// Of long series of random cases, builds without optimisation take every so-manyth.
#ifdef NDEBUG
inline constexpr std::uint64_t kStride = 1;
#else
inline constexpr std::uint64_t kStride = 6;
#endif

/// What a random program is made of.
struct RandomProgramOptions {
  std::size_t operations = 20;  ///< nodes that are neither leaf nor literal, about
  std::vector<ir::Op> ops;      ///< to choose from; empty: every op
  ir::LeafCounts leaves = {.parameters = 3, .data = 2, .uniforms = 1};
  std::size_t outputs = 1;  ///< at most
  std::size_t guards = 0;   ///< at most
  double literals = 0.2;    ///< share of the leaves that are literals
  bool tree = false;        ///< every operation has one user (leaves may have more)
};

/// A program that satisfies the verifier; the same seed gives the same program on every machine.
ir::Program random_program(std::uint64_t seed, const RandomProgramOptions& options = {});

/// Every op that is no leaf, in the order of the table.
std::vector<ir::Op> all_ops();
/// Ops that are smooth on their domain: what differences can check.
std::vector<ir::Op> smooth_ops();

/// A number for each leaf of a program.
struct Point {
  std::vector<double> parameters, data, uniforms, tangents, seeds;

  ir::Inputs<double> inputs() const { return {parameters, data, uniforms, tangents, seeds}; }
};

/// Numbers of ordinary size; a share `special` of them is drawn from special_values().
Point random_point(std::uint64_t seed, const ir::LeafCounts& leaves, double special = 0);

/// Zeros, ones, infinities, NaN, subnormals, halves, huge and tiny numbers, of both signs.
const std::vector<double>& special_values();

/// Equal bits, or both NaN.
bool same_bits(double a, double b);
bool same_bits(float a, float b);

/// Removes outputs, guards and nodes for as long as `fails` holds, which must hold of `program`.
ir::Program shrink(ir::Program program, const std::function<bool(const ir::Program&)>& fails);

}  // namespace topograd::test
