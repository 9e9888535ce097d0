// Blocks of columns with equal pattern, and approximate minimum degree on the quotient graph.
#include "fill_order.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <utility>

#include "../../ir/machine/parallel.hpp"
#include "factor_plan.hpp"

namespace topograd::runtime {
namespace {

using List = std::vector<std::uint32_t>;

/// True if column c has row c + 1, and then the same rows as column c + 1.
bool continues_below(const LowerPattern& lower, std::uint32_t c) {
  const std::span<const int> rows = lower.rows_below(c), next = lower.rows_below(c + 1);
  return rows.size() == next.size() + 1 && rows.front() == static_cast<int>(c + 1) &&
         std::ranges::equal(rows.subspan(1), next);
}

/// By row: 1 if some column before the row above has one of both rows without the other.
///
///   leads  by column: it has other rows than the one before. The others need no look.
std::vector<char> differing_rows(const LowerPattern& lower, const std::vector<char>& leads) {
  std::vector<char> out(lower.columns());
  const auto mark = [&](int row) {
    std::atomic_ref(out[static_cast<std::size_t>(row)]).store(1, std::memory_order_relaxed);
  };
  ir::parallel_for_beyond(ir::kLightCalls, std::uint32_t{0}, lower.columns(), [&](std::uint32_t c) {
    if (leads[c] == 0) return;
    int before = static_cast<int>(c);
    for (const int row : lower.rows_below(c)) {
      if (row != before + 1) {
        if (before != static_cast<int>(c)) mark(before + 1);
        mark(row);
      }
      before = row;
    }
    if (before != static_cast<int>(c) && before + 1 < static_cast<int>(lower.columns()))
      mark(before + 1);
  });
  return out;
}

/// First columns of blocks, and the number of columns.
List find_blocks(const LowerPattern& lower) {
  const std::uint32_t n = lower.columns();
  std::vector<char> leads(n, 1);
  ir::parallel_for_beyond(
      ir::kLightCalls, std::uint32_t{0}, n > 0 ? n - 1 : 0,
      [&](std::uint32_t c) { leads[c + 1] = continues_below(lower, c) ? 0 : 1; });
  const std::vector<char> differs = differing_rows(lower, leads);
  List first;
  for (std::uint32_t c = 0; c < n; ++c)
    if (leads[c] != 0 || differs[c] != 0) first.push_back(c);
  first.push_back(n);
  return first;
}

constexpr std::uint32_t kNone = ~std::uint32_t{0};

/// A block of the graph: first a variable, then part of another variable or of an element, or an
/// element itself, whose list has the variables that its elimination has joined.
///
/// All numbers of a node are in one half of a cache line, since each visit reads most of them.
struct alignas(32) Node {
  std::uint32_t begin = 0;     ///< of its list; kNone without one
  std::uint32_t length = 0;    ///< of its list
  std::uint32_t elements = 0;  ///< of a variable: so many of its list come first and are elements
  std::int32_t size = 1;       ///< blocks that it stands for; 0: part of another; < 0: in the pivot
  std::uint32_t degree = 0;    ///< of a variable: bound of its degree; of an element: its size
  std::uint32_t next = kNone, last = kNone;  ///< in the list of its degree, or of its hash
  std::uint32_t mark = 1;                    ///< 0: not alive
};

/// The lists of variables and elements. An eliminated variable becomes an element, and takes over
/// the elements next to it, so that lists shrink.
class MinimumDegree {
 public:
  explicit MinimumDegree(const BlockGraph& graph)
      : n_(graph.size()),
        nodes_(n_),
        parent_(n_, kNone),
        heads_(n_ + 1, kNone),
        buckets_(n_, kNone),
        used_(graph.items.size()) {
    items_.reserve(used_ + used_ / 5 + 2 * std::size_t{n_});
    items_ = graph.items;
    items_.resize(items_.capacity());
    // Blocks that meet very many others come last, whatever is eliminated before them.
    const auto dense = std::max<double>(16, 10 * std::sqrt(n_));
    for (std::uint32_t i = 0; i < n_; ++i) {
      Node& node = nodes_[i];
      node.begin = graph.starts[i];
      node.length = graph.starts[i + 1] - node.begin;
      node.degree = node.length + 1;
      if (node.length == 0) {
        node.mark = 0;
        node.begin = kNone;
        ++eliminated_;
      } else if (node.degree > dense || node.degree > n_ - 2) {
        node.size = 0;
        node.begin = kNone;
        ++eliminated_;
      } else {
        insert(i);
      }
    }
  }

