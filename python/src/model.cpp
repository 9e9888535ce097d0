// Blocks of unknowns and of rows in the shapes of a function; problems made of traced arrays.
#include "model.hpp"

#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "../../ir/hash.hpp"
#include "array_sweep.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace topograd::python {
namespace {

constexpr std::size_t kLongestRun = 8;

/// For each row: a hash of the set of blocks that it reads.
std::vector<std::uint64_t> blocks_of(const std::vector<RowGroup>& groups, std::size_t rows,
                                     const std::vector<UnknownArray>& arrays, Index unknowns) {
  const bool alone = arrays.size() == 1 && arrays[0].width == 1;  // each unknown is a block
  const std::vector<std::uint32_t> array_of =
      alone ? std::vector<std::uint32_t>() : arrays_by_unknown(arrays, unknowns);
  const auto block_of = [&](Index unknown) -> std::uint64_t {
    if (alone) return unknown;
    const UnknownArray& array = arrays[array_of[unknown]];
    return array.first + (unknown - array.first) / array.width * array.width;
  };
  std::vector<std::uint64_t> hashes(rows);
  std::vector<std::uint64_t> read;
  for (const RowGroup& group : groups) {
    for (std::size_t b = 0; b < group.rows.size(); ++b) {
      read.clear();
      for (const Column& column : group.unknowns) {
        if (is_datum(column[b])) continue;
        const std::uint64_t block = block_of(column[b]);
        if (read.empty() || read.back() != block) read.push_back(block);
      }
      std::ranges::sort(read);
      read.erase(std::unique(read.begin(), read.end()), read.end());
      std::uint64_t hash = read.size();
      for (const std::uint64_t block : read) hash = ir::mix64(hash ^ ir::mix64(block + 1));
      hashes[group.rows[b]] = hash;
    }
  }
  return hashes;
}

/// For each row: a hash of the expression and of the unknowns.
std::vector<std::uint64_t> kinds_of(const std::vector<RowGroup>& groups, std::size_t rows) {
  std::vector<std::uint64_t> kinds(rows);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const RowGroup& group = groups[g];
    for (std::size_t b = 0; b < group.rows.size(); ++b) {
      std::uint64_t kind = ir::mix64(g);
      for (const Column& column : group.unknowns)
        if (!is_datum(column[b])) kind = ir::mix64(kind ^ column[b]);
      kinds[group.rows[b]] = kind;
    }
  }
  return kinds;
}

/// Number of rows from `begin` on that make one block: rows of different kinds. If more rows read
/// the same blocks than a block should have, each is a block of its own.
std::size_t piece_of(const std::vector<std::uint64_t>& kinds, std::size_t begin, std::size_t end) {
  const auto first = kinds.begin() + static_cast<std::ptrdiff_t>(begin);
  std::size_t piece = 1;
  while (begin + piece < end && piece <= kLongestRun &&
         std::find(first, first + static_cast<std::ptrdiff_t>(piece), kinds[begin + piece]) ==
             first + static_cast<std::ptrdiff_t>(piece))
    ++piece;
  return piece <= kLongestRun ? piece : 1;
}

constexpr Index kNone = std::numeric_limits<Index>::max();

/// Sets of unknowns that are connected, each with one of them as its name.
class Connected {
 public:
  explicit Connected(Index unknowns) : parent_(unknowns) {
    std::iota(parent_.begin(), parent_.end(), Index{0});
  }

