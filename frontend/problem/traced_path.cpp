// Runs callables, checks their branches, and makes paths concrete for an element.
#include "traced_path.hpp"

#include "problem_state.hpp"

#include <algorithm>
#include <unordered_map>

namespace topograd::detail {

TracedPath trace_path(const RowsOf& call, const Caller& caller) {
  const FinishResidual finish;
  begin_segment();
  const std::uint64_t begin = tape.mark - tape.tag;
  std::vector<Value> rows;
  call(rows);
  CompactTape compact;
  compact.assign(row_nodes(rows, caller));
  const RawTape raw = compact.view();
  TracedPath path;
  path.nodes.assign(raw.nodes.begin(), raw.nodes.end());
  path.rows.assign(raw.rows.begin(), raw.rows.end());
  for (const std::uint64_t id : compact.ids())
    path.origins.push_back(id < begin ? TracedPath::kCaptured + id : id - begin);
  for (std::size_t k = 0; k < raw.guards.size(); ++k) {
    const std::uint64_t at = compact.branches()[k].at;
    path.branches.push_back(
        {raw.guards[k].condition, raw.guards[k].expected, at < begin ? 0 : at - begin});
  }
  path.outer = raw.guards.size() - open_branches().size();
  return path;
}

namespace {

/// The nodes that the conditions of the first `count` branches need, ascending.
std::vector<std::uint32_t> nodes_of_conditions(const TracedPath& path, std::size_t count) {
  std::vector<char> needed(path.nodes.size(), 0);
  for (std::size_t k = 0; k < count; ++k) needed[path.branches[k].condition] = 1;
  for (std::size_t k = path.nodes.size(); k-- > 0;) {
    const TapeNode& node = path.nodes[k];
    const std::uint32_t back[3] = {node.a, node.b, node.c};
    for (int j = 0; needed[k] != 0 && j < ir::arity(node.op()); ++j) needed[k - back[j]] = 1;
  }
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t k = 0; k < needed.size(); ++k)
    if (needed[k] != 0) nodes.push_back(k);
  return nodes;
}

}  // namespace

PathConditions::PathConditions(const TracedPath& path, std::size_t count)
    : path_(path), count_(count), nodes_(nodes_of_conditions(path, count)) {}

bool PathConditions::hold(const ProblemState& state, const Point& point,
                          const ElementNumbers* element) const {
  thread_local std::vector<double> numbers;
  thread_local std::vector<char> known;
  numbers.resize(std::max(numbers.size(), path_.nodes.size()));
  known.resize(std::max(known.size(), path_.nodes.size()));
  for (const std::uint32_t k : nodes_) {
    const TapeNode& node = path_.nodes[k];
    const int arity = ir::arity(node.op());
    if (arity == 0) {
      const std::optional<double> number = leaf_number(node, state, point, element);
      known[k] = number.has_value();
      numbers[k] = number.value_or(0);
      continue;
    }
    const std::uint32_t back[3] = {node.a, node.b, node.c};
    double operands[3] = {0, 0, 0};
    known[k] = 1;
    for (int j = 0; j < arity; ++j) {
      operands[j] = numbers[k - back[j]];
      known[k] = known[k] && known[k - back[j]];
    }
    numbers[k] = apply_op(node.op(), operands, point.narrow);
  }
  return std::all_of(path_.branches.begin(), path_.branches.begin() + static_cast<long>(count_),
                     [&](const PathBranch& b) {
                       return known[b.condition] && (numbers[b.condition] != 0) == b.taken;
                     });
}

bool holds(const TracedPath& path, const ProblemState& state, const Point& point,
           const ElementNumbers* element) {
  return PathConditions(path, path.branches.size()).hold(state, point, element);
}

bool outer_holds(const TracedPath& path, const ProblemState& state, const Point& point,
                 const ElementNumbers* element) {
  return PathConditions(path, path.outer).hold(state, point, element);
}

bool same_branches(const TracedPath& a, const TracedPath& b) {
  return std::ranges::equal(
      a.own_branches(), b.own_branches(),
      [](const PathBranch& x, const PathBranch& y) { return x.taken == y.taken && x.at == y.at; });
}

ConcreteTape concrete(const TracedPath& path, const ElementNumbers& element,
                      std::uint32_t problem) {
  ConcreteTape out;
  std::vector<std::uint32_t> renamed(path.nodes.size());
  std::unordered_map<std::uint32_t, std::uint32_t> own;  // by form: one leaf for all its reads
  for (std::uint32_t k = 0; k < path.nodes.size(); ++k) {
    TapeNode node = path.nodes[k];
    const auto next = static_cast<std::uint32_t>(out.nodes.size());
    renamed[k] = next;
    if ((node.head & kSymbolic) != 0) {
      const AddressForm& form = element.forms[node.a];
      if (form.direct) {
        const auto [at, is_new] = own.try_emplace(node.a, next);
        renamed[k] = at->second;
        if (!is_new) continue;
        const auto bits = std::bit_cast<std::uint64_t>(element.data[form.column]);
        node = {head(ir::Op::Data), 0, static_cast<std::uint32_t>(bits),
                static_cast<std::uint32_t>(bits >> 32)};
      } else {
        const bool data = node.op() == ir::Op::Data;
        node = {head(node.op(), data ? kBound : 0), element.entry(form), problem, 0};
      }
    }
    const int arity = ir::arity(node.op());
    if (arity > 0) node.a = next - renamed[k - node.a];
    if (arity > 1) node.b = next - renamed[k - node.b];
    if (arity > 2) node.c = next - renamed[k - node.c];
    out.nodes.push_back(node);
  }
  for (const std::uint32_t row : path.rows) out.rows.push_back(renamed[row]);
  for (const PathBranch& b : path.branches) out.guards.push_back({renamed[b.condition], b.taken});
  return out;
}

}  // namespace topograd::detail
