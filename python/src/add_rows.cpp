// Columns of a group become index and data columns of maps.
#include "add_rows.hpp"

#include "../../frontend/inspect/problem_use.hpp"
#include "../../frontend/problem/long_block.hpp"
#include "../../frontend/value/math.hpp"
#include "array_sweep.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>

namespace topograd::python {
namespace {

/// Marks the numbers of data arrays among those of arrays.
constexpr std::uint32_t kOfData = std::uint32_t{1} << 31;

/// A parameter leaf of a map: a coordinate of a block, which an index column selects unless it is
/// the same for all.
struct Leaf {
  std::uint32_t array = 0;  ///< with kOfData: of data
  int coordinate = 0;
  bool is_fixed = false;
  std::size_t block = 0;  ///< if fixed; else the number of the index column
};

/// Blocks of a group, in ascending order.
class Chosen {
 public:
  /// The first `count` blocks.
  explicit Chosen(std::size_t count) : count_(count) {}
  explicit Chosen(std::vector<std::size_t> blocks)
      : blocks_(std::move(blocks)), count_(blocks_.size()) {}

  std::size_t size() const { return count_; }
  std::size_t operator[](std::size_t k) const { return blocks_.empty() ? k : blocks_[k]; }
  /// True if these are the first ones, without a gap.
  bool are_first() const { return blocks_.empty(); }

 private:
  std::vector<std::size_t> blocks_;
  std::size_t count_;
};

/// The array and coordinate of an unknown, or of a number of a data array.
class Locations {
 public:
  explicit Locations(const LeafArrays& arrays) : arrays_(arrays) {}

  std::uint64_t location(Index leaf) const {
    if (is_datum(leaf)) return std::uint64_t{kOfData | array_of_datum(leaf)} << 32;
    const std::uint32_t array = array_of(arrays_.unknowns, leaf);
    const Parameters& x = arrays_.unknowns[array];
    return (std::uint64_t{array} << 32) | ((leaf - x.offset()) % static_cast<Index>(x.width()));
  }
  /// True if all leaves are coordinate 0 of blocks of one array of unknowns.
  bool has_one() const {
    return arrays_.data.empty() && arrays_.unknowns.size() == 1 && arrays_.unknowns[0].width() == 1;
  }
  Index block(std::uint32_t array, Index leaf) const {
    if ((array & kOfData) != 0)
      return leaf - kFirstDatum - arrays_.data[array & ~kOfData].id().offset;
    const Parameters& x = arrays_.unknowns[array];
    return (leaf - x.offset()) / static_cast<Index>(x.width());
  }

 private:
  std::uint32_t array_of_datum(Index leaf) const {
    const auto offset = [](const Data& data) { return data.id().offset; };
    const auto after = std::ranges::upper_bound(arrays_.data, leaf - kFirstDatum, {}, offset);
    return static_cast<std::uint32_t>(after - arrays_.data.begin() - 1);
  }

