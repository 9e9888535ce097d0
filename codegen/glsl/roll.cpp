// Groups nodes of equal shape, orders them, and assigns array indices to their values.
#include "roll.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace topograd::codegen {
namespace {

using ir::Id;
using ir::Node;
using ir::Op;

/// Lanes of a loop, at least.
constexpr std::size_t kLeastLanes = 2;
/// Lanes that are calls of a function, at most; more are a loop. Loops keep the numbers that they
/// exchange in arrays: Mesa's compiler for processors makes 60 to 100 instructions of each access.
constexpr std::size_t kMostCalls = 16;
/// Elementary functions in such lanes, at most; a program with more has loops alone. Compilers
/// write a function's code for each call of it.
constexpr std::size_t kMostFunctions = 32;
/// Statements that a loop's head costs.
constexpr std::size_t kHead = 4;
/// Part of the statements that loops must leave at most.
constexpr double kWorthwhile = 0.75;

constexpr std::uint32_t kNoGroup = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kForever = std::numeric_limits<std::size_t>::max();

class Roller {
 public:
  Roller(const Prepared& prepared, std::span<const std::uint32_t> coordinate,
         const LeafNames& names, bool apart)
      : nodes_(prepared.program.nodes),
        prepared_(prepared),
        coordinate_(coordinate),
        names_(names),
        along_(apart ? along_tangents(prepared) : std::vector<bool>(nodes_.size())),
        normal_(nodes_),
        class_(nodes_.size(), 0),
        done_(nodes_.size(), false),
        scalar_step_(nodes_.size(), 0) {}

  std::optional<Roll> run() {
    find_classes();
    if (functions_in_calls() > kMostFunctions) most_calls_ = 0;
    split_classes();
    find_groups();
    align_lanes();
    order(roll_.steps, false);
    order(roll_.along, true);
    find_stored();
    find_apart();
    assign_indices();
    count_statements();
    return std::move(roll_);
  }

 private:
  // Classes: nodes of the same shape.

  std::array<std::uint64_t, 5> key_of(Id id) {
    const Node& node = nodes_[id];
    const auto op = static_cast<std::uint64_t>(node.op);
    switch (node.op) {
      case Op::Literal: return {op, id};
      case Op::Parameter:
      case Op::Tangent: return {op, coordinate_[node.slot()]};
      case Op::Uniform: return {op, node.slot()};
      default: break;
    }
    if (ir::is_leaf(node.op)) return {op};
    Node& normal = normal_[id];
    if (ir::info(node.op).commutes && class_[normal.args[1]] < class_[normal.args[0]])
      std::swap(normal.args[0], normal.args[1]);
    std::array<std::uint64_t, 5> key = {
        op, (along_[id] ? 1u : 0u) + (prepared_.is_zero_by_either(id) ? 2u : 0u)};
    for (std::size_t k = 0; k < normal.operands().size(); ++k)
      key[2 + k] = class_[normal.args[k]] + 1;
    return key;
  }

  void find_classes() {
    std::map<std::array<std::uint64_t, 5>, std::uint32_t> known;
    for (Id id = 0; id < nodes_.size(); ++id) {
      if (!prepared_.live[id]) continue;
      const auto [at, fresh] =
          known.try_emplace(key_of(id), static_cast<std::uint32_t>(members_.size()));
      if (fresh) members_.emplace_back();
      class_[id] = at->second;
      members_[at->second].push_back(id);
    }
  }

  /// Elementary functions that calls would have: those have errors in f64, unlike a root.
  std::size_t functions_in_calls() const {
    std::size_t count = 0;
    for (const std::vector<Id>& members : members_) {
      const bool calls = members.size() >= kLeastLanes && members.size() <= kMostCalls;
      if (calls && ir::info(nodes_[members[0]].op).ulp_f64 > 0) count += members.size();
    }
    return count;
  }