  Index name(Index unknown) {
    while (parent_[unknown] != unknown) unknown = parent_[unknown] = parent_[parent_[unknown]];
    return unknown;
  }
  /// Either may be kNone: no unknown.
  Index join(Index a, Index b) {
    if (a == kNone || a == b) return b;
    if (b == kNone) return a;
    a = name(a), b = name(b);
    return parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<Index> parent_;
};

/// For each element of each node that a root needs: an unknown of its set.
class ConnectedElements {
 public:
  ConnectedElements(const ArrayGraph& graph, NodeId root, Index unknowns)
      : graph_(graph), sets_(unknowns), last_reader_(root + 1, 0), labels_(root + 1) {
    last_reader_[root] = root + 1;
    for (NodeId id = root + 1; id-- > 0;)
      if (last_reader_[id] != 0)
        for (const View& view : graph[id].operands)
          last_reader_[view.node] = std::max(last_reader_[view.node], id);
    for (NodeId id = 0; id <= root; ++id) {
      if (last_reader_[id] == 0) continue;
      label(id);
      for (const View& view : graph[id].operands)
        if (last_reader_[view.node] == id) labels_[view.node] = {};
    }
  }

  /// The set of an element of the root.
  Index of_row(Index row) {
    const std::vector<Index>& labels = labels_.back();
    return labels.empty() || labels[row] == kNone ? kNone : sets_.name(labels[row]);
  }

 private:
  Index at(NodeId node, std::size_t element) const {
    return labels_[node].empty() ? kNone : labels_[node][element];
  }

  void label(NodeId id) {
    using Kind = ArrayGraph::Kind;
    const ArrayGraph::Node& node = graph_[id];
    const auto reads = [&](const View& view) { return !labels_[view.node].empty(); };
    const bool is_leaf = node.kind == Kind::unknowns && !is_datum(node.first);
    if (!is_leaf && !std::ranges::any_of(node.operands, reads)) return;  // empty: no unknowns
    std::vector<Index> labels(node.size, kNone);
    const std::vector<Index>&parts = node.parts(), &positions = node.positions();
    for (std::size_t e = 0; e < node.size; ++e) {
      switch (node.kind) {
        case Kind::unknowns: labels[e] = node.first + static_cast<Index>(e); break;
        case Kind::numbers:
        case Kind::scalar: break;
        case Kind::gather: labels[e] = at(node.operands[0].node, positions[e]); break;
        case Kind::join: labels[e] = at(node.operands[parts[e]].node, positions[e]); break;
        case Kind::apply:
        case Kind::reduce:
          for (const View& view : node.operands)
            for (std::size_t k = 0; reads(view) && k < node.extent; ++k)
              labels[e] =
                  sets_.join(labels[e], at(view.node, view.layout.element(e * node.extent + k)));
      }
    }
    labels_[id] = std::move(labels);
  }

  const ArrayGraph& graph_;
  Connected sets_;
  std::vector<NodeId> last_reader_;         // 0: nothing that the root needs reads the node
  std::vector<std::vector<Index>> labels_;  // empty: no element has unknowns
};

}  // namespace

std::vector<UnknownArray> divide_unknowns(std::vector<UnknownArray> proposed, Index unknowns) {
  std::vector<UnknownArray> taken;
  for (const UnknownArray& array : proposed) {
    const bool meets = std::ranges::any_of(taken, [&](const UnknownArray& other) {
      return array.first < other.end() && other.first < array.end();
    });
    if (!meets && array.end() <= unknowns && array.count > 0) taken.push_back(array);
  }
  std::ranges::sort(taken, {}, &UnknownArray::first);
  std::vector<UnknownArray> out;
  Index at = 0;
  for (const UnknownArray& array : taken) {
    if (at < array.first) out.push_back({at, 1, array.first - at});
    out.push_back(array);
    at = array.end();
  }
  if (at < unknowns) out.push_back({at, 1, unknowns - at});
  return out;
}

std::vector<std::uint32_t> arrays_by_unknown(const std::vector<UnknownArray>& arrays,
                                             Index unknowns) {
  std::vector<std::uint32_t> out(unknowns);
  for (std::size_t a = 0; a < arrays.size(); ++a)
    std::fill(out.begin() + arrays[a].first, out.begin() + arrays[a].end(),
              static_cast<std::uint32_t>(a));
  return out;
}