  List order() {
    while (eliminated_ < n_) eliminate();
    return postorder_of_elements();
  }

 private:
  void insert(std::uint32_t i) {
    Node& node = nodes_[i];
    std::uint32_t& head = heads_[node.degree];
    if (head != kNone) nodes_[head].last = i;
    node.next = head;
    node.last = kNone;
    head = i;
  }

  void remove(std::uint32_t i) {
    const Node& node = nodes_[i];
    if (node.next != kNone) nodes_[node.next].last = node.last;
    if (node.last != kNone) {
      nodes_[node.last].next = node.next;
    } else {
      heads_[node.degree] = node.next;
    }
  }

  void eliminate() {
    while (heads_[least_] == kNone) ++least_;
    const std::uint32_t k = heads_[least_];
    remove(k);
    eliminated_ += static_cast<std::uint32_t>(nodes_[k].size);
    if (nodes_[k].elements > 0 && used_ + least_ >= items_.size()) collect_garbage();
    join(k);
    find_differences(k);
    update_degrees(k);
    largest_ = std::max(largest_, nodes_[k].degree);
    clear_marks(mark_ + largest_);
    find_indistinguishable(k);
    finish(k);
  }

  /// Moves the lists together.
  void collect_garbage() {
    // The first item of each list is kept in the node while the node's number is in its place.
    for (std::uint32_t j = 0; j < n_; ++j)
      if (nodes_[j].begin != kNone && nodes_[j].length > 0)
        nodes_[j].begin = std::exchange(items_[nodes_[j].begin], ~j);
    std::size_t to = 0;
    for (std::size_t from = 0; from < used_;) {
      const std::uint32_t j = ~items_[from++];
      if (j >= n_) continue;
      items_[to] = std::exchange(nodes_[j].begin, static_cast<std::uint32_t>(to));
      ++to;
      for (std::uint32_t k = 1; k < nodes_[j].length; ++k) items_[to++] = items_[from++];
    }
    used_ = to;
  }

  /// Makes variable k an element, of the variables next to it or to its elements.
  void join(std::uint32_t k) {
    Node& pivot = nodes_[k];
    const std::uint32_t elements = pivot.elements;
    pivot.size = -pivot.size;
    std::uint32_t degree = 0;
    const std::uint32_t begin = elements == 0 ? pivot.begin : static_cast<std::uint32_t>(used_);
    std::uint32_t to = begin;
    const auto add_all = [&](std::uint32_t first, std::uint32_t count) {
      for (std::uint32_t p = first; p < first + count; ++p) {
        const std::uint32_t i = items_[p];
        Node& node = nodes_[i];
        if (node.size <= 0) continue;
        degree += static_cast<std::uint32_t>(node.size);
        node.size = -node.size;
        items_[to++] = i;
        remove(i);
      }
    };
    for (std::uint32_t p = pivot.begin; p < pivot.begin + elements; ++p) {
      const std::uint32_t e = items_[p];
      add_all(nodes_[e].begin, nodes_[e].length);
      absorb(e, k);
      nodes_[e].mark = 0;
    }
    add_all(pivot.begin + elements, pivot.length - elements);
    if (elements != 0) used_ = to;
    pivot.degree = degree;
    pivot.begin = begin;
    pivot.length = to - begin;
    pivot.elements = kNone;
  }

  void absorb(std::uint32_t i, std::uint32_t k) {
    parent_[i] = k;
    nodes_[i].begin = kNone;
  }

  /// For each element next to a variable of k: mark − mark_ becomes the size of what it has beyond
  /// k.
  void find_differences(std::uint32_t k) {
    clear_marks(mark_);
    const Node pivot = nodes_[k];
    for (std::uint32_t q = pivot.begin; q < pivot.begin + pivot.length; ++q) {
      const Node& node = nodes_[items_[q]];
      const auto size = static_cast<std::uint32_t>(-node.size);
      for (std::uint32_t p = node.begin; p < node.begin + node.elements; ++p) {
        Node& element = nodes_[items_[p]];
        // Without branches, which no processor predicts.
        const std::uint32_t from = element.mark >= mark_ ? element.mark : element.degree + mark_;
        element.mark = element.mark == 0 ? 0 : from - size;
      }
    }
  }