  /// Splits classes whose members are read in different ways: the products of a difference of two
  /// become two classes with as many members as the difference. Each class comes after those that
  /// it reads.
  void split_classes() {
    std::vector<std::vector<std::vector<Id>>> parts(members_.size());
    Reads reads(nodes_.size());
    std::uint64_t part_number = 0;
    for (std::size_t c = members_.size(); c-- > 0;) {
      parts[c] = parts_of(members_[c], reads);
      for (const std::vector<Id>& part : parts[c]) {
        for (const Id member : part) {
          const auto operands = normal_[member].operands();
          for (std::size_t k = 0; k < operands.size() && part.size() >= kLeastLanes; ++k)
            reads[operands[k]].push_back(3 * part_number + k);
        }
        ++part_number;
      }
    }
    members_.clear();
    for (std::vector<std::vector<Id>>& of_class : parts) {
      for (std::vector<Id>& part : of_class) {
        for (const Id member : part) class_[member] = static_cast<std::uint32_t>(members_.size());
        members_.push_back(std::move(part));
      }
    }
  }

  /// By node: which class reads it, and as which operand.
  using Reads = std::vector<std::vector<std::uint64_t>>;

  /// Parts of one size, or the whole. A class reads its operands from one part.
  std::vector<std::vector<Id>> parts_of(const std::vector<Id>& members, Reads& reads) const {
    if (ir::is_leaf(nodes_[members[0]].op) || members.size() < 2 * kLeastLanes) return {members};
    std::map<std::vector<std::uint64_t>, std::vector<Id>> by_reads;
    for (const Id member : members) {
      std::vector<std::uint64_t>& of = reads[member];
      std::ranges::sort(of);
      of.erase(std::ranges::unique(of).begin(), of.end());
      by_reads[of].push_back(member);
    }
    std::set<std::uint64_t> seen;
    std::vector<std::vector<Id>> parts;
    const std::size_t size = by_reads.begin()->second.size();
    if (size < kLeastLanes || size > most_calls_) return {members};
    for (auto& [of, part] : by_reads) {
      const bool apart =
          std::ranges::all_of(of, [&](auto read) { return seen.insert(read).second; });
      if (!apart || part.size() != size) return {members};
      parts.push_back(std::move(part));
    }
    return parts;
  }

  // Groups: classes with enough members, and others that they read by lane.

  void find_groups() {
    group_of_class_.assign(members_.size(), kNoGroup);
    lane_.assign(nodes_.size(), 0);
    for (std::uint32_t c = 0; c < members_.size(); ++c) {
      if (members_[c].size() < kLeastLanes || ir::is_leaf(nodes_[members_[c][0]].op)) continue;
      LaneGroup group{
          .members = members_[c], .operands = {}, .first = {}, .array = {}, .indices = {}};
      sort_lanes(group);
      group.first = normal_[group.members[0]];
      group.boolean = ir::info(group.first.op).boolean;
      group.calls = group.members.size() <= most_calls_;
      for (std::size_t k = 0; k < group.first.operands().size(); ++k)
        group.operands[k] = operand_of(group, k);
      add_group(c, std::move(group));
    }
  }

