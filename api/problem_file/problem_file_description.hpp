// What a problem file says, before anything is built from it.
#pragma once

#include "../../frontend/loss.hpp"
#include "../../frontend/manifold.hpp"
#include "../../solver/options.hpp"
#include "problem_file_place.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace topograd::problem_file {

/// An array of parameters or of data.
struct ArrayDescription {
  std::string name;
  std::uint32_t width = 1;
  std::vector<double> values;           ///< a multiple of width of them, at least one block
  bool all_constant = false;            ///< parameters
  std::vector<std::uint32_t> constant;  ///< parameters: blocks that are held at their values
  std::vector<double> lower, upper;     ///< parameters: one a scalar; empty: none
  std::optional<Manifold> manifold;     ///< parameters: of every block
  std::string pointer;

  std::size_t blocks() const { return values.size() / width; }
};

struct UniformDescription {
  std::string name;
  double value = 0;
  std::string pointer;
};

/// What a name in a block's expressions reads in each of its instances: blocks of an array, or
/// numbers that stand in the file where the name is bound.
struct Binding {
  std::string name;
  std::string array;                        ///< empty: `numbers`
  std::vector<std::uint32_t> index;         ///< block of each instance; empty: see `block`
  std::optional<std::uint32_t> block;       ///< of all instances; none: instance i reads block i
  std::optional<std::uint32_t> coordinate;  ///< the only one that the name stands for
  std::vector<double> numbers;              ///< one an instance, or one for all
  bool one_for_all = false;                 ///< `numbers` is one number
  std::string pointer;
};

struct BlockDescription {
  std::string label;
  std::vector<std::string> expressions;
  std::vector<Binding> parameters, data;
  std::optional<Binding> weight;
  std::optional<std::uint32_t> count;
  Loss loss;
  std::string pointer;
};

struct Description {
  std::string title;
  std::vector<ArrayDescription> parameters, data;
  std::vector<UniformDescription> uniforms;
  std::vector<BlockDescription> residuals;
  SolverOptions options;
};

/// Reads the JSON and checks its form, not what names refer to. Throws Error{Parse} with the place.
Description read_description(const Document& document);

}  // namespace topograd::problem_file
