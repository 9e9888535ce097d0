// Makes instructions of array graphs, and runs them with values and tangents.
#include "array_sweep.hpp"

#include "../../ir/hash.hpp"
#include "products.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

namespace topograd::python {
namespace {

using autodiff::OpNumbers;
using autodiff::zero_rule;
using ir::Op;
using NodeKind = ArrayGraph::Kind;

constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
/// Operations on numbers for each instruction, and for each number of an array, from which on
/// arrays pay.
constexpr std::size_t kLeastOnNumbers = 8, kMostUnneeded = 4;
/// Columns of one sweep.
constexpr std::size_t kWide = 16;

/// True if an operation is evaluated as it is. Square roots need care at 0.
bool is_plain(const ArrayGraph& graph, const ArrayGraph::Node& node) {
  if (ir::info(node.op).composite) return false;
  if (node.op != Op::Pow) return true;
  const NodeKind exponent = graph[node.operands[1].node].kind;
  return exponent == NodeKind::numbers || exponent == NodeKind::apply;
}

/// Elements of nodes that read an unknown or a number of a data array.
class Reading {
 public:
  Reading(const ArrayGraph& graph, NodeId root)
      : graph_(graph), state_(root + std::size_t{1}, none), lists_(root + std::size_t{1}) {
    for (NodeId id = 0; id <= root; ++id) visit(id);
  }

  std::uint8_t reads(NodeId id, std::size_t element) const {
    return state_[id] == some ? lists_[id][element] : state_[id];
  }

 private:
  /// Says which elements of a node read something: none, all, or those of a list.
  enum : std::uint8_t { none, all, some };

  void visit(NodeId id) {
    const ArrayGraph::Node& node = graph_[id];
    if (node.kind == NodeKind::unknowns) state_[id] = all;
    const auto is = [&](std::uint8_t which) {
      return [this, which](const View& view) { return state_[view.node] == which; };
    };
    if (std::ranges::all_of(node.operands, is(none))) return;
    const bool joins = node.kind == NodeKind::join;
    if (joins ? std::ranges::all_of(node.operands, is(all))
              : std::ranges::any_of(node.operands, is(all))) {
      state_[id] = all;
      return;
    }
    std::vector<std::uint8_t>& list = lists_[id];
    list.resize(node.size);
    if (node.kind == NodeKind::apply || node.kind == NodeKind::reduce) {
      for (const View& view : node.operands)
        view.layout.for_elements([&](std::size_t k, std::size_t element) {
          if (reads(view.node, element) != none) list[node.extent == 1 ? k : k / node.extent] = all;
        });
    } else {
      for (std::size_t k = 0; k < node.size; ++k) list[k] = of_part(node, k);
    }
    const bool whole = std::ranges::find(list, std::uint8_t{none}) == list.end();
    state_[id] = whole ? all : some;
  }
  std::uint8_t of_part(const ArrayGraph::Node& node, std::size_t k) const {
    const std::size_t part = node.kind == NodeKind::join ? node.parts()[k] : 0;
    return reads(node.operands[part].node, node.positions()[k]);
  }

  const ArrayGraph& graph_;
  std::vector<std::uint8_t> state_;
  std::vector<std::vector<std::uint8_t>> lists_;
};

}  // namespace

std::vector<std::uint8_t> reading_elements(const ArrayGraph& graph, NodeId root) {
  const Reading reading(graph, root);
  std::vector<std::uint8_t> out(graph[root].size);
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = reading.reads(root, k);
  return out;
}

/// Finds what is needed, and gives arrays their offsets.
class ArraySweep::Maker {
 public:
  Maker(const ArrayGraph& graph, NodeId root, ArraySweep& sweep)
      : graph_(graph), root_(root), sweep_(sweep) {}

  bool make() {
    if (!find_needed()) return false;
    for (NodeId id = 0; id <= root_; ++id)
      if (count_[id] > 0) write(id);
    sweep_.root_ = read_of(root_, {});
    sweep_.instructions_.push_back(
        {.first_read = static_cast<std::uint32_t>(sweep_.reads_.size())});
    const std::size_t made = sweep_.instructions_.size();
    return sweep_.operations_ >= kLeastOnNumbers * made && !sweep_.parameters_.empty() &&
           kMostUnneeded * sweep_.operations_ >= numbers_;
  }