  /// Lanes of groups of calls follow those of what reads them, so that more of them are in one
  /// function.
  void align_lanes() {
    std::vector<std::vector<std::uint32_t>> together(roll_.groups.size());  // groups aligned so far
    std::vector<std::uint32_t> set_of(roll_.groups.size());
    for (std::uint32_t g = 0; g < roll_.groups.size(); ++g) {
      together[g] = {g};
      set_of[g] = g;
    }
    for (std::uint32_t g = static_cast<std::uint32_t>(roll_.groups.size()); g-- > 0;) {
      const LaneGroup& group = roll_.groups[g];
      for (std::size_t k = 0; k < group.first.operands().size() && group.calls; ++k) {
        const std::uint32_t source = group.operands[k].group;
        if (group.operands[k].scalar != ir::kNone || set_of[source] == set_of[g]) continue;
        const std::vector<std::uint32_t> order = lanes_read(group, k);
        if (order.empty()) continue;
        std::vector<std::uint32_t>& moved = together[set_of[source]];
        for (const std::uint32_t m : moved) reorder(roll_.groups[m], order);
        for (const std::uint32_t m : moved) set_of[m] = set_of[g];
        std::vector<std::uint32_t>& kept = together[set_of[g]];
        kept.insert(kept.end(), moved.begin(), moved.end());
        moved.clear();
      }
    }
    for (LaneGroup& group : roll_.groups) {  // loops read lanes that have moved, too
      if (!group.computes) continue;
      group.first = normal_[group.members[0]];
      for (std::size_t k = 0; k < group.first.operands().size(); ++k)
        group.operands[k] = operand_of(group, k);
    }
  }

  /// By lane, the lane of what it reads; empty if these are not as many, one each.
  std::vector<std::uint32_t> lanes_read(const LaneGroup& group, std::size_t k) const {
    const LaneGroup& source = roll_.groups[group.operands[k].group];
    if (!source.computes || source.members.size() != group.members.size()) return {};
    std::vector<std::uint32_t> order;
    std::vector<bool> seen(group.members.size(), false);
    for (const Id member : group.members) {
      order.push_back(lane_[normal_[member].args[k]]);
      if (seen[order.back()]) return {};
      seen[order.back()] = true;
    }
    return order;
  }

  void reorder(LaneGroup& group, const std::vector<std::uint32_t>& order) {
    std::vector<Id> members;
    for (const std::uint32_t lane : order) members.push_back(group.members[lane]);
    group.members = std::move(members);
    for (std::uint32_t l = 0; l < order.size(); ++l) lane_[group.members[l]] = l;
  }

  void add_group(std::uint32_t c, LaneGroup group) {
    for (std::uint32_t l = 0; l < group.members.size(); ++l) lane_[group.members[l]] = l;
    group_of_class_[c] = static_cast<std::uint32_t>(roll_.groups.size());
    roll_.groups.push_back(std::move(group));
  }

  /// Lanes follow those of the first operand that has as many, one each.
  void sort_lanes(LaneGroup& group) {
    for (std::size_t k = 0; k < normal_[group.members[0]].operands().size(); ++k) {
      const std::uint32_t source = group_of_class_[class_[normal_[group.members[0]].args[k]]];
      if (source == kNoGroup || roll_.groups[source].members.size() != group.members.size())
        continue;
      std::vector<Id> sorted(group.members.size(), ir::kNone);
      for (const Id member : group.members) sorted[lane_[normal_[member].args[k]]] = member;
      if (std::ranges::find(sorted, ir::kNone) != sorted.end()) continue;
      group.members = std::move(sorted);
      return;
    }
  }

  LaneOperand operand_of(const LaneGroup& group, std::size_t k) {
    const Id first = normal_[group.members[0]].args[k];
    const bool same = std::ranges::all_of(
        group.members, [&](Id member) { return normal_[member].args[k] == first; });
    if (same) return {.scalar = first, .lanes = {}};
    const std::uint32_t c = class_[first];
    if (group_of_class_[c] == kNoGroup) add_copies(c);
    LaneOperand out{.group = group_of_class_[c], .lanes = {}, .same_lane = true};
    for (const Id member : group.members) {
      out.same_lane = out.same_lane && lane_[normal_[member].args[k]] == out.lanes.size();
      out.lanes.push_back(lane_[normal_[member].args[k]]);
    }
    const LaneGroup& source = roll_.groups[out.group];
    out.same_lane = out.same_lane && source.members.size() == group.members.size();
    return out;
  }

