// Scheduling of nodes for few live values.
#include "passes.hpp"
#include "rewrite.hpp"

#include <algorithm>
#include <utility>

namespace topograd::ir {
namespace {

// Distinct operands of a node, at most three.
struct DistinctOperands {
  std::array<Id, 3> ids = {};
  int count = 0;
};

DistinctOperands distinct_operands(const Node& node) {
  DistinctOperands out;
  for (Id operand : node.operands()) {
    const auto end = out.ids.begin() + out.count;
    if (std::find(out.ids.begin(), end, operand) == end) out.ids[out.count++] = operand;
  }
  return out;
}

/// Evaluation order of a program: operands that need more values at a time are computed first.
/// Source: Sethi & Ullman, The Generation of Optimal Code for Arithmetic Expressions (1970).
class Scheduler {
 public:
  explicit Scheduler(const Program& program)
      : program_(program), need_(program.nodes.size()), map_(program.nodes.size(), kNone) {
    for (Id id = 0; id < need_.size(); ++id) need_[id] = need_of(program.nodes[id]);
  }

  Program run() {
    out_.leaves = program_.leaves;
    out_.nodes.reserve(program_.nodes.size());
    for (const Guard& g : program_.guards) compute(g.condition);
    for (Id id : program_.outputs) compute(id);
    for (const Guard& g : program_.guards) out_.guards.push_back({map_[g.condition], g.expected});
    for (Id id : program_.outputs) out_.outputs.push_back(map_[id]);
    return std::move(out_);
  }

 private:
  // Operands in evaluation order: the largest need first, ties in their present order.
  DistinctOperands order(const Node& node) const {
    DistinctOperands x = distinct_operands(node);
    const auto later = [&](Id a, Id b) {
      return need_[a] != need_[b] ? need_[a] < need_[b] : a > b;
    };
    for (int k = 1; k < x.count; ++k) {
      for (int at = k; at > 0 && later(x.ids[at - 1], x.ids[at]); --at) {
        std::swap(x.ids[at - 1], x.ids[at]);
      }
    }
    return x;
  }

  std::uint32_t need_of(const Node& node) const {
    if (is_leaf(node.op)) return node.op == Op::Literal ? 0 : 1;
    const DistinctOperands x = order(node);
    std::uint32_t need = 1, held = 0;
    for (int k = 0; k < x.count; ++k) {
      need = std::max(need, need_[x.ids[k]] + held);
      held += program_.nodes[x.ids[k]].op != Op::Literal;
    }
    return need;
  }

  void compute(Id root) {
    stack_.push_back(root);
    while (!stack_.empty()) {
      const Id id = stack_.back();
      if (map_[id] != kNone) {
        stack_.pop_back();
        continue;
      }
      const DistinctOperands x = order(program_.nodes[id]);
      bool ready = true;
      for (int k = x.count; k-- > 0;) {
        if (map_[x.ids[k]] != kNone) continue;
        stack_.push_back(x.ids[k]);
        ready = false;
      }
      if (!ready) continue;
      emit(id);
      stack_.pop_back();
    }
  }

  void emit(Id id) {
    Node node = program_.nodes[id];
    if (!is_leaf(node.op)) {
      for (int k = 0; k < arity(node.op); ++k) node.args[k] = map_[node.args[k]];
      node = make_node(node.op, node.args[0], node.args[1], node.args[2]);
    }
    map_[id] = static_cast<Id>(out_.nodes.size());
    out_.nodes.push_back(node);
  }

  const Program& program_;
  std::vector<std::uint32_t> need_;
  std::vector<Id> map_;
  std::vector<Id> stack_;
  Program out_;
};

}  // namespace

std::size_t max_live(const Program& program) {
  std::vector<Id> last(program.nodes.size(), kNone);
  for (Id id = 0; id < program.nodes.size(); ++id) {
    for (Id operand : program.nodes[id].operands()) last[operand] = id;
  }
  for (Id id : program.outputs) last[id] = static_cast<Id>(program.nodes.size());
  std::size_t live = 0, most = 0;
  for (Id id = 0; id < program.nodes.size(); ++id) {
    if (program.nodes[id].op == Op::Literal) continue;
    // An operand that is read for the last time frees its register for the result.
    const DistinctOperands x = distinct_operands(program.nodes[id]);
    for (int k = 0; k < x.count; ++k) {
      live -= last[x.ids[k]] == id && program.nodes[x.ids[k]].op != Op::Literal;
    }
    most = std::max(most, ++live);
    live -= last[id] == kNone;
  }
  return most;
}

Program schedule(const Program& program) {
  Program now = remove_dead(program);
  Program scheduled = Scheduler(now).run();
  const bool better = max_live(scheduled) <= max_live(now);
  return checked(better ? std::move(scheduled) : std::move(now), "schedule");
}

}  // namespace topograd::ir