 private:
  struct Array {
    std::uint32_t position = 0;
    bool constant = false, moves = false;
  };

  bool find_needed();
  const std::vector<View>& operands_of(const ArrayGraph::Node& node) const;
  void write(NodeId id);
  void write_unknowns(const ArrayGraph::Node& node, NodeId id, Instruction& made);
  void write_pieces(const ArrayGraph::Node& node, Instruction& made);
  void write_sums(NodeId id, Instruction& made);
  std::uint32_t take_offset(std::uint32_t size);
  Read read_of(NodeId node, const Layout& layout) const;
  void add_constants(NodeId id, std::span<const double> numbers);
  void mix(std::uint64_t number) { sweep_.hash_ = ir::mix64(sweep_.hash_ ^ number) + 1; }
  void mix(const Read& read);

  const ArrayGraph& graph_;
  NodeId root_;
  ArraySweep& sweep_;
  std::optional<Needed> needed_;
  std::vector<std::size_t> count_;                            // by node: elements that are needed
  std::vector<NodeId> last_;                                  // by node: the last that reads it
  std::vector<Array> arrays_;                                 // by node
  std::map<std::uint32_t, std::vector<std::uint32_t>> free_;  // offsets, by size
  std::size_t numbers_ = 0;                                   // of all needed arrays
};

/// False if an operation is none of a sweep's.
bool ArraySweep::Maker::find_needed() {
  const std::size_t nodes = root_ + std::size_t{1};
  needed_.emplace(graph_, root_, sweep_.rows_, true);
  count_.assign(nodes, 0);
  last_.assign(nodes, 0);
  arrays_.resize(nodes);
  for (NodeId id = 0; id <= root_; ++id) {
    count_[id] = needed_->count(id);
    if (count_[id] == 0 || needed_->is_of_sum(id)) continue;
    const ArrayGraph::Node& node = graph_[id];
    if (!node.operands.empty()) numbers_ += node.size;
    const auto read = [&](const View& view) { last_[view.node] = std::max(last_[view.node], id); };
    if (const ArrayGraph::Accumulation* const scan = graph_.accumulation(id)) {
      count_[id] = node.size;
      read(scan->operand);
      continue;
    }
    if (node.kind == NodeKind::apply && !is_plain(graph_, node)) return false;
    std::ranges::for_each(operands_of(node), read);
  }
  last_[root_] = root_ + 1;
  return true;
}

/// Returns what an instruction for a node reads. A sum of products reads their factors.
const std::vector<View>& ArraySweep::Maker::operands_of(const ArrayGraph::Node& node) const {
  const bool sums = node.kind == NodeKind::reduce && needed_->is_of_sum(node.operands[0].node);
  return sums ? graph_[node.operands[0].node].operands : node.operands;
}

/// Sums at equal distances of their factors, from the first to the last that is needed.
void ArraySweep::Maker::write_sums(NodeId id, Instruction& made) {
  const ArrayGraph::Node& node = graph_[id];
  const std::vector<View>& factors = operands_of(node);
  made.kind = Kind::products;
  made.first = static_cast<std::uint32_t>(sweep_.sums_.size());
  for (const View& view : factors) sweep_.reads_.push_back(read_of(view.node, view.layout));
  const std::span<const std::uint8_t> needed = needed_->of(id);
  const auto begin = static_cast<std::uint32_t>(std::ranges::find(needed, 1) - needed.begin());
  std::uint32_t end = made.size;
  while (needed[end - 1] == 0) --end;
  for (std::uint32_t group = begin; group < end; ++group) {
    Sums one{.from = group, .count = 1};
    for (std::size_t k = 0; k < 2; ++k) {
      const Layout& layout = factors[k].layout;
      one.offset[k] = layout.element(std::uint64_t{group} * node.extent);
      one.term[k] = layout.shape.empty() ? 0 : layout.strides.back();
    }
    if (group > begin) {
      Sums& last = sweep_.sums_.back();
      std::array<std::int64_t, 2> distance{};
      for (std::size_t k = 0; k < 2; ++k)
        distance[k] = one.offset[k] - last.offset[k] - (last.count - 1) * last.group[k];
      if (last.count == 1 || distance == last.group) {
        last.group = distance;
        ++last.count;
        continue;
      }
    }
    sweep_.sums_.push_back(one);
  }
  made.pieces = static_cast<std::uint32_t>(sweep_.sums_.size()) - made.first;
}

std::uint32_t ArraySweep::Maker::take_offset(std::uint32_t size) {
  std::vector<std::uint32_t>& free = free_[size];
  if (free.empty()) {
    free.push_back(sweep_.numbers_);
    sweep_.numbers_ += size;
  }
  const std::uint32_t position = free.back();
  free.pop_back();
  return position;
}

ArraySweep::Read ArraySweep::Maker::read_of(NodeId node, const Layout& layout) const {
  const Array& array = arrays_[node];
  return {.first = array.position,
          .size = static_cast<std::uint32_t>(graph_[node].size),
          .constant = array.constant,
          .moves = array.moves,
          .layout = layout};
}

void ArraySweep::Maker::mix(const Read& read) {
  mix((std::uint64_t{read.first} << 32) | read.size);
  mix(static_cast<std::uint64_t>(read.layout.offset) * 4 + (read.constant ? 2U : 0U) +
      (read.moves ? 1U : 0U));
  for (const std::int64_t extent : read.layout.shape) mix(static_cast<std::uint64_t>(extent));
  for (const std::int64_t stride : read.layout.strides) mix(static_cast<std::uint64_t>(stride));
}

void ArraySweep::Maker::add_constants(NodeId id, std::span<const double> numbers) {
  arrays_[id] = {.position = static_cast<std::uint32_t>(sweep_.constants_.size()),
                 .constant = true};
  sweep_.constants_.insert(sweep_.constants_.end(), numbers.begin(), numbers.end());
}

void ArraySweep::Maker::write_unknowns(const ArrayGraph::Node& node, NodeId id, Instruction& made) {
  if (is_datum(node.first)) {
    made.kind = Kind::data;
    made.first = node.first - kFirstDatum;
    return;
  }
  made.kind = Kind::unknowns;
  made.moves = true;
  made.first = static_cast<std::uint32_t>(sweep_.slots_.size());
  for (std::uint32_t k = 0; k < node.size; ++k) {
    // The number of the unknown stands here until all are known and make() puts its slot here.
    const bool needed = needed_->of(id)[k] != 0;
    sweep_.slots_.push_back(needed ? node.first + k : kNoSlot);
    if (needed) sweep_.parameters_.push_back(node.first + k);
  }
}

void ArraySweep::Maker::write_pieces(const ArrayGraph::Node& node, Instruction& made) {
  made.kind = Kind::copy;
  made.first = static_cast<std::uint32_t>(sweep_.pieces_.size());
  std::map<NodeId, std::uint32_t> read_by_node;
  for (std::uint32_t k = 0; k < node.size; ++k) {
    const std::size_t part = node.kind == NodeKind::join ? node.parts()[k] : 0;
    const NodeId source = node.operands[part].node;
    if (count_[source] == 0) continue;  // then this element is not needed
    const auto [at, is_new] = read_by_node.emplace(
        source, static_cast<std::uint32_t>(sweep_.reads_.size()) - made.first_read);
    if (is_new) sweep_.reads_.push_back(read_of(source, {}));
    const std::uint32_t from = node.positions()[k];
    if (sweep_.pieces_.size() > made.first) {
      Piece& last = sweep_.pieces_.back();
      if (last.operand == at->second && last.from + last.count == from &&
          last.to + last.count == k) {
        ++last.count;
        continue;
      }
    }
    sweep_.pieces_.push_back({at->second, from, k, 1});
  }
  made.pieces = static_cast<std::uint32_t>(sweep_.pieces_.size()) - made.first;
}

void ArraySweep::Maker::write(NodeId id) {
  const ArrayGraph::Node& node = graph_[id];
  if (needed_->is_of_sum(id)) return;
  if (node.kind == NodeKind::numbers) return add_constants(id, node.numbers());
  if (node.kind == NodeKind::scalar) return add_constants(id, {&node.number, 1});
  Instruction made{.op = node.op,
                   .size = static_cast<std::uint32_t>(node.size),
                   .extent = static_cast<std::uint32_t>(node.extent),
                   .first_read = static_cast<std::uint32_t>(sweep_.reads_.size())};
  const ArrayGraph::Accumulation* const scan = graph_.accumulation(id);
  std::size_t operations = 0;
  if (node.kind == NodeKind::unknowns) {
    write_unknowns(node, id, made);
  } else if (scan != nullptr) {
    made.kind = Kind::scan;
    made.op = scan->op;
    made.extent = static_cast<std::uint32_t>(scan->width);
    sweep_.reads_.push_back(read_of(scan->operand.node, scan->operand.layout.simplified()));
    operations = node.size - scan->width;
  } else if (&operands_of(node) != &node.operands) {
    write_sums(id, made);
    operations = count_[id] * (2 * node.extent - 1);
  } else if (node.kind == NodeKind::apply || node.kind == NodeKind::reduce) {
    made.kind = node.kind == NodeKind::apply ? Kind::apply : Kind::reduce;
    for (const View& view : node.operands) sweep_.reads_.push_back(read_of(view.node, view.layout));
    operations = made.kind == Kind::apply ? count_[id] : count_[id] * (node.extent - 1);
  } else {
    write_pieces(node, made);
  }
  const auto reads = std::span<const Read>(sweep_.reads_).subspan(made.first_read);
  made.moves |= std::ranges::any_of(reads, &Read::moves);
  made.position = take_offset(made.size);
  arrays_[id] = {.position = made.position, .constant = false, .moves = made.moves};
  sweep_.longest_ = std::max(sweep_.longest_, made.size);
  if (made.kind == Kind::reduce)
    sweep_.longest_ = std::max(sweep_.longest_, made.size * made.extent);
  sweep_.operations_ += operations;
  if (operations > 0) ++sweep_.array_operations_;
  mix((static_cast<std::uint64_t>(made.kind) << 32) | static_cast<std::uint64_t>(made.op));
  mix((std::uint64_t{made.size} << 32) | made.extent);
  if (made.kind == Kind::copy)
    for (const Piece& piece : std::span(sweep_.pieces_).subspan(made.first))
      mix((std::uint64_t{piece.from} << 32) | (piece.to ^ (piece.operand << 16)));
  if (made.kind == Kind::products)
    for (const Sums& sums : std::span(sweep_.sums_).subspan(made.first))
      mix((std::uint64_t{sums.from} << 32) | sums.count);
  for (const Read& read : reads) mix(read);
  sweep_.instructions_.push_back(made);
  // Arrays that nothing reads any more are released after the result has its offset.
  const auto release = [&](NodeId from) {
    if (last_[from] != id || arrays_[from].constant) return;
    free_[static_cast<std::uint32_t>(graph_[from].size)].push_back(arrays_[from].position);
    last_[from] = root_ + 1;  // once
  };
  if (scan != nullptr) return release(scan->operand.node);
  for (const View& view : operands_of(node))
    if (count_[view.node] > 0) release(view.node);
}

std::optional<ArraySweep> ArraySweep::make(const ArrayGraph& graph, NodeId root,
                                           std::span<const Index> rows) {
  ArraySweep out;
  out.rows_.assign(rows.begin(), rows.end());
  if (!Maker(graph, root, out).make()) return std::nullopt;
  std::vector<std::uint32_t>& all = out.parameters_;
  std::ranges::sort(all);
  const auto repeated = std::ranges::unique(all);
  all.erase(repeated.begin(), repeated.end());
  for (std::uint32_t& slot : out.slots_)
    if (slot != kNoSlot)
      slot = static_cast<std::uint32_t>(std::ranges::lower_bound(all, slot) - all.begin());
  for (const Index row : out.rows_) out.hash_ = ir::mix64(out.hash_ ^ row);
  return out;
}

std::size_t ArraySweep::bytes() const {
  return instructions_.capacity() * sizeof(Instruction) + reads_.capacity() * sizeof(Read) +
         pieces_.capacity() * sizeof(Piece) + sums_.capacity() * sizeof(Sums) +
         constants_.capacity() * sizeof(double) +
         (slots_.capacity() + parameters_.capacity() + rows_.capacity()) * sizeof(std::uint32_t);
}

std::size_t ArraySweep::work_bytes() const {
  const std::size_t wide = std::min(parameters_.size(), kWide);
  return (std::size_t{numbers_} * (1 + wide) + std::size_t{longest_} * 10) * sizeof(double);
}

namespace {

/// Numbers that follow one another, or one that stands for all.
struct Line {
  const double* first = nullptr;
  bool is_one = false;
  double operator[](std::size_t k) const { return first[is_one ? 0 : k]; }
};

/// out[k] = f(a[k], b[k]), in loops that a compiler can vectorise.
template <class F>
void combine(std::size_t n, const Line& a, const Line& b, double* out, const F& f) {
  const double *const x = a.first, *const y = b.first;
  if (a.is_one && b.is_one) {
    std::fill_n(out, n, f(*x, *y));
  } else if (a.is_one) {
    const double one = *x;
    for (std::size_t k = 0; k < n; ++k) out[k] = f(one, y[k]);
  } else if (b.is_one) {
    const double one = *y;
    for (std::size_t k = 0; k < n; ++k) out[k] = f(x[k], one);
  } else {
    for (std::size_t k = 0; k < n; ++k) out[k] = f(x[k], y[k]);
  }
}

/// out[k] = (is_first ? 0 : out[k]) + f(k).
template <class F>
void add_each(std::size_t n, bool is_first, double* out, const F& f) {
  if (is_first) {
    for (std::size_t k = 0; k < n; ++k) out[k] = 0 + f(k);
  } else {
    for (std::size_t k = 0; k < n; ++k) out[k] += f(k);
  }
}

/// out[k] = (is_first ? 0 : out[k]) + d[k] t[k], by the zero rule.
void add_products(std::size_t n, const Line& d, const Line& t, bool is_first, double* out) {
  const double *x = d.first, *y = t.first;
  if (d.is_one && t.is_one) {
    const double product = zero_rule(*x, *y);
    return add_each(n, is_first, out, [&](std::size_t) { return product; });
  }
  if (d.is_one || t.is_one) {
    if (d.is_one) std::swap(x, y);
    const double one = *y;
    // The rule changes products with a finite number in the sign of zeros alone, and no sum here
    // is -0.
    if (one == 0) return add_each(n, is_first, out, [](std::size_t) { return 0.0; });
    if (std::isfinite(one))
      return add_each(n, is_first, out, [&](std::size_t k) { return x[k] * one; });
    return add_each(n, is_first, out, [&](std::size_t k) { return zero_rule(x[k], one); });
  }
  add_each(n, is_first, out, [&](std::size_t k) { return zero_rule(x[k], y[k]); });
}

/// out[k] = out[k - width] + from[k] from k = width on.
void add_up(std::size_t n, std::size_t width, const Line& from, double* out) {
  const std::size_t step = from.is_one ? 0 : 1;
  if (width == 1) {
    double sum = out[0];
    for (std::size_t k = 1; k < n; ++k) out[k] = sum += from.first[k * step];
    return;
  }
  for (std::size_t k = width; k < n; ++k) out[k] = out[k - width] + from.first[k * step];
}

constexpr double kOne = 1, kMinusOne = -1;

}  // namespace

/// One sweep with derivatives by columns first ... first + width - 1; of width 0: values alone.
class ArraySweep::Run {
 public:
  Run(const ArraySweep& sweep, const ir::Inputs<double>& in, std::size_t first, std::size_t width,
      Workspace& work)
      : sweep_(sweep), in_(in), first_(first), width_(width) {
    const auto grow = [](std::vector<double>& numbers, std::size_t size) {
      if (numbers.size() < size) numbers.resize(size);
    };
    const std::size_t longest = sweep.longest_;
    grow(work.values, sweep.numbers_ + 3 * longest);
    values_ = work.values.data();
    spare_ = values_ + sweep.numbers_;
    if (width == 0) return;
    grow(work.tangents, sweep.numbers_ * width + 2 * longest);
    grow(work.partials, 3 * longest);
    tangents_ = work.tangents.data();
    spare_tangents_ = tangents_ + sweep.numbers_ * width;
    partials_ = work.partials.data();
  }