  /// A group of leaves, or of nodes that are too few for a loop of their own.
  void add_copies(std::uint32_t c) {
    LaneGroup group{.members = members_[c],
                    .operands = {},
                    .first = nodes_[members_[c][0]],
                    .computes = false,
                    .boolean = ir::info(nodes_[members_[c][0]].op).boolean,
                    .array = {},
                    .indices = {}};
    for (const Id member : group.members) {
      if (!lies_in_array(member, group)) break;
    }
    if (group.indices.size() != group.members.size()) group.array.clear();
    add_group(c, std::move(group));
  }

  /// Reads a leaf's name that is an element of an array: "all_x[3u]".
  bool lies_in_array(Id leaf, LaneGroup& group) {
    if (!ir::is_leaf(nodes_[leaf].op) || nodes_[leaf].op == Op::Literal) return false;
    const std::string& name = names_.at(nodes_[leaf].op, nodes_[leaf].slot());
    const std::size_t open = name.find('[');
    if (open == std::string::npos || !name.ends_with("u]")) return false;
    std::uint32_t index = 0;
    std::from_chars(name.data() + open + 1, name.data() + name.size(), index);
    if (group.indices.empty()) group.array = name.substr(0, open);
    if (name.compare(0, open, group.array) != 0) return false;
    group.indices.push_back(index);
    return true;
  }

  // Order.

  std::uint32_t group_of(Id id) const { return group_of_class_[class_[id]]; }
  bool in_loop(Id id) const {
    const std::uint32_t group = group_of(id);
    return group != kNoGroup && roll_.groups[group].computes;
  }

  void order(std::vector<RollStep>& steps, bool along) {
    std::vector<Id> scalars;
    for (Id id = 0; id < nodes_.size(); ++id) {
      if (prepared_.live[id] && along_[id] == along && !in_loop(id)) scalars.push_back(id);
    }
    std::vector<std::uint32_t> groups;
    for (std::uint32_t g = 0; g < roll_.groups.size(); ++g) {
      if (along_[roll_.groups[g].members[0]] == along) groups.push_back(g);
    }
    while (!scalars.empty() || !groups.empty()) {
      write_scalars(steps, scalars);
      write_copies(steps, groups);
      write_loop(steps, groups);
    }
  }

  void write_scalars(std::vector<RollStep>& steps, std::vector<Id>& scalars) {
    std::erase_if(scalars, [&](Id id) {
      const auto operands = nodes_[id].operands();
      if (!std::ranges::all_of(operands, [&](Id arg) { return done_[arg]; })) return false;
      done_[id] = true;
      scalar_step_[id] = step_;
      steps.push_back({.scalar = id, .groups = {}});
      ++step_;
      return true;
    });
  }

  void write_copies(std::vector<RollStep>& steps, std::vector<std::uint32_t>& groups) {
    std::erase_if(groups, [&](std::uint32_t g) {
      const LaneGroup& group = roll_.groups[g];
      if (group.computes) return false;
      if (!std::ranges::all_of(group.members, [&](Id id) { return done_[id]; })) return false;
      put(steps, {g});
      return true;
    });
  }

  void put(std::vector<RollStep>& steps, std::vector<std::uint32_t> groups) {
    for (const std::uint32_t g : groups) group_step_[g] = step_;
    steps.push_back({.groups = std::move(groups)});
    ++step_;
  }

  /// Loops over as many groups of one size as can be computed lane by lane.
  void write_loop(std::vector<RollStep>& steps, std::vector<std::uint32_t>& groups) {
    std::vector<std::uint32_t> loop;
    std::size_t size = 0;
    std::erase_if(groups, [&](std::uint32_t g) {
      const LaneGroup& group = roll_.groups[g];
      if (!group.computes || (size != 0 && group.members.size() != size)) return false;
      const auto is_ready = [&](const LaneOperand& operand) {
        if (operand.scalar != ir::kNone) return bool{done_[operand.scalar]};
        if (group_step_.contains(operand.group)) return true;
        return operand.same_lane && std::ranges::find(loop, operand.group) != loop.end();
      };
      const std::span operands(group.operands.data(), group.first.operands().size());
      if (!std::ranges::all_of(operands, is_ready)) return false;
      size = group.members.size();
      loop.push_back(g);
      return true;
    });
    if (loop.empty()) return;
    for (const std::uint32_t g : loop)
      for (const Id member : roll_.groups[g].members) done_[member] = true;
    put(steps, std::move(loop));
  }