std::vector<ResidualRows> join_rows(const std::vector<RowGroup>& groups, std::size_t rows,
                                    const std::vector<UnknownArray>& arrays, Index unknowns) {
  // Rows of one expression that read the same unknowns, such as points of a curve, are not joined.
  const auto is_the_same = [](const Column& leaves) {
    return leaves.is_constant() || is_datum(leaves[0]);
  };
  if (groups.size() == 1 && std::ranges::all_of(groups[0].unknowns, is_the_same)) return {};
  const std::vector<std::uint64_t> read = blocks_of(groups, rows, arrays, unknowns);
  if (std::ranges::adjacent_find(read) == read.end()) return {};
  const std::vector<std::uint64_t> kinds = kinds_of(groups, rows);
  std::map<std::size_t, ResidualRows> by_width;
  for (std::size_t begin = 0; begin < rows;) {
    std::size_t end = begin + 1;
    while (end < rows && read[end] == read[begin]) ++end;
    while (begin < end) {
      const std::size_t width = piece_of(kinds, begin, end);
      ResidualRows& blocks = by_width[width];
      blocks.width = width;
      for (std::size_t k = 0; k < width; ++k) blocks.rows.push_back(static_cast<Index>(begin + k));
      begin += width;
    }
  }
  std::vector<ResidualRows> out;
  for (auto& [width, blocks] : by_width) out.push_back(std::move(blocks));
  return out;
}

std::vector<ResidualRows> join_connected_rows(const ArrayGraph& graph, NodeId root, Index unknowns,
                                              std::size_t least) {
  ConnectedElements elements(graph, root, unknowns);
  const auto rows = static_cast<Index>(graph[root].size);
  std::map<Index, std::vector<Index>> by_set;  // by their first rows below
  std::map<std::size_t, ResidualRows> by_width;
  for (Index row = 0; row < rows; ++row) {
    const Index set = elements.of_row(row);
    if (set != kNone) {
      by_set[set].push_back(row);
    } else {
      by_width[1].rows.push_back(row);
    }
  }
  std::size_t wide = 0;
  for (const auto& [set, of_set] : by_set) {
    wide += of_set.size() > 1;
    ResidualRows& blocks = by_width[of_set.size()];
    blocks.width = of_set.size();
    blocks.rows.insert(blocks.rows.end(), of_set.begin(), of_set.end());
  }
  std::vector<ResidualRows> out;
  if (wide < least) return out;
  for (auto& [width, blocks] : by_width) out.push_back(std::move(blocks));
  return out;
}