  bool run() {
    for (std::size_t k = 0; k + 1 < sweep_.instructions_.size(); ++k) {
      now_ = &sweep_.instructions_[k];
      moves_ = width_ > 0 && now_->moves;
      reads_ =
          std::span(sweep_.reads_).subspan(now_->first_read, now_[1].first_read - now_->first_read);
      switch (now_->kind) {
        case Kind::unknowns: read_unknowns(); break;
        case Kind::data:
          std::copy_n(in_.data.begin() + static_cast<std::ptrdiff_t>(now_->first), now_->size,
                      values());
          break;
        case Kind::copy: copy_pieces(); break;
        case Kind::apply: apply(); break;
        case Kind::reduce: reduce(); break;
        case Kind::products: sum_all_products(); break;
        case Kind::scan: scan(); break;
      }
      if (root_at_zero_) return false;
    }
    return true;
  }

  void write_rows(std::span<double> out) const {
    const double* const from = array(sweep_.root_);
    for (std::size_t k = 0; k < sweep_.rows_.size(); ++k) out[k] = from[sweep_.rows_[k]];
  }
  void write_columns(std::span<const Column> columns) const {
    for (std::size_t c = 0; c < width_; ++c) {
      const Column& column = columns[first_ + c];
      if (column.first == nullptr) continue;
      for (std::size_t k = 0; k < sweep_.rows_.size(); ++k)
        column.first[k * column.stride] =
            sweep_.root_.moves ? tangents_of(sweep_.root_, c)[sweep_.rows_[k]] : 0;
    }
  }

