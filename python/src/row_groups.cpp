// Follows columns of positions from an array to the unknowns and numbers that its elements read.
#include "row_groups.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace topograd::python {
namespace {

constexpr std::size_t kMostSteps = 1'000'000;

/// A node at the positions of a column.
std::uint64_t key_of(NodeId node, ColumnId column) { return (std::uint64_t{node} << 32) | column; }

/// The expression of some blocks, or the reason to divide them.
class Expression {
 public:
  Expression(const ArrayGraph& graph, std::size_t blocks) : graph_(graph), columns_(blocks) {}

  /// Follows the blocks' rows down to the leaves. If blocks read different parts of a join, returns
  /// the part of each instead.
  std::optional<std::vector<Index>> follow(NodeId root, const BlockRows& blocks);
  /// Writes the scalar expression of what was followed.
  RowGroup write(NodeId root, const BlockRows& blocks);

 private:
  ColumnId operand_column(const View& view, ColumnId column, Index scale = 1, Index shift = 0);
  void ask(NodeId node, ColumnId column);
  std::optional<std::vector<Index>> follow_node(NodeId id, ColumnId column);
  std::uint32_t write_node(NodeId id, ColumnId column);
  std::uint32_t step(Step step);
  std::uint32_t write_scalar(double number);
  std::uint32_t write_numbers(const std::vector<double>& numbers, ColumnId column);
  std::uint32_t at(NodeId node, ColumnId column) const { return written_.at(key_of(node, column)); }