namespace {

/// Arrays and coordinates that leaves of a group may read, in different combinations; more than
/// these mean that the blocks are not the function's own.
constexpr std::size_t kMostAddresses = 64;

/// Operations of different rows from which on all rows are one block.
constexpr std::size_t kMostDifferent = 10'000;
/// Numbers of the Jacobian of such a block, which is dense.
constexpr std::size_t kMostInBlock = std::size_t{1} << 24;
/// Trajectories that are simulated side by side, from which on each is an instance of a topology.
constexpr std::size_t kManyTrajectories = 17;
/// Different topologies of these.
constexpr std::size_t kMostKinds = 8;
/// How much more rows that are evaluated one by one must cost than all together, evaluations that a
/// gradient costs, and the largest graphs that are looked at: in elements of the Jacobian.
constexpr double kMuchMore = 1.5;
constexpr std::size_t kOfGradient = 4, kMostLookedAt = std::size_t{1} << 20;

ResidualRows all_rows(std::size_t rows, std::size_t width) {
  ResidualRows blocks{width, std::vector<Index>(rows)};
  std::iota(blocks.rows.begin(), blocks.rows.end(), Index{0});
  return blocks;
}

/// True if the leaves of each group read few coordinates of blocks.
bool fits(const std::vector<UnknownArray>& arrays, const std::vector<RowGroup>& groups,
          Index unknowns) {
  const std::vector<std::uint32_t> array_of = arrays_by_unknown(arrays, unknowns);
  for (const RowGroup& group : groups) {
    std::set<std::vector<Index>> addresses;
    std::vector<Index> last, now;
    for (std::size_t b = 0; b < group.rows.size(); ++b) {
      now.clear();
      for (const Column& column : group.unknowns) {
        if (is_datum(column[b])) continue;
        const UnknownArray& array = arrays[array_of[column[b]]];
        now.insert(now.end(), {array.first, (column[b] - array.first) % array.width});
      }
      if (now == last) continue;
      last = now;
      if (addresses.insert(now).second && addresses.size() > kMostAddresses) return false;
    }
  }
  return true;
}

/// True if blocks of `width` rows have so much of their operations in common, as sums of what
/// others sum up too, that one evaluation of all, with tangents of each unknown, costs less than
/// each block with its derivatives.
bool is_cheaper_together(const ArrayGraph& graph, NodeId root, std::size_t unknowns,
                         std::size_t width) {
  const std::size_t rows = graph[root].size;
  if (rows < 2 || rows * unknowns > kMostLookedAt) return false;
  const double together = kMuchMore * static_cast<double>(graph.operations(root) * (1 + unknowns));
  const auto gradients = static_cast<double>(1 + std::min(kOfGradient, unknowns));
  double one_by_one = 0;
  std::vector<Index> block(width);
  for (const std::size_t third : {1, 2}) {
    std::iota(block.begin(), block.end(), static_cast<Index>(third * (rows / width) / 3 * width));
    const auto operations = Needed(graph, root, block, false).operations();
    one_by_one += 0.5 * static_cast<double>(operations * (rows / width));
    if (one_by_one * gradients < 0.25 * together) return false;  // most functions
    if (one_by_one > kMostDifferent && one_by_one * gradients > together) return true;
  }
  return false;
}

/// The rows of many trajectories, each a block; nothing if the rows are others.
std::optional<std::vector<RowGroup>> group_trajectories(const ArrayGraph& graph, NodeId root,
                                                        Index unknowns) {
  if (unknowns < kManyTrajectories) return std::nullopt;  // each has unknowns of its own
  std::vector<RowGroup> out;
  for (const ResidualRows& blocks : join_connected_rows(graph, root, unknowns, kManyTrajectories)) {
    std::vector<RowGroup> groups = group_rows(graph, root, blocks);
    if (groups.size() > kMostKinds) return std::nullopt;
    std::ranges::move(groups, std::back_inserter(out));
  }
  if (out.empty()) return std::nullopt;
  return out;
}

/// The number of a row without unknowns. Its program is evaluated as it is written.
double constant_of(const RowGroup& group, std::size_t block, std::size_t output) {
  std::vector<double> values;
  for (const Step& step : group.steps) {
    if (step.op == ir::Op::Data) {
      const DataColumn& column = group.data[step.a];
      values.push_back(column.values.empty() ? column.constant : column.values[block]);
    } else if (step.op == ir::Op::Parameter) {
      values.push_back(0);
    } else {
      values.push_back(ir::apply(step.op, values[step.a], values[step.b], values[step.c]));
    }
  }
  return values[group.outputs[output]];
}

}  // namespace

std::size_t Model::add_parameters(std::span<double> values, int width, std::string_view name) {
  arrays_.push_back(problem_.add_parameters(values, width, name));
  return arrays_.size() - 1;
}

std::size_t Model::add_data(std::span<const double> values, std::string_view name) {
  data_.push_back(problem_.add_data(values, 1, name));
  return data_.size() - 1;
}