 private:
  double* values() const { return values_ + now_->position; }
  double* tangents(std::size_t c) const {
    return tangents_ + std::size_t{now_->position} * width_ + c * now_->size;
  }
  const double* array(const Read& read) const {
    return (read.constant ? sweep_.constants_.data() : values_) + read.first;
  }
  const double* tangents_of(const Read& read, std::size_t c) const {
    return tangents_ + std::size_t{read.first} * width_ + c * read.size;
  }
  /// The elements of a view, which are copied to `spare` if they do not follow one another.
  static Line line(const double* array, const Layout& layout, double* spare) {
    if (layout.shape.empty()) return {array + layout.offset, true};
    if (layout.shape.size() == 1 && layout.strides[0] <= 1 && layout.strides[0] >= 0)
      return {array + layout.offset, layout.strides[0] == 0};
    layout.for_elements([&](std::size_t k, std::size_t element) { spare[k] = array[element]; });
    return {spare, false};
  }
  Line line_of(std::size_t operand) const {
    const Read& read = reads_[operand];
    return line(array(read), read.layout, spare_ + operand * sweep_.longest_);
  }
  Line tangent_line(std::size_t operand, std::size_t c) const {
    const Read& read = reads_[operand];
    return line(tangents_of(read, c), read.layout, spare_tangents_);
  }

