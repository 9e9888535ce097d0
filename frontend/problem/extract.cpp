// Merges leaves into slots, builds the graph of a tape, and compares tapes with raw shapes.
#include "extract.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "../../ir/hash.hpp"
#include "../../ir/program.hpp"
#include "problem_state.hpp"

namespace topograd::detail {
namespace {

constexpr std::uint32_t kFree = ~std::uint32_t{0};

void check_same_problem(const TapeNode& node, const char* kind, std::size_t count,
                        const Caller& caller) {
  if ((node.head & kEager) != 0)
    caller.fail(ErrorCode::WrongProblem,
                "a variable() is not part of a problem, whose unknowns add_parameters makes");
  const bool symbolic = (node.head & kSymbolic) != 0;
  if (symbolic && node.c != caller.map)
    caller.fail(ErrorCode::StaleValue,
                "a Value of a map's element is used outside of the callable that it was made for");
  if (node.b == caller.problem) return;
  caller.fail(ErrorCode::WrongProblem, kind + (symbolic ? "" : " " + std::to_string(node.a)) +
                                           " is not part of this problem (problem has " +
                                           std::to_string(count) +
                                           "), but of another one or of one that is gone");
}

/// Leaves with shared reads: one slot for each distinct key, ascending.
struct SharedLeaves {
  std::vector<std::uint32_t> nodes;
  std::vector<std::uint32_t> keys;    ///< key of each node
  std::vector<std::uint32_t> sorted;  ///< distinct keys