void Model::add_groups(const std::vector<RowGroup>& groups, const AddOptions& options,
                       AddedBlocks& added) {
  const bool constrains = is_constraint(options.kind);
  const std::size_t first = constrains ? added.first : rows_;
  const auto reads_data = [](const RowGroup& group) {
    return std::ranges::any_of(group.unknowns,
                               [](const Column& leaves) { return is_datum(leaves[0]); });
  };
  const auto reads_unknown = [](const RowGroup& group) {
    return std::ranges::any_of(group.unknowns,
                               [](const Column& leaves) { return !is_datum(leaves[0]); });
  };
  for (const RowGroup& group : groups) {
    if ((constrains || reads_data(group)) && !reads_unknown(group))
      throw Error(ErrorCode::NoParameters, std::string(add_call(options.kind, true)) + ": row " +
                                               std::to_string(group.rows.front()) +
                                               " reads no unknown");
  }
  for (const RowGroup& group : groups) {
    if (group.unknowns.empty()) {
      add_constants(group, options.kind);
      continue;
    }
    AddedRows rows;
    add_rows(problem_, {arrays_, data_}, group, options, rows);
    std::ranges::move(rows.maps, std::back_inserter(added.maps));
    if (options.kind == BlockKind::energy) continue;
    std::vector<std::size_t>& order = constrains ? constraint_order_ : order_;
    order.reserve(order.size() + rows.rows.size());
    for (const Index row : rows.rows) order.push_back(first + row);
  }
}

void Model::add_constants(const RowGroup& group, BlockKind kind) {
  for (std::size_t b = 0; b < group.count(); ++b) {
    for (std::size_t k = 0; k < group.outputs.size(); ++k) {
      const std::size_t row = group.rows[b * group.outputs.size() + k];
      const double number = constant_of(group, b, k);
      if (kind == BlockKind::residual)
        constants_.emplace_back(rows_ + row, number);
      else if (number != 0)
        throw Error(ErrorCode::NoParameters, std::string(add_call(kind, true)) + ": row " +
                                                 std::to_string(row) + " reads no unknown");
    }
  }
}

std::size_t Model::unknown_count() const {
  return arrays_.empty()
             ? 0
             : arrays_.back().offset() +
                   arrays_.back().size() * static_cast<std::size_t>(arrays_.back().width());
}

AddedBlocks Model::add_blocks(const ArrayGraph& graph, NodeId root, std::size_t width,
                              const AddOptions& options) {
  AddedBlocks added;
  const std::size_t size = graph[root].size;
  if (is_constraint(options.kind)) {
    added.first = constraints_;
    constraints_ += size;  // an exception leaves numbers that no row has
  }
  const bool may_share =
      options.kind == BlockKind::residual && size * unknown_count() <= kMostInBlock;
  const std::size_t most = !may_share                 ? std::numeric_limits<std::size_t>::max()
                           : graph.reads_shared(root) ? 0
                                                      : kMostDifferent;
  std::optional<std::vector<RowGroup>> groups;
  if (!may_share || most == 0 || !is_cheaper_together(graph, root, unknown_count(), width))
    groups = group_rows_within(graph, root, all_rows(size, width), most);
  if (groups) {
    add_groups(*groups, options, added);
  } else {
    add_sharing_blocks(graph, root, options.joins_sharing ? size : width, options, added);
  }
  added.rows = size;
  added.topologies = problem_.topology_count();
  if (options.kind == BlockKind::residual) rows_ += size;
  return added;
}

std::vector<double> Model::in_order(std::span<const double> residuals) const {
  std::vector<double> out(rows_);
  for (std::size_t k = 0; k < residuals.size(); ++k) out[order_[k]] = residuals[k];
  for (const auto& [row, number] : constants_) out[row] = number;
  return out;
}

Deviation Model::deviation(std::span<const double> residuals, std::span<const double> given) const {
  Deviation out;
  bool has_nan = false;
  const auto look_at = [&](double residual, double number) {
    const double difference = std::abs(residual - number);
    has_nan |= std::isnan(difference);
    out.difference = std::max(out.difference, difference);
    out.largest = std::max(out.largest, std::abs(number));
  };
  for (std::size_t k = 0; k < residuals.size(); ++k) look_at(residuals[k], given[order_[k]]);
  for (const auto& [row, number] : constants_) look_at(number, given[row]);
  if (has_nan) out.difference = std::numeric_limits<double>::infinity();
  return out;
}

