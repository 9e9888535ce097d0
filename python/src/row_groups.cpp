// Columns found again by their contents, and what the elements of an array read.
#include "row_groups.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <queue>
#include <ranges>
#include <string>
#include <unordered_map>
#include <utility>

#include "../../ir/error.hpp"
#include "../../ir/hash.hpp"

namespace topograd::python {
namespace {

/// Four chains, because one would wait for each multiplication.
std::uint64_t hash_of(const Column& column) {
  std::array<std::uint64_t, 4> chains = {column.first, static_cast<std::uint64_t>(column.step), 1,
                                         2};
  const std::vector<Index>& positions = column.positions;
  std::size_t k = 0;
  for (; k + 4 <= positions.size(); k += 4)
    for (std::size_t c = 0; c < 4; ++c) chains[c] = ir::mix64(chains[c] ^ positions[k + c]);
  for (; k < positions.size(); ++k) chains[0] = ir::mix64(chains[0] ^ positions[k]);
  std::uint64_t hash = positions.size();
  for (const std::uint64_t chain : chains) hash = ir::mix64(hash ^ chain);
  return hash;
}

/// Operations of a row, and of rows that share theirs.
constexpr std::size_t kMostSteps = 1'000'000, kMostShared = 8'000'000;
constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
/// Terms for each operation of a row, above which the row has more operations than it may have.
constexpr std::size_t kTermsOfAnOperation = 2;

/// Where steps are in a list of different ones: a hash table with open addressing.
class KnownSteps {
 public:
  /// The place of an equal step of the list, or that of this one, which is added.
  std::uint32_t emplace(const Step& step, std::vector<Step>& list) {
    if (2 * used_ >= slots_.size()) grow(list);
    std::uint32_t& slot = slot_of(step, list);
    if (slot != kFree) return slot;
    slot = static_cast<std::uint32_t>(list.size());
    ++used_;
    list.push_back(step);
    return slot;
  }

 private:
  static constexpr std::uint32_t kFree = ~std::uint32_t{0};

  std::uint32_t& slot_of(const Step& s, const std::vector<Step>& list) {
    const std::uint64_t first = (std::uint64_t{static_cast<std::uint8_t>(s.op)} << 32) | s.a;
    std::size_t at = ir::mix64(first ^ ir::mix64((std::uint64_t{s.b} << 32) | s.c));
    for (at &= slots_.size() - 1; slots_[at] != kFree && !(list[slots_[at]] == s);)
      at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void grow(const std::vector<Step>& list) {
    const std::vector<std::uint32_t> before = std::exchange(
        slots_, std::vector<std::uint32_t>(std::max<std::size_t>(16, 2 * slots_.size()), kFree));
    for (const std::uint32_t number : before)
      if (number != kFree) slot_of(list[number], list) = number;
  }

  std::vector<std::uint32_t> slots_;
  std::size_t used_ = 0;
};

/// The expression of some blocks, or the reason to divide them.
class Expression {
 public:
  Expression(const ArrayGraph& graph, std::size_t blocks) : graph_(graph), columns_(blocks) {}

  /// Follows the blocks' rows down to the leaves. If blocks read different parts of a join, returns
  /// the part of each instead. Stops early, too, with more than `most` terms: is_too_long().
  std::optional<std::vector<Index>> follow(NodeId root, const ResidualRows& blocks,
                                           std::size_t most = kUnlimited);
  bool is_too_long() const { return !open_.empty(); }
  /// Terms of what was followed.
  std::size_t size() const { return terms_.size(); }
  /// Writes the scalar expression of what was followed.
  RowGroup write(const ResidualRows& blocks);

 private:
  /// A node at the positions of a column.
  struct Term {
    NodeId node = 0;
    ColumnId column = 0;
    /// Terms of the operands; of a reduction: the number of its list of terms.
    std::array<std::uint32_t, 3> below = {};
    std::uint32_t step = 0;  ///< that computes it, once it is written
    std::uint32_t run = 1;   ///< open terms from this one on that are the queue's entry for it
  };