  const ArrayGraph& graph_;
  Columns columns_;
  std::vector<ColumnId> output_columns_;
  std::map<NodeId, std::vector<ColumnId>, std::greater<>> open_;
  std::vector<std::uint64_t> order_;                                   // users before operands
  std::unordered_map<std::uint64_t, std::vector<ColumnId>> operands_;  // of a node at a column
  std::unordered_map<std::uint64_t, std::uint32_t> written_;           // step of a node at a column
  std::map<std::array<std::uint32_t, 4>, std::uint32_t> known_;        // steps
  RowGroup out_;
};

ColumnId Expression::operand_column(const View& view, ColumnId column, Index scale, Index shift) {
  const ArrayGraph::Node& source = graph_[view.node];
  if (source.kind == ArrayGraph::Kind::scalar) return columns_.add(Column::constant(0));
  const Layout& layout = view.layout;
  const bool same = layout.offset == 0 && layout.shape.size() == 1 && layout.strides[0] == 1;
  if (same && scale == 1 && shift == 0) return column;
  return columns_.through(layout, column, scale, shift);
}

void Expression::ask(NodeId node, ColumnId column) {
  std::vector<ColumnId>& asked = open_[node];
  if (asked.size() < 8 && std::ranges::find(asked, column) != asked.end()) return;
  if (!operands_.emplace(key_of(node, column), std::vector<ColumnId>()).second) return;
  asked.push_back(column);
  if (operands_.size() > kMostSteps)
    throw Error(ErrorCode::Unsupported,
                "trace: a row of the result depends on more than a million operations");
}

std::optional<std::vector<Index>> Expression::follow(NodeId root, const BlockRows& blocks) {
  const std::size_t count = blocks.count();
  for (std::size_t k = 0; k < blocks.width; ++k) {
    Column column;
    column.positions.resize(count);
    for (std::size_t b = 0; b < count; ++b) column.positions[b] = blocks.rows[b * blocks.width + k];
    output_columns_.push_back(columns_.add(std::move(column)));
    ask(root, output_columns_.back());
  }
  while (!open_.empty()) {
    const auto [id, asked] = std::move(*open_.begin());
    open_.erase(open_.begin());
    for (const ColumnId column : asked) {
      order_.push_back(key_of(id, column));
      if (auto parts = follow_node(id, column)) return parts;
    }
  }
  return std::nullopt;
}

std::optional<std::vector<Index>> Expression::follow_node(NodeId id, ColumnId column) {
  using Kind = ArrayGraph::Kind;
  const ArrayGraph::Node& node = graph_[id];
  std::vector<ColumnId> below;
  const auto gathered = [&] { return columns_.in_list(node.positions, column); };
  switch (node.kind) {
    case Kind::unknowns:
    case Kind::numbers:
    case Kind::scalar: return std::nullopt;
    case Kind::apply:
      for (const View& operand : node.operands) below.push_back(operand_column(operand, column));
      for (std::size_t k = 0; k < below.size(); ++k) ask(node.operands[k].node, below[k]);
      break;
    case Kind::reduce:
      for (std::size_t k = 0; k < node.extent; ++k) {
        below.push_back(operand_column(node.operands[0], column, static_cast<Index>(node.extent),
                                       static_cast<Index>(k)));
        ask(node.operands[0].node, below.back());
      }
      break;
    case Kind::gather:
      below.push_back(gathered());
      ask(node.operands[0].node, below[0]);
      break;
    case Kind::join: {
      const Column& from = columns_[column];
      const Index part = node.parts[from[0]];
      const std::size_t rows = from.is_constant() ? 1 : columns_.rows();
      for (std::size_t row = 1; row < rows; ++row) {
        if (node.parts[from[row]] == part) continue;
        std::vector<Index> parts(rows);
        for (std::size_t k = 0; k < rows; ++k) parts[k] = node.parts[from[k]];
        return parts;
      }
      const bool is_scalar = graph_[node.operands[part].node].kind == Kind::scalar;
      below.push_back(is_scalar ? columns_.add(Column::constant(0)) : gathered());
      ask(node.operands[part].node, below[0]);
      below.push_back(part);
      break;
    }
  }
  operands_[key_of(id, column)] = std::move(below);
  return std::nullopt;
}

RowGroup Expression::write(NodeId root, const BlockRows& blocks) {
  for (std::size_t k = order_.size(); k-- > 0;) {
    const auto id = static_cast<NodeId>(order_[k] >> 32);
    const auto column = static_cast<ColumnId>(order_[k]);
    written_[order_[k]] = write_node(id, column);
  }
  for (const ColumnId column : output_columns_) out_.outputs.push_back(at(root, column));
  out_.rows = blocks.rows;
  return std::move(out_);
}

std::uint32_t Expression::write_node(NodeId id, ColumnId column) {
  using Kind = ArrayGraph::Kind;
  const ArrayGraph::Node& node = graph_[id];
  const std::vector<ColumnId>& below = operands_.at(key_of(id, column));
  switch (node.kind) {
    case Kind::unknowns: {
      Column unknowns = columns_[column];
      unknowns.first += unknowns.positions.empty() ? node.first : 0;
      for (Index& position : unknowns.positions) position += node.first;
      const auto found = std::ranges::find(out_.unknowns, unknowns);
      const auto leaf = static_cast<std::uint32_t>(found - out_.unknowns.begin());
      if (found == out_.unknowns.end()) out_.unknowns.push_back(std::move(unknowns));
      return step({.op = ir::Op::Parameter, .a = leaf});
    }
    case Kind::numbers: return write_numbers(node.numbers, column);
    case Kind::scalar: return write_scalar(node.number);
    case Kind::apply: {
      Step made{.op = node.op};
      made.a = at(node.operands[0].node, below[0]);
      if (below.size() > 1) made.b = at(node.operands[1].node, below[1]);
      if (below.size() > 2) made.c = at(node.operands[2].node, below[2]);
      return step(made);
    }
    case Kind::reduce: {
      // Neighbours first, as a tree: sums of many terms stay accurate, and shallow.
      std::vector<std::uint32_t> level;
      for (const ColumnId term : below) level.push_back(at(node.operands[0].node, term));
      while (level.size() > 1) {
        std::vector<std::uint32_t> next;
        for (std::size_t k = 0; k + 1 < level.size(); k += 2)
          next.push_back(step({.op = node.op, .a = level[k], .b = level[k + 1]}));
        if (level.size() % 2 == 1) next.push_back(level.back());
        level = std::move(next);
      }
      return level[0];
    }
    case Kind::gather: return at(node.operands[0].node, below[0]);
    case Kind::join: return at(node.operands[below[1]].node, below[0]);
  }
  throw Error(ErrorCode::Internal, "trace: unknown kind of node");
}

std::uint32_t Expression::step(Step made) {
  const std::array<std::uint32_t, 4> key = {static_cast<std::uint32_t>(made.op), made.a, made.b,
                                            made.c};
  const auto [known, is_new] = known_.emplace(key, static_cast<std::uint32_t>(out_.steps.size()));
  if (is_new) out_.steps.push_back(made);
  return known->second;
}

std::uint32_t Expression::write_scalar(double number) {
  out_.data.push_back({{}, number, true});
  return step({.op = ir::Op::Data, .a = static_cast<std::uint32_t>(out_.data.size() - 1)});
}

std::uint32_t Expression::write_numbers(const std::vector<double>& numbers, ColumnId column) {
  const Column& from = columns_[column];
  DataColumn data;
  if (from.is_constant()) {
    data.constant = numbers[from.first];
  } else if (from.positions.empty() && from.step == 1) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(from.first);
    data.values.assign(begin, begin + static_cast<std::ptrdiff_t>(columns_.rows()));
  } else {
    data.values.resize(columns_.rows());
    for (std::size_t k = 0; k < columns_.rows(); ++k) data.values[k] = numbers[from[k]];
  }
  out_.data.push_back(std::move(data));
  return step({.op = ir::Op::Data, .a = static_cast<std::uint32_t>(out_.data.size() - 1)});
}