std::vector<double> Model::constraints_in_order(std::span<const double> numbers) const {
  if (numbers.size() != constraint_order_.size())
    throw Error(ErrorCode::InvalidArgument,
                "multipliers: expected those of " + std::to_string(constraint_order_.size()) +
                    " constraints, got " + std::to_string(numbers.size()) +
                    ": constraints were added after the solve");
  std::vector<double> out(constraints_);
  for (std::size_t k = 0; k < numbers.size(); ++k) out[constraint_order_[k]] = numbers[k];
  return out;
}

std::unique_ptr<Model> model_of(const ArrayGraph& graph, NodeId root, std::span<double> x,
                                const std::vector<UnknownArray>& proposed, const Loss& loss,
                                bool joins_rows, const std::vector<NodeId>& data) {
  auto model = std::make_unique<Model>();
  if (!data.empty()) {
    ArrayGraph with_leaves = graph;
    for (const NodeId node : data) {
      const std::size_t number = model->add_data(graph[node].numbers(), "data");
      with_leaves.become_leaves(node, kFirstDatum + model->data_[number].id().offset);
    }
    model->add_rows_of(with_leaves, root, x, proposed, loss, joins_rows);
  } else {
    model->add_rows_of(graph, root, x, proposed, loss, joins_rows);
  }
  return model;
}

/// They share their sub-expressions, such as the steps of an integrator. Blocks without unknowns
/// are left out.
void Model::add_sharing_blocks(const ArrayGraph& graph, NodeId root, std::size_t width,
                               const AddOptions& options, AddedBlocks& added) {
  if (add_array_blocks(graph, root, width, options, added)) return;
  const std::size_t rows = graph[root].size;
  RowGroup group = std::move(group_rows(graph, root, all_rows(rows, rows)).front());
  std::vector<std::uint8_t> reads(group.steps.size(), 0);
  for (std::size_t k = 0; k < reads.size(); ++k) {
    const Step& s = group.steps[k];
    reads[k] = s.op == ir::Op::Parameter;
    if (ir::is_leaf(s.op)) continue;
    const std::array from = {s.a, s.b, s.c};
    for (int operand = 0; operand < ir::arity(s.op); ++operand)
      reads[k] |= reads[from[static_cast<std::size_t>(operand)]];
  }
  std::vector<std::uint32_t> outputs;
  std::vector<Index> kept;
  for (std::size_t row = 0; row < rows; row += width) {
    const auto begin = group.outputs.begin() + static_cast<std::ptrdiff_t>(row);
    const auto end = begin + static_cast<std::ptrdiff_t>(width);
    if (std::any_of(begin, end, [&](std::uint32_t step) { return reads[step] != 0; })) {
      outputs.insert(outputs.end(), begin, end);
      for (std::size_t k = row; k < row + width; ++k) kept.push_back(static_cast<Index>(k));
    } else {
      for (std::size_t k = row; k < row + width; ++k)
        constants_.emplace_back(rows_ + k, constant_of(group, 0, k));
    }
  }
  if (outputs.empty()) return;
  group.outputs = std::move(outputs);
  group.rows = kept;
  const auto is_operation = [](const Step& s) { return !ir::is_leaf(s.op); };
  const auto operations = std::ranges::count_if(group.steps, is_operation);
  const std::size_t on_host = problem_.host_blocks().size();
  // Also if they have few operations: nothing of them is compiled then.
  added.maps.push_back(add_sharing(problem_, {arrays_, data_}, group, width, options, true));
  if (problem_.host_blocks().size() > on_host)
    sharing_.push_back({kept.size(), static_cast<std::size_t>(operations), group.unknowns.size()});
  for (const Index row : kept) order_.push_back(rows_ + row);
}

