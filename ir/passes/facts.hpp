// Facts about a node's value for all inputs, in float and in double; a NaN may always occur.
#pragma once

#include "../program.hpp"

#include <optional>
#include <vector>

namespace topograd::ir {

/// Truth value of a literal, if float and double agree on it.
std::optional<bool> known_truth(const Node& node);

struct Facts {
  bool boolean = false;            ///< 1 or +0
  bool sign_clear = false;         ///< the sign bit is clear
  bool not_negative_zero = false;  ///< follows from sign_clear
  bool integral = false;           ///< a whole number or infinite
};

/// Facts of the nodes of a growing graph, derived once for each node, operands first.
class FactTable {
 public:
  explicit FactTable(const Graph& graph) : graph_(graph) {}
  const Facts& operator[](Id id);

 private:
  const Graph& graph_;
  std::vector<Facts> facts_;
};

}  // namespace topograd::ir