/// The blocks with each part, in the order in which the parts first appear.
std::vector<BlockRows> divided(const BlockRows& blocks, const std::vector<Index>& parts) {
  std::vector<BlockRows> out;
  std::unordered_map<Index, std::size_t> place;
  for (std::size_t begin = 0; begin < blocks.count();) {
    std::size_t end = begin + 1;
    while (end < blocks.count() && parts[end] == parts[begin]) ++end;
    const auto [at, is_new] = place.emplace(parts[begin], out.size());
    if (is_new) out.push_back({blocks.width, {}});
    std::vector<Index>& rows = out[at->second].rows;
    const auto first = blocks.rows.begin();
    rows.insert(rows.end(), first + static_cast<std::ptrdiff_t>(begin * blocks.width),
                first + static_cast<std::ptrdiff_t>(end * blocks.width));
    begin = end;
  }
  return out;
}

std::string structure_of(const RowGroup& group) {
  std::string text;
  const auto put = [&](auto number) {
    text.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  for (const Step& s : group.steps) {
    put(s.op);
    put(s.a);
    put(s.b);
    put(s.c);
  }
  for (const DataColumn& column : group.data) put(column.from_text);
  for (const std::uint32_t output : group.outputs) put(output);
  return text;
}

void append(DataColumn& to, std::size_t before, const DataColumn& from, std::size_t count) {
  const bool same =
      to.values.empty() && from.values.empty() &&
      std::bit_cast<std::uint64_t>(to.constant) == std::bit_cast<std::uint64_t>(from.constant);
  if (same) return;
  if (to.values.empty()) to.values.assign(before, to.constant);
  if (from.values.empty())
    to.values.insert(to.values.end(), count, from.constant);
  else
    to.values.insert(to.values.end(), from.values.begin(), from.values.end());
}

void append(RowGroup& to, const RowGroup& from) {
  const std::size_t before = to.count(), count = from.count();
  for (std::size_t k = 0; k < to.unknowns.size(); ++k)
    to.unknowns[k].append(before, from.unknowns[k], count);
  for (std::size_t k = 0; k < to.data.size(); ++k) append(to.data[k], before, from.data[k], count);
  to.rows.insert(to.rows.end(), from.rows.begin(), from.rows.end());
}

}  // namespace

bool DataColumn::is_literal() const {
  return from_text && values.empty() && std::isfinite(constant) &&
         std::trunc(2 * constant) == 2 * constant;
}

std::vector<RowGroup> group_rows(const ArrayGraph& graph, NodeId root, const BlockRows& blocks) {
  return *group_rows_within(graph, root, blocks, std::numeric_limits<std::size_t>::max());
}

std::optional<std::vector<RowGroup>> group_rows_within(const ArrayGraph& graph, NodeId root,
                                                       const BlockRows& blocks, std::size_t most) {
  std::vector<RowGroup> groups;
  std::unordered_map<std::string, std::size_t> by_structure;
  std::vector<BlockRows> open = {blocks};
  std::size_t operations = 0;
  while (!open.empty()) {
    const BlockRows next = std::move(open.back());
    open.pop_back();
    if (next.rows.empty()) continue;
    Expression expression(graph, next.count());
    if (const auto parts = expression.follow(root, next)) {
      std::vector<BlockRows> smaller = divided(next, *parts);
      for (std::size_t k = smaller.size(); k-- > 0;) open.push_back(std::move(smaller[k]));
      continue;
    }
    RowGroup group = expression.write(root, next);
    const auto [known, is_new] = by_structure.emplace(structure_of(group), groups.size());
    operations += is_new ? group.steps.size() : 0;
    if (operations > most) return std::nullopt;
    if (blocks.width == 1 && operations > graph.most_operations)
      throw Error(ErrorCode::Unsupported, "trace: the rows have more than " +
                                              std::to_string(graph.most_operations) +
                                              " different operations, after " +
                                              std::to_string(groups.size()) + " different rows");
    if (is_new)
      groups.push_back(std::move(group));
    else
      append(groups[known->second], group);
  }
  return groups;
}

}  // namespace topograd::python