  void read_unknowns() const {
    const std::uint32_t* const slots = sweep_.slots_.data() + now_->first;
    for (std::size_t k = 0; k < now_->size; ++k)
      values()[k] = slots[k] == kNoSlot ? 0 : in_.parameters[slots[k]];
    if (!moves_) return;
    std::fill_n(tangents(0), now_->size * width_, 0.0);
    for (std::size_t k = 0; k < now_->size; ++k)
      if (slots[k] != kNoSlot && slots[k] - first_ < width_) tangents(slots[k] - first_)[k] = 1;
  }

  void copy_pieces() const {
    for (const Piece& piece : std::span(sweep_.pieces_).subspan(now_->first, now_->pieces)) {
      const Read& read = reads_[piece.operand];
      std::copy_n(array(read) + piece.from, piece.count, values() + piece.to);
      for (std::size_t c = 0; moves_ && c < width_; ++c) {
        if (read.moves)
          std::copy_n(tangents_of(read, c) + piece.from, piece.count, tangents(c) + piece.to);
        else
          std::fill_n(tangents(c) + piece.to, piece.count, 0.0);
      }
    }
  }

  double value_of(double a, double b, double c, double* d) {
    if (d == nullptr) return OpNumbers<false>::any(now_->op, a, b, c, false, nullptr);
    const double y = OpNumbers<true>::any(now_->op, a, b, c, false, d);
    root_at_zero_ |= now_->op == Op::Sqrt && y == 0;
    return y;
  }