  /// Drops from the lists of the variables of k what is in k, and bounds their degrees beyond it.
  void update_degrees(std::uint32_t k) {
    Node& pivot = nodes_[k];
    for (std::uint32_t q = pivot.begin; q < pivot.begin + pivot.length; ++q) {
      const std::uint32_t i = items_[q];
      Node& node = nodes_[i];
      const std::uint32_t first = node.begin, end = first + node.length,
                          variables = first + node.elements;
      std::uint32_t to = first, degree = 0, hash = 0;
      for (std::uint32_t p = first; p < variables; ++p) {
        const std::uint32_t e = items_[p];
        Node& element = nodes_[e];
        if (element.mark == mark_) {
          absorb(e, k);
          element.mark = 0;
        }
        const std::uint32_t beyond = element.mark == 0 ? 0 : element.mark - mark_;
        degree += beyond;
        hash += beyond == 0 ? 0 : e;
        items_[to] = e;
        to += beyond == 0 ? 0 : 1;
      }
      const std::uint32_t kept = to;
      for (std::uint32_t p = variables; p < end; ++p) {
        const std::uint32_t j = items_[p];
        const auto size = static_cast<std::uint32_t>(std::max(nodes_[j].size, 0));
        degree += size;
        hash += size == 0 ? 0 : j;
        items_[to] = j;
        to += size == 0 ? 0 : 1;
      }
      if (degree == 0) {  // nothing but k is next to it: it is eliminated with k
        absorb(i, k);
        pivot.degree -= static_cast<std::uint32_t>(-node.size);
        pivot.size += node.size;
        eliminated_ += static_cast<std::uint32_t>(-node.size);
        node.size = 0;
        node.elements = kNone;
        continue;
      }
      node.degree = std::min(node.degree, degree);
      node.elements = kept - first + 1;
      items_[to] = items_[kept];
      items_[kept] = items_[first];
      items_[first] = k;
      node.length = to - first + 1;
      std::uint32_t& bucket = buckets_[hash % n_];
      node.next = std::exchange(bucket, i);
      node.last = hash % n_;
    }
  }

  /// Variables with equal lists become one.
  void find_indistinguishable(std::uint32_t k) {
    const Node pivot = nodes_[k];
    for (std::uint32_t q = pivot.begin; q < pivot.begin + pivot.length; ++q) {
      const Node& node = nodes_[items_[q]];
      if (node.size >= 0) continue;
      for (std::uint32_t i = std::exchange(buckets_[node.last], kNone);
           i != kNone && nodes_[i].next != kNone; i = nodes_[i].next, ++mark_)
        join_equal(i);
    }
  }

  /// Joins variable i with those behind it in its bucket that have the same list.
  void join_equal(std::uint32_t i) {
    Node& node = nodes_[i];
    for (std::uint32_t p = node.begin + 1; p < node.begin + node.length; ++p)
      nodes_[items_[p]].mark = mark_;
    for (std::uint32_t before = i, j = node.next; j != kNone;) {
      Node& other = nodes_[j];
      bool equal = other.length == node.length && other.elements == node.elements;
      for (std::uint32_t p = other.begin + 1; equal && p < other.begin + other.length; ++p)
        equal = nodes_[items_[p]].mark == mark_;
      if (equal) {
        absorb(j, i);
        node.size += other.size;
        other.size = 0;
        other.elements = kNone;
        j = other.next;
        nodes_[before].next = j;
      } else {
        before = j;
        j = other.next;
      }
    }
  }

  /// Puts the variables of k back into the lists of their degrees.
  void finish(std::uint32_t k) {
    Node& pivot = nodes_[k];
    std::uint32_t to = pivot.begin;
    for (std::uint32_t q = pivot.begin; q < pivot.begin + pivot.length; ++q) {
      const std::uint32_t i = items_[q];
      Node& node = nodes_[i];
      if (node.size >= 0) continue;
      node.size = -node.size;
      const auto size = static_cast<std::uint32_t>(node.size);
      node.degree = std::min(node.degree + pivot.degree - size, n_ - eliminated_ - size);
      insert(i);
      least_ = std::min(least_, node.degree);
      items_[to++] = i;
    }
    const bool in_place = pivot.begin + pivot.length != used_;
    pivot.size = -pivot.size;
    pivot.length = to - pivot.begin;
    if (pivot.length == 0) {
      pivot.begin = kNone;
      pivot.mark = 0;
    }
    if (!in_place) used_ = to;
  }