  ColumnId operand_column(const View& view, ColumnId column, Index scale = 1, Index shift = 0);
  std::uint32_t ask(NodeId node, ColumnId column);
  std::optional<std::vector<Index>> follow_term(std::uint32_t number);
  std::optional<std::vector<Index>> follow_join(std::uint32_t number);
  std::uint32_t write_term(const Term& term);
  std::uint32_t write_unknowns(Index first, ColumnId column);
  std::uint32_t write_reduction(ir::Op op, const std::vector<std::uint32_t>& terms);
  std::uint32_t step(Step step);
  std::uint32_t write_scalar(double number);
  std::uint32_t write_numbers(const std::vector<double>& numbers, ColumnId column);

  const ArrayGraph& graph_;
  Columns columns_;
  std::vector<Term> terms_;
  NumberMap term_of_;  // by node and column
  std::vector<std::vector<std::uint32_t>> lists_;
  std::priority_queue<std::uint64_t> open_;  // node, and how early its terms were asked for
  std::uint32_t last_run_ = 0;               // the first term of the entry that was made last
  std::vector<std::uint32_t> order_;         // terms, users before operands
  std::vector<std::uint32_t> outputs_;       // terms
  KnownSteps known_;
  RowGroup out_;
};

ColumnId Expression::operand_column(const View& view, ColumnId column, Index scale, Index shift) {
  const ArrayGraph::Node& source = graph_[view.node];
  if (source.kind == ArrayGraph::Kind::scalar) return columns_.add_constant(0);
  const Layout& layout = view.layout;
  const bool same = layout.offset == 0 && layout.shape.size() == 1 && layout.strides[0] == 1;
  if (same && scale == 1 && shift == 0) return column;
  return columns_.through(layout, column, scale, shift);
}

std::uint32_t Expression::ask(NodeId node, ColumnId column) {
  const auto next = static_cast<std::uint32_t>(terms_.size());
  const std::uint32_t number = term_of_.emplace((std::uint64_t{node} << 32) | column, next);
  if (number != next) return number;
  terms_.push_back({.node = node, .column = column});
  if (next > 0 && terms_[last_run_].node == node) {
    ++terms_[last_run_].run;
  } else {
    last_run_ = next;
    open_.push((std::uint64_t{node} << 32) | ~next);
  }
  const bool several_rows = outputs_.size() > 1;  // which share their operations
  if (terms_.size() > (several_rows ? kMostShared : kMostSteps))
    throw Error(ErrorCode::Unsupported,
                several_rows
                    ? "trace: the rows of a block depend on more than eight million operations"
                    : "trace: a row of the result depends on more than a million operations");
  return next;
}

std::optional<std::vector<Index>> Expression::follow(NodeId root, const ResidualRows& blocks,
                                                     std::size_t most) {
  const std::size_t count = blocks.count();
  for (std::size_t k = 0; k < blocks.width; ++k) {
    Column column;
    column.positions.resize(count);
    for (std::size_t b = 0; b < count; ++b) column.positions[b] = blocks.rows[b * blocks.width + k];
    outputs_.push_back(ask(root, columns_.add(std::move(column))));
  }
  while (!open_.empty() && terms_.size() <= most) {
    const auto first = ~static_cast<std::uint32_t>(open_.top());
    open_.pop();
    for (std::uint32_t number = first; number < first + terms_[first].run; ++number) {
      order_.push_back(number);
      if (auto parts = follow_term(number)) return parts;
    }
  }
  return std::nullopt;
}

std::optional<std::vector<Index>> Expression::follow_term(std::uint32_t number) {
  using Kind = ArrayGraph::Kind;
  const Term term = terms_[number];
  const ArrayGraph::Node& node = graph_[term.node];
  switch (node.kind) {
    case Kind::unknowns:
    case Kind::numbers:
    case Kind::scalar: break;
    case Kind::apply:
      for (std::size_t k = 0; k < node.operands.size(); ++k) {
        const View& operand = node.operands[k];
        const std::uint32_t below = ask(operand.node, operand_column(operand, term.column));
        terms_[number].below[k] = below;
      }
      break;
    case Kind::reduce: {
      std::vector<std::uint32_t> list;
      for (std::size_t k = 0; k < node.extent; ++k) {
        const View& operand = node.operands[0];
        list.push_back(
            ask(operand.node, operand_column(operand, term.column, static_cast<Index>(node.extent),
                                             static_cast<Index>(k))));
      }
      terms_[number].below[0] = static_cast<std::uint32_t>(lists_.size());
      lists_.push_back(std::move(list));
      break;
    }
    case Kind::gather: {
      const ColumnId column = columns_.in_list(node.positions(), term.column);
      const std::uint32_t below = ask(node.operands[0].node, column);
      terms_[number].below[0] = below;
      break;
    }
    case Kind::join: return follow_join(number);
  }
  return std::nullopt;
}

std::optional<std::vector<Index>> Expression::follow_join(std::uint32_t number) {
  const ArrayGraph::Node& node = graph_[terms_[number].node];
  const ColumnId column = terms_[number].column;
  const Column& from = columns_[column];
  const Index part = node.parts()[from[0]];
  const std::size_t rows = from.is_constant() ? 1 : columns_.rows();
  for (std::size_t row = 1; row < rows; ++row) {
    if (node.parts()[from[row]] == part) continue;
    std::vector<Index> parts(rows);
    for (std::size_t k = 0; k < rows; ++k) parts[k] = node.parts()[from[k]];
    return parts;
  }
  const NodeId source = node.operands[part].node;
  const bool is_scalar = graph_[source].kind == ArrayGraph::Kind::scalar;
  const std::uint32_t below = ask(
      source, is_scalar ? columns_.add_constant(0) : columns_.in_list(node.positions(), column));
  terms_[number].below[0] = below;
  return std::nullopt;
}

RowGroup Expression::write(const ResidualRows& blocks) {
  for (std::size_t k = order_.size(); k-- > 0;) {
    Term& term = terms_[order_[k]];
    term.step = write_term(term);
  }
  for (const std::uint32_t output : outputs_) out_.outputs.push_back(terms_[output].step);
  out_.rows = blocks.rows;
  return std::move(out_);
}

std::uint32_t Expression::write_term(const Term& term) {
  using Kind = ArrayGraph::Kind;
  const ArrayGraph::Node& node = graph_[term.node];
  switch (node.kind) {
    case Kind::unknowns: return write_unknowns(node.first, term.column);
    case Kind::numbers: return write_numbers(node.numbers(), term.column);
    case Kind::scalar: return write_scalar(node.number);
    case Kind::apply: {
      Step made{.op = node.op};
      made.a = terms_[term.below[0]].step;
      if (node.operands.size() > 1) made.b = terms_[term.below[1]].step;
      if (node.operands.size() > 2) made.c = terms_[term.below[2]].step;
      return step(made);
    }
    case Kind::reduce: return write_reduction(node.op, lists_[term.below[0]]);
    case Kind::gather:
    case Kind::join: return terms_[term.below[0]].step;
  }
  throw Error(ErrorCode::Internal, "trace: unknown kind of node");
}

std::uint32_t Expression::write_unknowns(Index first, ColumnId column) {
  Column unknowns = columns_[column];
  unknowns.first += unknowns.positions.empty() ? first : 0;
  for (Index& position : unknowns.positions) position += first;
  const auto found = std::ranges::find(out_.unknowns, unknowns);
  const auto leaf = static_cast<std::uint32_t>(found - out_.unknowns.begin());
  if (found == out_.unknowns.end()) out_.unknowns.push_back(std::move(unknowns));
  return step({.op = ir::Op::Parameter, .a = leaf});
}

/// Neighbours first, as a tree: sums of many terms stay accurate, and shallow.
std::uint32_t Expression::write_reduction(ir::Op op, const std::vector<std::uint32_t>& terms) {
  std::vector<std::uint32_t> level;
  for (const std::uint32_t term : terms) level.push_back(terms_[term].step);
  while (level.size() > 1) {
    std::vector<std::uint32_t> next;
    for (std::size_t k = 0; k + 1 < level.size(); k += 2)
      next.push_back(step({.op = op, .a = level[k], .b = level[k + 1]}));
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = std::move(next);
  }
  return level[0];
}

std::uint32_t Expression::step(Step made) { return known_.emplace(made, out_.steps); }

std::uint32_t Expression::write_scalar(double number) {
  out_.data.push_back({{}, number, true});
  out_.steps.push_back({.op = ir::Op::Data, .a = static_cast<std::uint32_t>(out_.data.size() - 1)});
  return static_cast<std::uint32_t>(out_.steps.size() - 1);
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
std::vector<ResidualRows> divided(const ResidualRows& blocks, const std::vector<Index>& parts) {
  std::vector<ResidualRows> out;
  std::unordered_map<Index, std::size_t> index_of_part;
  for (std::size_t begin = 0; begin < blocks.count();) {
    std::size_t end = begin + 1;
    while (end < blocks.count() && parts[end] == parts[begin]) ++end;
    const auto [at, is_new] = index_of_part.emplace(parts[begin], out.size());
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

/// True if later rows have ever more operations, as the states of a long loop do, so that all rows
/// together have more than `most`: a few of them say so, before all are followed.
bool is_chain(const ArrayGraph& graph, NodeId root, const std::vector<ResidualRows>& rows,
              std::size_t most) {
  constexpr std::size_t kLeast = 32, kMostLast = 128;
  if (rows.size() < kLeast || rows[0].width != 1) return false;
  const std::size_t last = std::min(kMostLast, rows.size() / 2);
  std::size_t before = 0;
  for (std::size_t k = last / 8; k <= last; k *= 2) {
    Expression one(graph, 1);
    if (one.follow(root, {1, {rows[k].rows[0]}})) return false;
    if (2 * one.size() < 3 * before) return false;
    before = one.size();
  }
  return before * (rows.size() / last) * rows.size() / 2 > most;
}

/// Throws Error{Unsupported} for more operations than the graph may have, after `groups` rows.
void require_few(const ArrayGraph& graph, std::size_t operations, std::size_t groups) {
  if (operations <= graph.most_operations) return;
  throw Error(ErrorCode::Unsupported,
              "trace: the rows have more than " + std::to_string(graph.most_operations) +
                  " different operations, after " + std::to_string(groups) + " different rows");
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

void Column::simplify() {
  if (positions.empty()) return;
  const std::int64_t begin = positions[0];
  const std::int64_t difference = positions.size() > 1 ? positions[1] - begin : 0;
  std::int64_t next = begin;
  for (const Index position : positions) {
    if (position != next) return;
    next += difference;
  }
  *this = {{}, static_cast<Index>(begin), difference};
}

void Column::append(std::size_t rows, const Column& more, std::size_t count) {
  if (positions.empty() && more.positions.empty()) {
    const std::int64_t difference = rows > 1 ? step : std::int64_t{more.first} - first;
    const bool continues =
        more.first == std::int64_t{first} + static_cast<std::int64_t>(rows) * difference;
    if (continues && (count == 1 || more.step == difference)) {
      step = difference;
      return;
    }
  }
  if (positions.empty()) {
    positions.resize(rows);
    for (std::size_t k = 0; k < rows; ++k) positions[k] = element(k);
    first = 0;
    step = 0;
  }
  for (std::size_t k = 0; k < count; ++k) positions.push_back(more[k]);
}

NumberMap::Slot& NumberMap::slot_of(std::uint64_t key) {
  std::size_t at = ir::mix64(key) & (slots_.size() - 1);
  while (slots_[at].key != key && slots_[at].key != ~std::uint64_t{0})
    at = (at + 1) & (slots_.size() - 1);
  return slots_[at];
}

void NumberMap::grow() {
  const std::vector<Slot> before =
      std::exchange(slots_, std::vector<Slot>(std::max<std::size_t>(16, 2 * slots_.size())));
  for (const Slot& slot : before)
    if (slot.key != ~std::uint64_t{0}) slot_of(slot.key) = slot;
}

std::uint32_t NumberMap::emplace(std::uint64_t key, std::uint32_t number) {
  if (2 * used_ >= slots_.size()) grow();
  Slot& slot = slot_of(key);
  if (slot.key == key) return slot.number;
  slot = {key, number};
  ++used_;
  return number;
}

ColumnId Columns::add(Column column) {
  column.simplify();
  if (rows_ == 1) column.step = 0;
  if (column.is_constant()) return add_constant(column.first);
  const std::uint64_t hash = hash_of(column);
  for (auto [at, end] = by_hash_.equal_range(hash); at != end; ++at)
    if (columns_[at->second] == column) return at->second;
  const auto id = static_cast<ColumnId>(columns_.size());
  by_hash_.emplace(hash, id);
  columns_.push_back(std::move(column));
  return id;
}

ColumnId Columns::add_constant(Index position) {
  const auto next = static_cast<ColumnId>(columns_.size());
  const ColumnId id = constants_.emplace(position, next);
  if (id == next) columns_.push_back(Column::constant(position));
  return id;
}

ColumnId Columns::through(const Layout& view, ColumnId column, Index scale, Index shift) {
  const Column& from = columns_[column];
  const auto number = [&](Index p) { return std::uint64_t{p} * scale + shift; };
  if (view.shape.empty()) return add_constant(static_cast<Index>(view.offset));
  if (from.is_constant()) return add_constant(view.element(number(from.first)));
  const bool in_line = view.shape.size() == 1;
  const std::int64_t stride = in_line ? view.strides[0] : 0;
  const auto in_view = [&](Index p) {
    return static_cast<Index>(view.offset + static_cast<std::int64_t>(number(p)) * stride);
  };
  if (in_line && from.positions.empty())
    return add({{}, in_view(from.first), from.step * scale * stride});
  Column to;
  to.positions.resize(rows_);
  for (std::size_t k = 0; k < rows_; ++k)
    to.positions[k] = in_line ? in_view(from[k]) : view.element(number(from[k]));
  return add(std::move(to));
}

ColumnId Columns::in_list(const std::vector<Index>& list, ColumnId column) {
  const Column& from = columns_[column];
  if (from.is_constant()) return add_constant(list[from.first]);
  Column to;
  to.positions.resize(rows_);
  for (std::size_t k = 0; k < rows_; ++k) to.positions[k] = list[from[k]];
  return add(std::move(to));
}

bool DataColumn::is_literal() const {
  return from_text && values.empty() && std::isfinite(constant) &&
         std::trunc(2 * constant) == 2 * constant;
}

std::vector<RowGroup> group_rows(const ArrayGraph& graph, NodeId root, const ResidualRows& blocks) {
  return *group_rows_within(graph, root, blocks, kUnlimited);
}

std::optional<std::vector<RowGroup>> group_rows_within(const ArrayGraph& graph, NodeId root,
                                                       const ResidualRows& blocks,
                                                       std::size_t most) {
  std::vector<RowGroup> groups;
  std::unordered_map<std::string, std::size_t> by_structure;
  std::vector<ResidualRows> open = {blocks};
  std::size_t operations = 0;
  // Terms of equal operations are one operation.
  const std::size_t most_terms = most <= kMostSteps ? kTermsOfAnOperation * most : kUnlimited;
  while (!open.empty()) {
    const ResidualRows next = std::move(open.back());
    open.pop_back();
    if (next.rows.empty()) continue;
    Expression expression(graph, next.count());
    if (const auto parts = expression.follow(root, next, most_terms)) {
      std::vector<ResidualRows> smaller = divided(next, *parts);
      const bool is_first = groups.empty() && open.empty();
      if (is_first && most < kMostSteps && is_chain(graph, root, smaller, most))
        return std::nullopt;
      std::ranges::move(std::views::reverse(smaller), std::back_inserter(open));
      continue;
    }
    if (expression.is_too_long()) return std::nullopt;
    RowGroup group = expression.write(next);
    if (groups.empty() && open.empty() &&
        group.steps.size() <= std::min(most, graph.most_operations)) {
      groups.push_back(std::move(group));  // the only one
      break;
    }
    const auto [known, is_new] = by_structure.emplace(structure_of(group), groups.size());
    if (!is_new) {
      append(groups[known->second], group);
      continue;
    }
    operations += group.steps.size();
    if (operations > most) return std::nullopt;
    if (blocks.width == 1) require_few(graph, operations, groups.size());
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace topograd::python