  const LeafArrays& arrays_;
};

/// The blocks of a group by what their leaves read: blocks that read the same coordinates of the
/// same arrays are together.
std::vector<Chosen> by_location(const RowGroup& group, const Locations& locations) {
  const std::size_t count = group.count();
  const auto divides = [&](const Column& column) {
    return !locations.has_one() && !column.is_constant();
  };
  std::vector<std::uint32_t> class_of;
  std::uint32_t classes = 1;
  for (const Column& column : group.unknowns) {
    if (!divides(column)) continue;
    class_of.resize(count);
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> numbers;
    std::pair<std::uint32_t, std::uint64_t> last = {0, ~std::uint64_t{0}};
    std::uint32_t number = 0;
    for (std::size_t b = 0; b < count; ++b) {
      const std::pair<std::uint32_t, std::uint64_t> key = {class_of[b],
                                                           locations.location(column[b])};
      if (key != last) {
        number = numbers.emplace(key, static_cast<std::uint32_t>(numbers.size())).first->second;
        last = key;
      }
      class_of[b] = number;
    }
    classes = static_cast<std::uint32_t>(numbers.size());
  }
  if (classes == 1) return {Chosen(count)};
  std::vector<std::vector<std::size_t>> members(classes);
  for (std::size_t b = 0; b < count; ++b) members[class_of[b]].push_back(b);
  std::vector<Chosen> out;
  for (std::vector<std::size_t>& blocks : members) out.emplace_back(std::move(blocks));
  return out;
}

/// The rows of a group's expression.
///
///   unknown  Value of a parameter leaf
///   data     Value of a data leaf whose numbers differ
template <class Unknown, class Data>
std::vector<Value> write_rows(const RowGroup& group, Unknown&& unknown, Data&& data) {
  const auto is_literal = [&](const Step& step) {
    return step.op == ir::Op::Data && group.data[step.a].is_literal();
  };
  const auto number = [&](std::uint32_t leaf) -> Value {
    const DataColumn& column = group.data[leaf];
    if (column.is_literal()) return literal(column.constant);
    if (column.values.empty()) return column.constant;
    return data(leaf);
  };
  std::vector<Value> values;
  values.reserve(group.steps.size());
  for (const Step& step : group.steps) {
    switch (step.op) {
      case ir::Op::Parameter: values.push_back(unknown(step.a)); break;
      case ir::Op::Data: values.push_back(number(step.a)); break;
      case ir::Op::Pow: {
        // Powers that are part of the structure become products and roots.
        const Step& exponent = group.steps[step.b];
        values.push_back(is_literal(exponent) ? pow(values[step.a], group.data[exponent.a].constant)
                                              : pow(values[step.a], values[step.b]));
        break;
      }
      default:
        switch (ir::arity(step.op)) {
          case 1: values.push_back(Value::make(step.op, values[step.a])); break;
          case 2: values.push_back(Value::make(step.op, values[step.a], values[step.b])); break;
          default:
            values.push_back(Value::make(step.op, values[step.a], values[step.b], values[step.c]));
        }
    }
  }
  std::vector<Value> rows;
  for (const std::uint32_t output : group.outputs) rows.push_back(values[output]);
  return rows;
}

/// One map: some blocks of a group, with the columns that they read.
class Map {
 public:
  Map(const LeafArrays& arrays, const RowGroup& group, const Locations& locations,
      const Chosen& blocks);

  void add(Problem& problem, const AddOptions& options, AddedRows& added) const;

 private:
  void add_unknowns(const Locations& locations);
  void add_data();
  std::vector<Value> write(Element e) const;