  /// Marks of live nodes are below `mark`, which is the next one.
  void clear_marks(std::uint32_t mark) {
    constexpr std::uint32_t kMost = ~std::uint32_t{0} / 2;
    mark_ = mark;
    if (mark_ >= 2 && mark_ + largest_ < kMost) return;
    for (Node& node : nodes_)
      if (node.mark != 0) node.mark = 1;
    mark_ = 2;
  }

  /// Elements come behind those that they took over, and behind variables that were joined.
  List postorder_of_elements() const {
    // Children in the order of their kind, elements first.
    List number(n_), node(n_);
    std::uint32_t count = 0;
    for (const bool variables : {false, true}) {
      for (std::uint32_t i = 0; i < n_; ++i) {
        if ((nodes_[i].size <= 0) != variables) continue;
        number[i] = count;
        node[count++] = i;
      }
    }
    List parents(n_, kNoFront);
    for (std::uint32_t i = 0; i < n_; ++i)
      if (parent_[i] != kNone) parents[number[i]] = number[parent_[i]];
    List out = postorder(Forest(parents));
    for (std::uint32_t& k : out) k = node[k];
    return out;
  }

  std::uint32_t n_;
  std::vector<Node> nodes_;
  List parent_;       // of what is no longer in the graph: what took it over
  List heads_;        // first variable of each degree
  List buckets_;      // first variable of each hash
  List items_;        // lists of nodes; new ones are appended
  std::size_t used_;  // numbers of items_
  std::uint32_t eliminated_ = 0, least_ = 0, largest_ = 0, mark_ = 2;
};

}  // namespace

BlockGraph::BlockGraph(const LowerPattern& lower) : first(find_blocks(lower)) {
  constexpr std::uint32_t kInside = ~std::uint32_t{0};
  List block_of(lower.columns(), kInside);  // of first columns
  for (std::uint32_t b = 0; b < size(); ++b) block_of[first[b]] = b;
  // A block meets all columns of another one or none, so that first columns tell everything.
  const auto each_below = [&](std::uint32_t b, const auto& visit) {
    const std::span<const int> rows = lower.rows_below(first[b]);
    for (std::uint32_t k = 0; k < rows.size(); ++k) {
      const std::uint32_t other = block_of[static_cast<std::size_t>(rows[k])];
      if (other != kInside) visit(other, k);
    }
  };
  List after(size() + 1);  // neighbours that come later; then where they begin among all of these
  ir::parallel_for_beyond(ir::kLightCalls, std::uint32_t{0}, size(), [&](std::uint32_t b) {
    each_below(b, [&](std::uint32_t, std::uint32_t) { ++after[b + 1]; });
  });
  for (std::uint32_t b = 0; b < size(); ++b) after[b + 1] += after[b];
  List later(after.back()), sorted(after.back());
  ir::parallel_for_beyond(ir::kLightCalls, std::uint32_t{0}, size(), [&](std::uint32_t b) {
    std::uint32_t at = after[b];
    each_below(b, [&](std::uint32_t other, std::uint32_t k) {
      later[at] = other;
      sorted[at++] = k;
    });
  });

  List next(size());  // numbers of earlier neighbours, then where the next one goes
  for (const std::uint32_t other : later) ++next[other];
  starts.resize(size() + 1);
  for (std::uint32_t b = 0; b < size(); ++b) {
    starts[b + 1] = starts[b] + next[b] + after[b + 1] - after[b];
    next[b] = starts[b];
  }
  items.resize(starts.back());
  offsets.resize(starts.back());
  for (std::uint32_t b = 0; b < size(); ++b) {
    for (std::uint32_t at = after[b]; at < after[b + 1]; ++at) {
      const std::uint32_t to = next[later[at]]++;
      items[to] = b;
      offsets[to] = sorted[at];
    }
  }
  ir::parallel_for_beyond(ir::kLightCalls, std::uint32_t{0}, size(), [&](std::uint32_t b) {
    std::copy(later.begin() + after[b], later.begin() + after[b + 1], items.begin() + next[b]);
    std::copy(sorted.begin() + after[b], sorted.begin() + after[b + 1], offsets.begin() + next[b]);
  });
}

std::vector<std::uint32_t> fill_reducing_order(const BlockGraph& graph) {
  if (graph.size() == 0) return {};
  return MinimumDegree(graph).order();
}

}  // namespace topograd::runtime