  /// Derivatives by the operands, as numbers that the lines of values are, or in partials_.
  void apply() {
    const std::size_t n = now_->size, arity = reads_.size();
    std::array<Line, 3> from{}, slopes{};
    for (std::size_t k = 0; k < arity; ++k) from[k] = line_of(k);
    double* const out = values();
    switch (now_->op) {  // NOLINT(clang-diagnostic-switch-enum): any() has the others
      case Op::Add:
        combine(n, from[0], from[1], out, [](double a, double b) { return a + b; });
        slopes = {Line{&kOne, true}, Line{&kOne, true}};
        break;
      case Op::Sub:
        combine(n, from[0], from[1], out, [](double a, double b) { return a - b; });
        slopes = {Line{&kOne, true}, Line{&kMinusOne, true}};
        break;
      case Op::Mul:
        combine(n, from[0], from[1], out, [](double a, double b) { return a * b; });
        slopes = {from[1], from[0]};
        break;
      default: apply_any(from, out, slopes);
    }
    for (std::size_t c = 0; moves_ && c < width_; ++c) {
      bool is_first = true;
      for (std::size_t k = 0; k < arity; ++k) {
        if (!reads_[k].moves) continue;
        add_products(n, slopes[k], tangent_line(k, c), is_first, tangents(c));
        is_first = false;
      }
    }
  }
  void apply_any(const std::array<Line, 3>& from, double* out, std::array<Line, 3>& slopes) {
    const std::size_t n = now_->size, arity = reads_.size();
    const Line none{&kOne, true};
    const Line &a = from[0], &b = arity > 1 ? from[1] : none, &c = arity > 2 ? from[2] : none;
    if (!moves_) {
      for (std::size_t k = 0; k < n; ++k) out[k] = value_of(a[k], b[k], c[k], nullptr);
      return;
    }
    for (std::size_t e = 0; e < arity; ++e) slopes[e] = {partials_ + e * sweep_.longest_, false};
    for (std::size_t k = 0; k < n; ++k) {
      double d[3];
      out[k] = value_of(a[k], b[k], c[k], d);
      for (std::size_t e = 0; e < arity; ++e) partials_[e * sweep_.longest_ + k] = d[e];
    }
  }