  const LeafArrays& arrays_;
  const RowGroup& group_;
  const Chosen& blocks_;
  std::vector<Leaf> leaves_;
  std::vector<std::size_t> data_column_;  ///< of each data leaf, if its numbers differ
  std::vector<std::uint32_t> indices_;    ///< blocks x index columns
  std::vector<double> copied_;
  std::span<const double> data_;  ///< blocks x data columns
};

Map::Map(const LeafArrays& arrays, const RowGroup& group, const Locations& locations,
         const Chosen& blocks)
    : arrays_(arrays), group_(group), blocks_(blocks) {
  add_unknowns(locations);
  add_data();
}

void Map::add_unknowns(const Locations& locations) {
  const std::size_t count = blocks_.size();
  std::vector<std::pair<std::uint32_t, std::vector<std::uint32_t>>> columns;
  for (const Column& unknowns : group_.unknowns) {
    const Index first = unknowns[blocks_[0]];
    const std::uint64_t location = locations.location(first);
    const auto array = static_cast<std::uint32_t>(location >> 32);
    const auto coordinate = static_cast<int>(static_cast<std::uint32_t>(location));
    if (unknowns.is_constant()) {
      leaves_.push_back({array, coordinate, true, locations.block(array, first)});
      continue;
    }
    std::vector<std::uint32_t> column(count);
    for (std::size_t k = 0; k < count; ++k)
      column[k] = locations.block(array, unknowns[blocks_[k]]);
    const auto same = [&](const auto& other) {
      return other.first == array && other.second == column;
    };
    const auto known = std::ranges::find_if(columns, same);
    leaves_.push_back(
        {array, coordinate, false, static_cast<std::size_t>(known - columns.begin())});
    if (known == columns.end()) columns.emplace_back(array, std::move(column));
  }
  if (columns.size() == 1) {
    indices_ = std::move(columns[0].second);
    return;
  }
  indices_.resize(count * columns.size());
  for (std::size_t c = 0; c < columns.size(); ++c)
    for (std::size_t k = 0; k < count; ++k) indices_[k * columns.size() + c] = columns[c].second[k];
}

void Map::add_data() {
  const std::size_t count = blocks_.size();
  std::size_t differing = 0;
  for (const DataColumn& column : group_.data) {
    if (!column.values.empty()) data_ = column.values;
    data_column_.push_back(column.values.empty() ? 0 : differing++);
  }
  if (differing == 1 && blocks_.are_first()) {
    data_ = data_.first(count);
    return;
  }
  copied_.resize(count * differing);
  for (std::size_t d = 0; d < group_.data.size(); ++d) {
    const std::vector<double>& values = group_.data[d].values;
    if (values.empty()) continue;
    for (std::size_t k = 0; k < count; ++k)
      copied_[k * differing + data_column_[d]] = values[blocks_[k]];
  }
  data_ = copied_;
}

std::vector<Value> Map::write(Element e) const {
  const auto unknown = [&](std::uint32_t k) -> Value {
    const Leaf& leaf = leaves_[k];
    const Parameters* const x =
        (leaf.array & kOfData) != 0 ? nullptr : &arrays_.unknowns[leaf.array];
    const auto value = [&](auto block) -> Value {
      if (x == nullptr) return arrays_.data[leaf.array & ~kOfData][block];
      return (*x)(block, leaf.coordinate);
    };
    return leaf.is_fixed ? value(leaf.block) : value(e.index(static_cast<int>(leaf.block)));
  };
  const auto data = [&](std::uint32_t k) { return e.data(static_cast<int>(data_column_[k])); };
  return write_rows(group_, unknown, data);
}

void Map::add(Problem& problem, const AddOptions& options, AddedRows& added) const {
  const std::size_t count = blocks_.size(), width = group_.outputs.size();
  const MapOptions map{
      .indices = indices_, .data = data_, .loss = options.loss, .label = options.label};
  const auto rows = [this](Element e) { return write(e); };
  switch (options.kind) {
    case BlockKind::residual: added.maps.push_back(problem.add_residuals(count, rows, map)); break;
    case BlockKind::energy: problem.add_energies(count, rows, map); break;
    case BlockKind::equality: problem.add_equalities(count, rows, map); break;
    case BlockKind::inequality: problem.add_inequalities(count, rows, map); break;
  }
  const auto row = group_.rows.begin();
  if (blocks_.are_first()) {
    added.rows.insert(added.rows.end(), row, row + static_cast<std::ptrdiff_t>(count * width));
    return;
  }
  added.rows.reserve(added.rows.size() + count * width);
  for (std::size_t k = 0; k < count; ++k)
    added.rows.insert(added.rows.end(), row + static_cast<std::ptrdiff_t>(blocks_[k] * width),
                      row + static_cast<std::ptrdiff_t>((blocks_[k] + 1) * width));
}

}  // namespace

std::uint32_t array_of(const std::vector<Parameters>& arrays, Index unknown) {
  const auto after = std::ranges::upper_bound(arrays, unknown, {}, &Parameters::offset);
  return static_cast<std::uint32_t>(after - arrays.begin() - 1);
}

Loss traced_loss(const ArrayGraph& graph, NodeId root) {
  const RowGroup group = group_rows(graph, root, {1, {0}}).front();
  const auto rho = [&](const Value& s) {
    // One block has no numbers that differ.
    return write_rows(
               group, [&](std::uint32_t) { return s; }, [](std::uint32_t) { return Value(); })
        .front();
  };
  return Loss::custom(rho, "traced");
}

void add_rows(Problem& problem, const LeafArrays& arrays, const RowGroup& group,
              const AddOptions& options, AddedRows& added) {
  const Locations locations(arrays);
  for (const Chosen& blocks : by_location(group, locations))
    Map(arrays, group, locations, blocks).add(problem, options, added);
}

namespace {

/// The rows of a group with one block.
std::vector<Value> write_block(const LeafArrays& arrays, const RowGroup& group) {
  const Locations locations(arrays);
  const auto unknown = [&](std::uint32_t k) -> Value {
    const Index leaf = group.unknowns[k][0];
    const std::uint64_t location = locations.location(leaf);
    const auto array = static_cast<std::uint32_t>(location >> 32);
    const Index block = locations.block(array, leaf);
    if ((array & kOfData) != 0) return arrays.data[array & ~kOfData][block];
    return arrays.unknowns[array](block, static_cast<int>(static_cast<std::uint32_t>(location)));
  };
  const auto data = [&](std::uint32_t k) -> Value { return group.data[k].values[0]; };
  return write_rows(group, unknown, data);
}

/// Rows of an array graph as an expression of a problem.
class ArrayRows final : public detail::ArrayExpression {
 public:
  ArrayRows(ArraySweep sweep, const LeafArrays& arrays, const ArrayGraph& graph, NodeId root,
            std::vector<Index> rows)
      : sweep_(std::move(sweep)),
        unknowns_(arrays.unknowns),
        data_(arrays.data),
        graph_(graph),
        root_(root),
        kept_(std::move(rows)) {}

