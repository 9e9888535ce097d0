// Finds blocks of unknowns in the shapes that a function gave to them, and blocks of rows in what
// they read.
#include "blocks.hpp"

#include "../../ir/hash.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>

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

std::vector<BlockRows> join_rows(const std::vector<RowGroup>& groups, std::size_t rows,
                                 const std::vector<UnknownArray>& arrays, Index unknowns) {
  // Rows of one expression that read the same unknowns, such as points of a curve, are not joined.
  const auto is_the_same = [](const Column& leaves) {
    return leaves.is_constant() || is_datum(leaves[0]);
  };
  if (groups.size() == 1 && std::ranges::all_of(groups[0].unknowns, is_the_same)) return {};
  const std::vector<std::uint64_t> read = blocks_of(groups, rows, arrays, unknowns);
  if (std::ranges::adjacent_find(read) == read.end()) return {};
  const std::vector<std::uint64_t> kinds = kinds_of(groups, rows);
  std::map<std::size_t, BlockRows> by_width;
  for (std::size_t begin = 0; begin < rows;) {
    std::size_t end = begin + 1;
    while (end < rows && read[end] == read[begin]) ++end;
    while (begin < end) {
      const std::size_t width = piece_of(kinds, begin, end);
      BlockRows& blocks = by_width[width];
      blocks.width = width;
      for (std::size_t k = 0; k < width; ++k) blocks.rows.push_back(static_cast<Index>(begin + k));
      begin += width;
    }
  }
  std::vector<BlockRows> out;
  for (auto& [width, blocks] : by_width) out.push_back(std::move(blocks));
  return out;
}

std::vector<BlockRows> join_connected_rows(const ArrayGraph& graph, NodeId root, Index unknowns,
                                           std::size_t least) {
  ConnectedElements elements(graph, root, unknowns);
  const auto rows = static_cast<Index>(graph[root].size);
  std::map<Index, std::vector<Index>> by_set;  // by their first rows below
  std::map<std::size_t, BlockRows> by_width;
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
    BlockRows& blocks = by_width[of_set.size()];
    blocks.width = of_set.size();
    blocks.rows.insert(blocks.rows.end(), of_set.begin(), of_set.end());
  }
  std::vector<BlockRows> out;
  if (wide < least) return out;
  for (auto& [width, blocks] : by_width) out.push_back(std::move(blocks));
  return out;
}

}  // namespace topograd::python