  /// Sums that are not needed are those of others: no operation on them is one on what is no value.
  void sum_all_products() const {
    std::array<Factor, 2> of{};
    for (std::size_t k = 0; k < 2; ++k) {
      of[k].first = array(reads_[k]);
      find_used(of[k], reads_[k].size);
    }
    sum_runs({{{of[0], of[1]}, {}}}, 1, false, values());
    for (std::size_t c = 0; moves_ && c < width_; ++c) {
      std::array<Product, 2> products{};
      std::size_t count = 0;
      for (std::size_t k = 0; k < 2; ++k) {
        if (!reads_[k].moves) continue;
        Factor t = of[k];
        t.first = tangents_of(reads_[k], c);
        find_used(t, reads_[k].size);
        products[count++] = k == 0 ? Product{t, of[1]} : Product{of[0], t};
      }
      sum_runs(products, count, true, tangents(c));
    }
  }
  void sum_runs(std::array<Product, 2> products, std::size_t count, bool zero_rule,
                double* out) const {
    const auto runs = std::span(sweep_.sums_).subspan(now_->first, now_->pieces);
    for (const Sums& run : runs) {
      for (Product& p : products)
        for (std::size_t k = 0; k < 2; ++k) {
          Factor& factor = k == 0 ? p.a : p.b;
          factor.offset = run.offset[k], factor.group = run.group[k], factor.term = run.term[k];
        }
      sum_products(std::span(products).first(count), run.count, now_->extent, zero_rule,
                   out + run.from);
    }
    const std::size_t begin = runs.front().from, end = runs.back().from + runs.back().count;
    std::fill(out, out + begin, out[begin]);
    std::fill(out + end, out + now_->size, out[begin]);
  }

  /// Column c of running sums. The zero rule changes -0 before the first sum alone.
  void sum_tangents(std::size_t c) const {
    const std::size_t n = now_->size, width = now_->extent, first = std::min(n, width);
    const Line t = tangent_line(0, c);
    double* const to = tangents(c);
    for (std::size_t k = 0; k < first; ++k) to[k] = 0 + t[k];
    add_up(n, width, t, to);
    for (std::size_t k = 0; k < first; ++k) to[k] = t[k];
  }