  // Arrays.

  void use(std::uint32_t g, std::size_t step) {
    LaneGroup& group = roll_.groups[g];
    if (group_step_.at(g) == step) return;  // read in its own loop
    group.stored = true;
    std::size_t& last = last_use_[g];
    // Steps along tangents run once for each column.
    const bool repeated = step >= roll_.steps.size() && group_step_.at(g) < roll_.steps.size();
    last = std::max(last, repeated ? kForever : step);
  }

  /// Reads single nodes, in a statement or as an argument.
  void use_node(Id id, std::size_t step) {
    if (!in_loop(id)) return;
    const std::uint32_t g = group_of(id);
    if (!roll_.groups[g].calls) return use(g, step);
    if (group_step_.at(g) != step) roll_.groups[g].returned = true;
  }

  void use_lanes(const LaneOperand& operand, bool calls, std::size_t step) {
    if (operand.scalar != ir::kNone) return use_node(operand.scalar, step);
    if (!calls) return use(operand.group, step);
    for (const std::uint32_t lane : operand.lanes)
      use_node(roll_.groups[operand.group].members[lane], step);
  }

  void find_stored() {
    for (Id id = 0; id < nodes_.size(); ++id) {
      if (!prepared_.live[id] || in_loop(id)) continue;
      for (const Id arg : nodes_[id].operands()) use_node(arg, scalar_step_[id]);
    }
    for (std::uint32_t g = 0; g < roll_.groups.size(); ++g) {
      const LaneGroup& group = roll_.groups[g];
      if (!group.computes) continue;
      for (std::size_t k = 0; k < group.first.operands().size(); ++k)
        use_lanes(group.operands[k], group.calls, group_step_.at(g));
    }
    for (const Id output : prepared_.program.outputs) use_node(output, kForever);
    for (const ir::Guard& guard : prepared_.program.guards)
      if (prepared_.live[guard.condition]) use_node(guard.condition, kForever);
  }

  void assign_indices() {
    // Free indices by size, of numbers and of conditions.
    std::array<std::map<std::size_t, std::vector<std::uint32_t>>, 2> free;
    std::map<std::size_t, std::vector<std::uint32_t>> ends;  // groups by the step of their last use
    std::size_t step = 0;
    const auto assign = [&](std::uint32_t g) {
      LaneGroup& group = roll_.groups[g];
      if (!group.stored || !group.array.empty()) return;
      std::vector<std::uint32_t>& there = free[group.boolean ? 1 : 0][group.members.size()];
      std::uint32_t& size = group.boolean ? roll_.flags : roll_.numbers;
      if (there.empty()) {
        group.base = size;
        size += static_cast<std::uint32_t>(group.members.size());
      } else {
        group.base = there.back();
        there.pop_back();
      }
      ends[last_use_.at(g)].push_back(g);
    };
    for (const auto* steps : {&roll_.steps, &roll_.along}) {
      for (const RollStep& at : *steps) {
        for (const std::uint32_t g : at.groups) assign(g);
        for (const std::uint32_t g : ends[step]) {
          const LaneGroup& group = roll_.groups[g];
          free[group.boolean ? 1 : 0][group.members.size()].push_back(group.base);
        }
        ++step;
      }
    }
  }

  // Calls.

