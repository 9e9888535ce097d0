// Model: a Problem of NumPy arrays whose rows keep the order of traced arrays, and its blocks.
#pragma once

#include "../../frontend/problem.hpp"
#include "add_rows.hpp"
#include "array_graph.hpp"
#include "row_groups.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd::python {

/// Unknowns first ... first + width * count - 1 of x: `count` blocks of `width`.
struct UnknownArray {
  Index first = 0;
  Index width = 1;
  Index count = 0;
  Index end() const { return first + width * count; }
};

/// Divides x into arrays: those in `proposed` that do not meet an earlier one, and blocks of one
/// unknown for what lies between. In the order of x.
std::vector<UnknownArray> divide_unknowns(std::vector<UnknownArray> proposed, Index unknowns);

/// For each unknown: the number of its array.
std::vector<std::uint32_t> arrays_by_unknown(const std::vector<UnknownArray>& arrays,
                                             Index unknowns);

/// Joins rows that follow one another and read the same blocks, such as the two coordinates of an
/// image point, to residual blocks, which share their sub-expressions. A row that differs from
/// another one of its block in numbers alone begins a new block: a curve's points are single rows.
/// Blocks have at most eight rows. One element for each size of block; none if all rows are single.
///
///   rows  number of rows; each is in one group, as a block of one row
std::vector<ResidualRows> join_rows(const std::vector<RowGroup>& groups, std::size_t rows,
                                    const std::vector<UnknownArray>& arrays, Index unknowns);

/// Joins the rows that unknowns connect, directly or by other rows: those of one trajectory, if
/// many are simulated side by side. Rows without unknowns are single rows. One element for each
/// size of block; none if fewer than `least` blocks have several rows.
///
/// Cost: linear in the elements of the nodes that the rows read.
std::vector<ResidualRows> join_connected_rows(const ArrayGraph& graph, NodeId root, Index unknowns,
                                              std::size_t least);

/// Blocks of one call: their maps, and the rows that they have.
struct AddedBlocks {
  std::vector<Residuals> maps;
  std::size_t rows = 0;        ///< scalar rows, or energies or constraints
  std::size_t first = 0;       ///< of constraints: the number of the first one
  std::size_t topologies = 0;  ///< of the problem, after the call
};

/// Rows of one call that share what they have in common, and are evaluated node by node.
struct SharingRows {
  std::size_t rows = 0, operations = 0, unknowns = 0;  ///< operations of all rows together
};

/// How far residuals are from given numbers. NaN counts as infinite.
struct Deviation {
  double largest = 0;     ///< of |given number|
  double difference = 0;  ///< largest of |residual - given number|
};

/// A problem, its arrays of unknowns, and the order in which Python sees its rows.
class Model {
 public:
  /// Adds unknowns; the memory must outlive the model.
  std::size_t add_parameters(std::span<double> values, int width, std::string_view name);
  /// Adds numbers that can be set later; returns the number of the array. They are leaves
  /// kFirstDatum + first ... of a graph.
  std::size_t add_data(std::span<const double> values, std::string_view name);
  /// Adds one block for each `width` elements of the traced array, which follow one another. Rows
  /// of residuals without unknowns are left out; see constant_rows(). Throws Error{NoParameters}
  /// for such rows of constraints.
  AddedBlocks add_blocks(const ArrayGraph& graph, NodeId root, std::size_t width,
                         const AddOptions& options);

  Problem& problem() { return problem_; }
  const std::vector<Parameters>& arrays() const { return arrays_; }
  const std::vector<Data>& data() const { return data_; }
  std::size_t row_count() const { return rows_; }

  /// Residuals in the order of the traced arrays, from those in the order of the problem.
  std::vector<double> in_order(std::span<const double> residuals) const;
  /// Residuals in the order of the problem against row_count() numbers in that of the traced
  /// arrays.
  Deviation deviation(std::span<const double> residuals, std::span<const double> given) const;
  /// For each row of the problem: its number in the order of the traced arrays.
  const std::vector<std::size_t>& order() const { return order_; }
  /// Numbers of scalar constraints in the order of the traced arrays, from those in the order of
  /// the problem. Throws Error{InvalidArgument} if these are not as many.
  std::vector<double> constraints_in_order(std::span<const double> numbers) const;
  /// Calls whose rows are evaluated node by node.
  const std::vector<SharingRows>& sharing() const { return sharing_; }
  /// Rows without unknowns, with their numbers.
  const std::vector<std::pair<std::size_t, double>>& constant_rows() const { return constants_; }

 private:
  friend std::unique_ptr<Model> model_of(const ArrayGraph&, NodeId, std::span<double>,
                                         const std::vector<UnknownArray>&, const Loss&, bool,
                                         const std::vector<NodeId>&);
  /// Adds the unknowns of x and the rows of a function of them.
  void add_rows_of(const ArrayGraph& graph, NodeId root, std::span<double> x,
                   const std::vector<UnknownArray>& proposed, const Loss& loss, bool joins_rows);
  /// Rows that read no unknown. Throws Error{NoParameters} for an energy that is not 0.
  void add_constants(const RowGroup& group, BlockKind kind);
  /// Adds residual blocks of `width` rows that share what they have in common.
  void add_sharing_blocks(const ArrayGraph& graph, NodeId root, std::size_t width,
                          const AddOptions& options, AddedBlocks& added);
  /// The same for a graph that is evaluated array by array; false, and nothing is added, if it is
  /// none.
  bool add_array_blocks(const ArrayGraph& graph, NodeId root, std::size_t width,
                        const AddOptions& options, AddedBlocks& added);
  std::size_t unknown_count() const;
  void add_groups(const std::vector<RowGroup>& groups, const AddOptions& options,
                  AddedBlocks& added);

  Problem problem_;
  std::vector<Parameters> arrays_;
  std::vector<Data> data_;
  std::vector<std::size_t> order_, constraint_order_;
  std::vector<std::pair<std::size_t, double>> constants_;
  std::vector<SharingRows> sharing_;
  std::size_t rows_ = 0;         // of residuals
  std::size_t constraints_ = 0;  // scalar ones
};

/// The model of a function of one vector, whose blocks of unknowns and of rows are found.
///
///   root        the traced result; its rows read unknowns 0 ... x.size() - 1
///   x           start; the memory must outlive the model
///   proposed    arrays of blocks that the function made by reshaping x
///   joins_rows  false if each row has a loss of its own
///   data        nodes of numbers that become arrays of data() of the model, in this order
std::unique_ptr<Model> model_of(const ArrayGraph& graph, NodeId root, std::span<double> x,
                                const std::vector<UnknownArray>& proposed, const Loss& loss,
                                bool joins_rows, const std::vector<NodeId>& data = {});

}  // namespace topograd::python