  void add(std::uint32_t node, std::uint32_t key) {
    nodes.push_back(node);
    keys.push_back(key);
  }
  void number() {
    sorted = keys;
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  }
  std::uint32_t slot(std::uint32_t key) const {
    return static_cast<std::uint32_t>(std::lower_bound(sorted.begin(), sorted.end(), key) -
                                      sorted.begin());
  }
};

/// Leaves of one residual by kind, and the slot of each node that is a leaf.
struct Leaves {
  SharedLeaves parameters, uniforms;
  std::vector<std::uint32_t> data;  ///< slot -> node
  std::vector<std::uint32_t> slot;  ///< by node
};

/// A bound or symbolic data leaf must belong to the problem; reads of one form are one leaf.
std::uint32_t data_slot(const TapeNode& node, std::uint32_t next,
                        std::unordered_map<std::uint32_t, std::uint32_t>& slot_of_form,
                        const Caller& caller) {
  if ((node.head & (kBound | kSymbolic)) == 0) return next;
  check_same_problem(node, "data", caller.data, caller);
  return (node.head & kSymbolic) == 0 ? next : slot_of_form.try_emplace(node.a, next).first->second;
}

Leaves collect(std::span<const TapeNode> nodes, const IndexOf& index_of, const Caller& caller) {
  Leaves leaves;
  leaves.slot.assign(nodes.size(), kFree);
  std::unordered_map<std::uint32_t, std::uint32_t> slot_of_form;
  for (std::uint32_t k = 0; k < nodes.size(); ++k) {
    const TapeNode& node = nodes[k];
    if (node.op() == ir::Op::Parameter) {
      check_same_problem(node, "parameter", caller.parameters, caller);
      const std::uint32_t index = index_of(node);
      if (caller.state != nullptr && caller.state->unknowns.is_removed(index))
        caller.fail_removed(index);
      leaves.parameters.add(k, index);
    } else if (node.op() == ir::Op::Uniform) {
      check_same_problem(node, "uniform", caller.uniforms, caller);
      leaves.uniforms.add(k, node.a);
    } else if (node.op() == ir::Op::Data) {
      const auto next = static_cast<std::uint32_t>(leaves.data.size());
      leaves.slot[k] = data_slot(node, next, slot_of_form, caller);
      if (leaves.slot[k] == next) leaves.data.push_back(k);
    }
  }
  for (SharedLeaves* shared : {&leaves.parameters, &leaves.uniforms}) {
    shared->number();
    for (std::size_t k = 0; k < shared->nodes.size(); ++k)
      leaves.slot[shared->nodes[k]] = shared->slot(shared->keys[k]);
  }
  return leaves;
}

/// The leaves of a tape that depends on a parameter.
Leaves collect_checked(const RawTape& raw, const IndexOf& index_of, const Caller& caller) {
  Leaves leaves = collect(raw.nodes, index_of, caller);
  if (leaves.parameters.nodes.empty())
    caller.fail(ErrorCode::NoParameters,
                "the " + std::string(caller.kind()) + " does not depend on any parameter");
  return leaves;
}

ir::Program build(const RawTape& raw, const Leaves& leaves) {
  ir::Graph graph;
  std::vector<ir::Id> renamed(raw.nodes.size());
  for (std::size_t k = 0; k < raw.nodes.size(); ++k) {
    const TapeNode& n = raw.nodes[k];
    if (n.op() == ir::Op::Literal) {
      renamed[k] = graph.literal(number_of(n));
    } else if (ir::is_leaf(n.op())) {
      renamed[k] = graph.leaf(n.op(), leaves.slot[k]);
    } else {
      const int arity = ir::arity(n.op());
      renamed[k] = graph.add(n.op(), renamed[k - n.a], arity > 1 ? renamed[k - n.b] : 0,
                             arity > 2 ? renamed[k - n.c] : 0);
    }
  }
  std::vector<ir::Id> outputs;
  for (const std::uint32_t row : raw.rows) outputs.push_back(renamed[row]);
  std::vector<ir::Guard> guards;
  for (const RawGuard& guard : raw.guards)
    guards.push_back({renamed[guard.condition], guard.expected});
  return graph.extract(outputs,
                       {.parameters = static_cast<std::uint32_t>(leaves.parameters.sorted.size()),
                        .data = static_cast<std::uint32_t>(leaves.data.size()),
                        .uniforms = static_cast<std::uint32_t>(leaves.uniforms.sorted.size())},
                       guards);
}

/// Assigns leaves to canonical slots: the first leaf of a slot represents it, the others become
/// aliases.
void distribute(const SharedLeaves& shared, const std::vector<std::uint32_t>& source_of_canonical,
                std::vector<std::uint32_t>& nodes, std::vector<Alias>& aliases) {
  std::vector<std::uint32_t> canonical_of_source(source_of_canonical.size());
  for (std::uint32_t c = 0; c < source_of_canonical.size(); ++c)
    canonical_of_source[source_of_canonical[c]] = c;
  nodes.assign(source_of_canonical.size(), kFree);
  for (std::size_t k = 0; k < shared.nodes.size(); ++k) {
    const std::uint32_t slot = canonical_of_source[shared.slot(shared.keys[k])];
    if (nodes[slot] == kFree) {
      nodes[slot] = shared.nodes[k];
    } else {
      aliases.push_back({shared.nodes[k], slot});
    }
  }
}

/// Maximum number of stored shapes; residuals of further shapes are matched the slow way.
constexpr std::size_t kMaxShapes = 1u << 16;
/// Up to this number of leaves all pairs are compared; sorting is cheaper for more.
constexpr std::size_t kMaxPairs = 40;

constexpr std::uint32_t kAll = ~std::uint32_t{0};

/// Masks for the parts of a node that are structure. The problem of a leaf is part of it, because
/// shapes belong to one problem.
constexpr TapeNode structure_of(ir::Op op, bool owned) {
  if (op == ir::Op::Parameter || op == ir::Op::Uniform) return {kAll, 0, kAll, kAll};
  if (op == ir::Op::Data) return owned ? TapeNode{kAll, 0, kAll, kAll} : TapeNode{kAll, 0, 0, 0};
  return {kAll, kAll, kAll, kAll};
}

constexpr auto kStructure = [] {
  std::array<TapeNode, ir::kOpCount> masks{};
  for (std::size_t op = 0; op < ir::kOpCount; ++op)
    masks[op] = structure_of(static_cast<ir::Op>(op), false);
  return masks;
}();

TapeNode mask_of(const TapeNode& node) {
  if ((node.head & (kBound | kSymbolic)) != 0) return structure_of(node.op(), true);
  return kStructure[static_cast<std::size_t>(node.op())];
}

TapeNode masked(const TapeNode& n, const TapeNode& m) {
  return {n.head & m.head, n.a & m.a, n.b & m.b, n.c & m.c};
}

/// True if nodes equal those of a pattern in the masked bits.
bool same_nodes(const TapeNode* nodes, const TapeNode* pattern, const TapeNode* mask,
                std::size_t count) {
  using Whole [[gnu::vector_size(16)]] = std::uint32_t;
  const auto* const n = reinterpret_cast<const Whole*>(nodes);
  const auto* const p = reinterpret_cast<const Whole*>(pattern);
  const auto* const m = reinterpret_cast<const Whole*>(mask);
  const auto differs = [&](std::size_t k) { return (n[k] ^ p[k]) & m[k]; };
  Whole even{}, odd{};
  std::size_t k = 0;
  for (; k + 4 <= count; k += 4) {
    even |= differs(k) | differs(k + 2);
    odd |= differs(k + 1) | differs(k + 3);
  }
  for (; k < count; ++k) even |= differs(k);
  even |= odd;
  return (even[0] | even[1] | even[2] | even[3]) == 0;
}

bool all_pairs_differ(const std::uint32_t* values, std::size_t count) {
  for (std::size_t i = 1; i < count; ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (values[i] == values[j]) return false;
  return true;
}

bool all_distinct(const std::uint32_t* values, std::size_t count) {
  if (count > kMaxPairs) {
    thread_local std::vector<std::uint32_t> sorted;
    sorted.assign(values, values + count);
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  }
  // 64 buckets usually suffice for the indices; Fibonacci hashing spreads neighbouring ones.
  std::uint64_t seen = 0, twice = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint64_t bucket = std::uint64_t{1} << ((values[k] * 0x9e3779b1u) >> 26);
    twice |= seen & bucket;
    seen |= bucket;
  }
  return twice == 0 || all_pairs_differ(values, count);
}

/// Reads the slots; returns false if other leaves coincide than the slots say.
bool read_shared(const TapeNode* nodes, const std::vector<std::uint32_t>& slots,
                 const std::vector<Alias>& aliases, std::uint32_t* out) {
  for (std::size_t k = 0; k < slots.size(); ++k) out[k] = nodes[slots[k]].a;
  for (const Alias& alias : aliases)
    if (nodes[alias.node].a != out[alias.slot]) return false;
  return all_distinct(out, slots.size());
}

}  // namespace

void Caller::fail(ErrorCode code, const std::string& what) const {
  std::string text = std::string(call) + ": " + what + ", in " + std::string(kind()) + " ";
  if (!label.empty()) text += "\"" + std::string(label) + "\" ";
  throw Error(code, text + "#" + std::to_string(number));
}

void Caller::fail_removed(std::uint32_t parameter) const {
  fail(ErrorCode::InvalidArgument,
       "parameter " + std::to_string(parameter) + " is of an array that was removed");
}

LeafMap LeafMap::moved(std::span<const std::uint64_t> ids, std::uint64_t begin) const {
  LeafMap map = *this;
  const auto move = [&](std::uint32_t& node) {
    node = static_cast<std::uint32_t>(ids[node] - begin);
  };
  for (auto* nodes : {&map.parameters, &map.uniforms, &map.data})
    for (std::uint32_t& node : *nodes) move(node);
  for (auto* aliases : {&map.parameter_aliases, &map.uniform_aliases})
    for (Alias& alias : *aliases) move(alias.node);
  return map;
}

PlainProgram plain_program(const RawTape& raw, const IndexOf& index_of, const Caller& caller) {
  Leaves leaves = collect_checked(raw, index_of, caller);
  return {.program = build(raw, leaves),
          .parameters = std::move(leaves.parameters.sorted),
          .uniforms = std::move(leaves.uniforms.sorted),
          .data = std::move(leaves.data)};
}

Extraction extract(const RawTape& raw, const IndexOf& index_of, const Caller& caller) {
  const Leaves leaves = collect_checked(raw, index_of, caller);
  Extraction result;
  result.canonical = ir::canonicalize(build(raw, leaves));
  const ir::Canonical& canonical = result.canonical;
  LeafMap& map = result.leaves;
  distribute(leaves.parameters, canonical.parameters, map.parameters, map.parameter_aliases);
  distribute(leaves.uniforms, canonical.uniforms, map.uniforms, map.uniform_aliases);
  for (const std::uint32_t slot : canonical.data) map.data.push_back(leaves.data[slot]);
  return result;
}

std::uint64_t shape_hash(const RawTape& raw) {
  std::uint64_t hash = raw.nodes.size();
  for (const TapeNode& node : raw.nodes) {
    const TapeNode n = masked(node, mask_of(node));
    const std::uint64_t low = (std::uint64_t{n.a} << 32) | n.head;
    const std::uint64_t high = (std::uint64_t{n.c} << 32) | n.b;
    hash = ir::mix64(hash ^ (low * 0x9e3779b97f4a7c15ULL) ^ (high * 0xc2b2ae3d27d4eb4fULL));
  }
  for (const std::uint32_t row : raw.rows) hash = ir::mix64(hash ^ row);
  for (const RawGuard& g : raw.guards) hash = ir::mix64(hash ^ (2ULL * g.condition + g.expected));
  return hash;
}

RawShape::RawShape(const RawTape& raw, LeafMap leaves, std::uint32_t topology)
    : rows_(raw.rows.begin(), raw.rows.end()),
      guards_(raw.guards.begin(), raw.guards.end()),
      leaves_(std::move(leaves)),
      topology_(topology) {
  for (const TapeNode& node : raw.nodes) {
    mask_.push_back(mask_of(node));
    pattern_.push_back(masked(node, mask_.back()));
  }
  for (const std::uint32_t node : leaves_.data)
    bound_ = bound_ || (raw.nodes[node].head & kBound) != 0;
}

bool RawShape::same_structure(const RawTape& raw) const {
  const std::size_t count = pattern_.size();
  if (raw.nodes.size() != count || raw.rows.size() != rows_.size()) return false;
  if (!std::ranges::equal(raw.guards, guards_)) return false;
  for (std::size_t k = 0; k < rows_.size(); ++k)
    if (raw.rows[k] != rows_[k]) return false;
  return same_nodes(raw.nodes.data(), pattern_.data(), mask_.data(), count);
}

bool RawShape::read(const RawTape& raw, std::span<const double> entries, Row& row) const {
  const TapeNode* nodes = raw.nodes.data();
  const std::size_t parameters = leaves_.parameters.size();
  row.indices.resize(parameters + leaves_.uniforms.size());
  row.data.resize(leaves_.data.size());
  row.sources.clear();
  std::uint32_t* indices = row.indices.data();
  if (!read_shared(nodes, leaves_.parameters, leaves_.parameter_aliases, indices)) return false;
  if (!read_shared(nodes, leaves_.uniforms, leaves_.uniform_aliases, indices + parameters))
    return false;
  for (std::size_t k = 0; k < row.data.size(); ++k) row.data[k] = number_of(nodes[leaves_.data[k]]);
  if (!bound_) return true;
  for (std::size_t k = 0; k < row.data.size(); ++k) {
    const TapeNode& leaf = nodes[leaves_.data[k]];
    const bool bound = (leaf.head & kBound) != 0;
    row.sources.push_back(bound ? leaf.a : kNoSource);
    if (bound) row.data[k] = entries[leaf.a];
  }
  return true;
}

std::size_t RawShape::bytes() const {
  const LeafMap& l = leaves_;
  return sizeof(*this) + pattern_.capacity() * 2 * sizeof(TapeNode) +
         (l.parameter_aliases.capacity() + l.uniform_aliases.capacity()) * sizeof(Alias) +
         guards_.capacity() * sizeof(RawGuard) +
         (rows_.capacity() + l.parameters.capacity() + l.uniforms.capacity() + l.data.capacity()) *
             sizeof(std::uint32_t);
}

void RawShapes::follow(RawShape* shape) {
  if (last_ != nullptr) last_->next = shape;
  last_ = shape;
}

const RawShape* RawShapes::match(const RawTape& raw, std::span<const double> entries, Row& row) {
  if (last_ == nullptr) return nullptr;
  const auto is = [&](const RawShape* shape) {
    return shape != nullptr && shape->same_structure(raw) && shape->read(raw, entries, row);
  };
  if (is(last_->next)) return last_ = last_->next;
  if (raw.nodes.size() > largest_) return nullptr;
  const auto [first, beyond] = by_hash_.equal_range(shape_hash(raw));
  for (auto at = first; at != beyond; ++at) {
    if (!is(at->second)) continue;
    follow(at->second);
    return last_;
  }
  return nullptr;
}

void RawShapes::add(const RawTape& raw, const LeafMap& leaves, std::uint32_t topology) {
  if (shapes_.size() >= kMaxShapes) return;
  RawShape& shape = shapes_.emplace_back(raw, leaves, topology);
  shape.next = &shape;
  largest_ = std::max(largest_, raw.nodes.size());
  by_hash_.emplace(shape_hash(raw), &shape);
  follow(&shape);
}

std::size_t RawShapes::bytes() const {
  std::size_t total = by_hash_.size() * 4 * sizeof(void*);
  for (const RawShape& shape : shapes_) total += shape.bytes();
  return total;
}

}  // namespace topograd::detail
