// Merges the leaves that read the same thing into slots, and builds the graph of a tape.
#include "extract.hpp"
#include "../../ir/program.hpp"
#include "problem_state.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace topograd::detail {
namespace {

constexpr std::uint32_t kFree = ~std::uint32_t{0};

void check_owner(const TapeNode& node, const char* kind, std::size_t count, const Caller& caller) {
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
  check_owner(node, "data", caller.data, caller);
  return (node.head & kSymbolic) == 0 ? next : slot_of_form.try_emplace(node.a, next).first->second;
}

Leaves collect(std::span<const TapeNode> nodes, const IndexOf& index_of, const Caller& caller) {
  Leaves leaves;
  leaves.slot.assign(nodes.size(), kFree);
  std::unordered_map<std::uint32_t, std::uint32_t> slot_of_form;
  for (std::uint32_t k = 0; k < nodes.size(); ++k) {
    const TapeNode& node = nodes[k];
    if (node.op() == ir::Op::Parameter) {
      check_owner(node, "parameter", caller.parameters, caller);
      const std::uint32_t index = index_of(node);
      if (caller.state != nullptr && caller.state->unknowns.is_removed(index))
        caller.fail_removed(index);
      leaves.parameters.add(k, index);
    } else if (node.op() == ir::Op::Uniform) {
      check_owner(node, "uniform", caller.uniforms, caller);
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

}  // namespace topograd::detail