  std::size_t rows() const override { return kept_.size(); }
  std::span<const std::uint32_t> parameters() const override { return sweep_.parameters(); }
  void evaluate(const ir::Inputs<double>& in, std::span<double> out,
                Workspace& work) const override {
    sweep_.evaluate(in, out, work);
  }
  bool linearize(const ir::Inputs<double>& in, std::span<double> out,
                 std::span<const Column> columns, Workspace& work) const override {
    return sweep_.linearize(in, out, columns, work);
  }
  std::vector<Value> write() const override {
    const RowGroup group = std::move(group_rows(graph_, root_, {kept_.size(), kept_}).front());
    return write_block({unknowns_, data_}, group);
  }
  std::size_t array_operations() const override { return sweep_.array_operations(); }
  std::size_t operations() const override { return sweep_.operations(); }
  std::uint64_t hash() const override { return sweep_.hash(); }
  std::size_t bytes() const override { return sweep_.bytes(); }
  std::size_t work_bytes() const override { return sweep_.work_bytes(); }

 private:
  ArraySweep sweep_;
  std::vector<Parameters> unknowns_;
  std::vector<Data> data_;
  ArrayGraph graph_;  // for write()
  NodeId root_;
  std::vector<Index> kept_;
};

}  // namespace

Residuals add_sharing(Problem& problem, const LeafArrays& arrays, const RowGroup& group,
                      std::size_t width, const AddOptions& options, bool whatever_the_size) {
  return ProblemUse::add_sharing(problem, write_block(arrays, group), width,
                                 {.loss = options.loss, .label = options.label}, whatever_the_size);
}

std::optional<ArrayBlocks> add_arrays(Problem& problem, const LeafArrays& arrays,
                                      const ArrayGraph& graph, NodeId root,
                                      const std::vector<Index>& rows, std::size_t width,
                                      const AddOptions& options) {
  std::optional<ArraySweep> sweep = ArraySweep::make(graph, root, rows);
  if (!sweep) return std::nullopt;
  ArrayBlocks added{
      .blocks = {}, .operations = sweep->operations(), .unknowns = sweep->parameters().size()};
  auto expression = std::make_shared<const ArrayRows>(*std::move(sweep), arrays, graph, root, rows);
  const auto blocks = ProblemUse::add_arrays(problem, std::move(expression), width,
                                             {.loss = options.loss, .label = options.label});
  if (!blocks) return std::nullopt;
  added.blocks = *blocks;
  return added;
}

}  // namespace topograd::python