bool Model::add_array_blocks(const ArrayGraph& graph, NodeId root, std::size_t width,
                             const AddOptions& options, AddedBlocks& added) {
  const std::size_t rows = graph[root].size;
  const std::vector<std::uint8_t> reads = reading_elements(graph, root);
  std::vector<Index> kept;
  ResidualRows fixed;
  for (std::size_t row = 0; row < rows; row += width) {
    const auto begin = reads.begin() + static_cast<std::ptrdiff_t>(row);
    const bool reads_one = std::any_of(begin, begin + static_cast<std::ptrdiff_t>(width),
                                       [](std::uint8_t read) { return read != 0; });
    for (std::size_t k = row; k < row + width; ++k)
      (reads_one ? kept : fixed.rows).push_back(static_cast<Index>(k));
  }
  if (kept.empty()) return false;
  const auto blocks = add_arrays(problem_, {arrays_, data_}, graph, root, kept, width, options);
  if (!blocks) return false;
  added.maps.push_back(blocks->blocks);
  sharing_.push_back({kept.size(), blocks->operations, blocks->unknowns});
  for (const Index row : kept) order_.push_back(rows_ + row);
  if (fixed.rows.empty()) return true;
  for (const RowGroup& group : group_rows(graph, root, fixed)) add_constants(group, options.kind);
  return true;
}

void Model::add_rows_of(const ArrayGraph& graph, NodeId root, std::span<double> x,
                        const std::vector<UnknownArray>& proposed, const Loss& loss,
                        bool joins_rows) {
  const auto unknowns = static_cast<Index>(x.size());
  const std::size_t rows = graph[root].size;
  const bool shares = graph.reads_shared(root);
  std::optional<std::vector<RowGroup>> found;
  if (!shares && !is_cheaper_together(graph, root, unknowns, 1))
    found = group_rows_within(graph, root, all_rows(rows, 1),
                              std::min(kMostDifferent, graph.most_operations));
  if (!found && joins_rows && !shares) {
    if (const auto trajectories = group_trajectories(graph, root, unknowns)) {
      add_parameters(x, 1, "x");
      AddedBlocks added;
      add_groups(*trajectories, {.loss = loss}, added);
      rows_ = rows;
      return;
    }
  }
  if (!found && rows * unknowns > kMostInBlock) found = group_rows(graph, root, all_rows(rows, 1));
  if (!found) {
    add_parameters(x, 1, "x");
    AddedBlocks added;
    add_sharing_blocks(graph, root, joins_rows ? rows : 1, {.loss = loss}, added);
    rows_ = rows;
    return;
  }
  std::vector<RowGroup> groups = std::move(*found);
  std::vector<UnknownArray> arrays = divide_unknowns(proposed, unknowns);
  if (arrays.size() > 1 || arrays[0].width > 1) {
    if (!fits(arrays, groups, unknowns)) arrays = divide_unknowns({}, unknowns);
  }

  for (const UnknownArray& array : arrays)
    add_parameters(x.subspan(array.first, std::size_t{array.width} * array.count),
                   static_cast<int>(array.width), "x");
  AddedBlocks added;
  const std::vector<ResidualRows> blocks =
      joins_rows ? join_rows(groups, rows, arrays, unknowns) : std::vector<ResidualRows>();
  const bool joined =
      std::ranges::any_of(blocks, [](const ResidualRows& b) { return b.width > 1; });
  if (!joined) {
    add_groups(groups, {.loss = loss}, added);
  } else {
    groups.clear();
    for (const ResidualRows& rows_of_width : blocks)
      add_groups(group_rows(graph, root, rows_of_width), {.loss = loss}, added);
  }
  rows_ = rows;
}

}  // namespace topograd::python