  /// Arguments of a call.
  std::size_t arguments(const RollStep& step) const {
    std::set<std::vector<Id>> found;
    for (const std::uint32_t g : step.groups) {
      const LaneGroup& group = roll_.groups[g];
      for (std::size_t k = 0; k < group.first.operands().size(); ++k) {
        const LaneOperand& operand = group.operands[k];
        if (operand.scalar != ir::kNone) {
          if (nodes_[operand.scalar].op != Op::Literal) found.insert({operand.scalar});
          continue;
        }
        if (std::ranges::find(step.groups, operand.group) != step.groups.end()) continue;
        std::vector<Id> by_lane;
        for (const std::uint32_t lane : operand.lanes)
          by_lane.push_back(roll_.groups[operand.group].members[lane]);
        found.insert(std::move(by_lane));
      }
    }
    return found.size();
  }

  /// Compares bytes of SPIR-V.
  bool is_shorter_apart(const RollStep& step) const {
    constexpr std::size_t kStatement = 36, kFunction = 80, kCall = 16;
    constexpr std::size_t kParameter = 16, kMember = 8, kArgument = 4, kResult = 20;
    std::size_t results = 0;
    for (const std::uint32_t g : step.groups) results += roll_.groups[g].returned;
    const std::size_t lanes = roll_.groups[step.groups[0]].members.size();
    const std::size_t given = arguments(step), body = kStatement * step.groups.size();
    const std::size_t function = kFunction + body + kParameter * given + kMember * results;
    return lanes * body <= function + lanes * (kCall + kArgument * given + kResult * results);
  }

  void find_apart() {
    for (auto* steps : {&roll_.steps, &roll_.along})
      for (RollStep& step : *steps)
        step.apart = !step.groups.empty() && roll_.groups[step.groups[0]].computes &&
                     roll_.groups[step.groups[0]].calls && is_shorter_apart(step);
  }

  std::size_t statements(const RollStep& step) const {
    if (step.scalar != ir::kNone) return ir::is_leaf(nodes_[step.scalar].op) ? 0 : 1;
    const LaneGroup& first = roll_.groups[step.groups[0]];
    const std::size_t lanes = first.members.size();
    std::size_t count = 0;
    if (first.computes) count += (step.apart ? lanes : 1) * step.groups.size();
    if (first.computes && !first.calls) count += kHead;
    if (first.computes && first.calls && !step.apart) count += lanes;
    const std::size_t copies = first.calls || !first.computes ? lanes : 1;
    for (const std::uint32_t g : step.groups)
      count += roll_.groups[g].stored && roll_.groups[g].array.empty() ? copies : 0;
    return count;
  }

  void count_statements() {
    for (const auto* steps : {&roll_.steps, &roll_.along})
      for (const RollStep& step : *steps) roll_.statements += statements(step);
  }

  const std::vector<Node>& nodes_;
  const Prepared& prepared_;
  std::span<const std::uint32_t> coordinate_;
  const LeafNames& names_;
  std::vector<bool> along_;
  std::vector<Node> normal_;  // operands of commutative ops in the order of their classes
  std::vector<std::uint32_t> class_;
  std::vector<std::vector<Id>> members_;       // by class
  std::vector<std::uint32_t> group_of_class_;  // or kNoGroup
  std::vector<std::uint32_t> lane_;            // of a member of a group
  std::size_t most_calls_ = kMostCalls;
  Roll roll_;
  std::size_t step_ = 0;
  std::vector<bool> done_;
  std::vector<std::size_t> scalar_step_;
  std::map<std::uint32_t, std::size_t> group_step_, last_use_;
};

}  // namespace

std::optional<Roll> find_roll(const Prepared& prepared, std::span<const std::uint32_t> coordinate,
                              const LeafNames& names, bool apart) {
  if (!prepared.is_long) return std::nullopt;
  std::array<std::uint32_t, ir::kOpCount> counts{};
  prepared.count_operations(counts);
  const std::size_t operations = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  std::optional<Roll> roll = Roller(prepared, coordinate, names, apart).run();
  const double most = kWorthwhile * static_cast<double>(operations);
  return static_cast<double>(roll->statements) <= most ? roll : std::nullopt;
}

}  // namespace topograd::codegen