  void scan() {
    const std::size_t n = now_->size, width = now_->extent;
    const Line from = line_of(0);
    double *const out = values(), *const before = partials_,
                  *const own = partials_ + sweep_.longest_;
    for (std::size_t k = 0; k < std::min(n, width); ++k) out[k] = from[k];
    if (now_->op == Op::Add) {
      add_up(n, width, from, out);
      for (std::size_t c = 0; moves_ && c < width_; ++c) sum_tangents(c);
      return;
    }
    for (std::size_t k = width; k < n; ++k) {
      double d[3];
      out[k] = value_of(out[k - width], from[k], 0, moves_ ? d : nullptr);
      if (moves_) before[k] = d[0], own[k] = d[1];
    }
    for (std::size_t c = 0; moves_ && c < width_; ++c) {
      const Line t = tangent_line(0, c);
      double* const to = tangents(c);
      for (std::size_t k = 0; k < std::min(n, width); ++k) to[k] = t[k];
      for (std::size_t k = width; k < n; ++k)
        to[k] = 0 + zero_rule(before[k], to[k - width]) + zero_rule(own[k], t[k]);
    }
  }

  /// Calls f(from, to) for the neighbours from and from + 1 of a level that become element `to` of
  /// the next one, and move(from, to) for what has no neighbour; in the order of the groups.
  template <class F, class Move>
  void for_pairs(const F& f, const Move& move) const {
    for (std::size_t begin = 0; begin < std::size_t{now_->size} * now_->extent;
         begin += now_->extent) {
      for (std::size_t level = now_->extent; level > 1; level = (level + 1) / 2) {
        for (std::size_t k = 0; k < level / 2; ++k) f(begin + 2 * k, begin + k);
        if (level % 2 == 1) move(begin + level - 1, begin + level / 2);
      }
    }
  }
  void reduce() {
    const std::size_t all = std::size_t{now_->size} * now_->extent;
    const Line from = line_of(0);
    double* const v = spare_ + sweep_.longest_;
    for (std::size_t k = 0; k < all; ++k) v[k] = from[k];
    double* d_to = partials_;
    for_pairs(
        [&](std::size_t at, std::size_t to) {
          double d[3];
          v[to] = value_of(v[at], v[at + 1], 0, moves_ ? d : nullptr);
          if (moves_) *d_to++ = d[0], *d_to++ = d[1];
        },
        [&](std::size_t at, std::size_t to) { v[to] = v[at]; });
    for (std::size_t k = 0; k < now_->size; ++k) values()[k] = v[k * now_->extent];
    double* const t = spare_tangents_ + sweep_.longest_;
    for (std::size_t c = 0; moves_ && c < width_; ++c) {
      const Line of = tangent_line(0, c);
      for (std::size_t k = 0; k < all; ++k) t[k] = of[k];
      const double* d = partials_;
      for_pairs(
          [&](std::size_t at, std::size_t to) {
            t[to] = 0 + zero_rule(d[0], t[at]) + zero_rule(d[1], t[at + 1]);
            d += 2;
          },
          [&](std::size_t at, std::size_t to) { t[to] = t[at]; });
      for (std::size_t k = 0; k < now_->size; ++k) tangents(c)[k] = t[k * now_->extent];
    }
  }

  const ArraySweep& sweep_;
  const ir::Inputs<double>& in_;
  std::size_t first_, width_;
  double *values_ = nullptr, *spare_ = nullptr;
  double *tangents_ = nullptr, *spare_tangents_ = nullptr, *partials_ = nullptr;
  const Instruction* now_ = nullptr;
  bool moves_ = false, root_at_zero_ = false;
  std::span<const Read> reads_;
};

void ArraySweep::evaluate(const ir::Inputs<double>& in, std::span<double> out,
                          Workspace& work) const {
  Run run(*this, in, 0, 0, work);
  run.run();
  run.write_rows(out);
}

bool ArraySweep::linearize(const ir::Inputs<double>& in, std::span<double> out,
                           std::span<const Column> columns, Workspace& work) const {
  for (std::size_t first = 0; first < columns.size(); first += kWide) {
    Run run(*this, in, first, std::min(kWide, columns.size() - first), work);
    if (!run.run()) return false;
    run.write_columns(columns);
    if (first == 0) run.write_rows(out);
  }
  return true;
}

}  // namespace topograd::python
