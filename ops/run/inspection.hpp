// Internal: checks and texts of the values of operations, for debugging.
#pragma once

#include "run.hpp"

#include "../../ir/evaluate.hpp"
#include "../../ir/text.hpp"
#include "../../runtime/hybrid/compare.hpp"

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::ops {

/// Elements of each array and nodes of each expression that OpOptions::values prints.
inline constexpr std::size_t kShownValues = 8;

/// What operations of a thread do in addition, whatever their own options are.
struct Inspection {
  bool cross_check = false;
  std::ostream* values = nullptr;
};

/// While it lives, operations of this thread are inspected, too. The scopes around it count as
/// well.
class Inspect {
 public:
  explicit Inspect(const Inspection& what);
  ~Inspect();
  Inspect(const Inspect&) = delete;
  Inspect& operator=(const Inspect&) = delete;

 private:
  Inspection before_;
};
const Inspection& inspection();

/// Contents of the storages that an operation writes; those never written get a pattern first, so
/// that both sides begin alike.
class OutputContents {
 public:
  explicit OutputContents(const OpCall& call);
  /// Writes the contents back.
  void restore() const;
  /// The elements that hold numbers, on the host.
  std::vector<std::vector<std::byte>> now() const;

 private:
  const OpCall& call_;
  std::vector<std::vector<std::byte>> before_;
};

/// Compares the outputs of an operation with those of the device. Returns the number of elements.
/// Throws Error{Internal} that names the operation, the device, and the first element that differs.
std::uint64_t compare_outputs(const OpCall& call, const std::string& device,
                              const std::vector<std::vector<std::byte>>& there);

/// Lines for operands and nodes, before the operation; and for its results, after it.
std::string operands_text(const OpCall& call);
std::string results_text(const OpCall& call, const std::string& device);

/// A line for each node of a program with its values at some elements.
///
///   inputs   by element: the leaves that differ, as parameters
///   numbers  the leaves that are the same, as data and uniforms
template <class T>
std::string node_lines(const ir::Program& program, const std::vector<std::vector<T>>& inputs,
                       const std::vector<T>& numbers) {
  std::vector<std::vector<T>> values;
  for (const std::vector<T>& at : inputs)
    values.push_back(ir::evaluate_nodes<T>(program, {at, numbers, numbers, {}, {}}));
  const auto element =
      sizeof(T) == 8 ? runtime::hybrid::Element::f64 : runtime::hybrid::Element::f32;
  std::string out;
  for (ir::Id id = 0; id < program.nodes.size(); ++id) {
    std::vector<T> row;
    for (const std::vector<T>& at : values) row.push_back(at[id]);
    out += "  " + ir::print_node(id, program.nodes[id]) + ": " +
           runtime::hybrid::values_text(element, std::as_bytes(std::span(row)), row.size()) + "\n";
  }
  return out;
}

}  // namespace topograd::ops
