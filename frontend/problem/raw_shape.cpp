// Compares a tape with raw shapes and copies its leaves.
#include "raw_shape.hpp"
#include "../../ir/hash.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace topograd::detail {
namespace {

/// Maximum number of stored shapes; residuals of further shapes are matched the slow way.
constexpr std::size_t kMaxShapes = 1u << 16;
/// Up to this number of leaves all pairs are compared; sorting is cheaper for more.
constexpr std::size_t kMaxPairs = 40;

constexpr std::uint32_t kAll = ~std::uint32_t{0};

/// Masks for the parts of a node that are structure. The owner of a leaf is part of it, because
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
