// Evaluates the conditions of branches on the tape.
#include "branch.hpp"

#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "problem_state.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace topograd::detail {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::uint32_t, const ProblemState*> problems;
};

Registry& registry() {
  static Registry* const kInstance = new Registry;  // outlives every problem
  return *kInstance;
}

thread_local BranchScope* scope = nullptr;

[[noreturn]] void fail(ErrorCode code, const std::string& what) {
  throw Error(code, "if: " + what);
}

double round_to(double number, bool narrow) {
  return narrow ? static_cast<double>(static_cast<float>(number)) : number;
}

double user_parameter(const ProblemState& state, std::uint32_t index) {
  if (state.unknowns.is_removed(index))
    fail(ErrorCode::InvalidArgument,
         "parameter " + std::to_string(index) + " is of an array that was removed");
  const ParameterArray& array = state.unknowns.arrays()[state.unknowns.array_number(index)];
  return array.values[index - array.offset];
}

/// Numbers of nodes of this thread's tape, each computed once while nothing changes.
class Conditions {
 public:
  /// The condition's number, and whether it depends on variables of the eager mode.
  struct Answer {
    double number;
    bool eager;
  };

  Answer evaluate(std::uint64_t root) {
    if (known_.size() < tape.size) {
      known_.resize(tape.size, 0);
      numbers_.resize(tape.size);
    }
    stack_.assign(1, root);
    while (!stack_.empty()) {
      const std::uint64_t id = stack_.back();
      if (is_known(id)) {
        stack_.pop_back();
        continue;
      }
      const TapeNode& node = tape.nodes[id];
      const std::uint64_t operands[3] = {id - node.a, id - node.b, id - node.c};
      const int arity = ir::arity(node.op());
      const std::size_t before = stack_.size();
      for (int k = 0; k < arity; ++k)
        if (!is_known(operands[k])) stack_.push_back(operands[k]);
      if (stack_.size() > before) continue;
      known_[id] = tape.generation + 1;
      numbers_[id] = arity == 0 ? leaf(node) : op(node.op(), operands, arity);
      stack_.pop_back();
    }
    return numbers_[root];
  }

 private:
  bool is_known(std::uint64_t id) const { return known_[id] == tape.generation + 1; }

  Answer op(ir::Op op, const std::uint64_t operands[3], int arity) const {
    double numbers[3] = {0, 0, 0};
    bool eager = false;
    for (int k = 0; k < arity; ++k) {
      numbers[k] = numbers_[operands[k]].number;
      eager = eager || numbers_[operands[k]].eager;
    }
    return {apply_op(op, numbers, scope != nullptr && scope->point().narrow), eager};
  }

  static Answer leaf(const TapeNode& node) {
    if ((node.head & kEager) != 0) return {eager_number(node.a), true};
    const ProblemState* state = nullptr;
    if (scope != nullptr) state = &scope->state();
    const bool owned = node.op() == ir::Op::Parameter || node.op() == ir::Op::Uniform ||
                       (node.head & (kBound | kSymbolic)) != 0;
    if (owned && (state == nullptr || node.b != state->serial)) state = problem_of(node.b);
    if (owned && state == nullptr)
      fail(ErrorCode::WrongProblem, "the condition reads a " +
                                        std::string(ir::info(node.op()).name) +
                                        " of a problem that is no more");
    if ((node.head & kSymbolic) != 0) return {symbolic(node), false};
    if (!owned)
      return {round_to(number_of(node), scope != nullptr && scope->point().narrow), false};
    const bool scoped = scope != nullptr && state == &scope->state();
    return {*leaf_number(node, *state, scoped ? scope->point() : Point{}, nullptr), false};
  }

  static double symbolic(const TapeNode& node) {
    const BranchScope::Element* element = scope == nullptr ? nullptr : scope->element();
    if (element == nullptr || element->trace->serial != node.c)
      fail(
          ErrorCode::StaleValue,
          "the condition reads a Value of a map's element outside of the callable that it was made "
          "for");
    const ElementNumbers numbers{element->trace->forms, element->indices, element->data};
    const AddressForm& form = numbers.forms[node.a];
    if (!form.direct && !numbers.in_range(form))
      fail(ErrorCode::InvalidArgument,
           "the condition reads index " + std::to_string(form.column) +
               " of an element, which selects block " +
               std::to_string(form.block(numbers.indices[form.column])) +
               of_array({node.b, form.base, node.op() == ir::Op::Data}) +
               ", out of range (the array has " + std::to_string(form.blocks) + ")");
    return *leaf_number(node, scope->state(), scope->point(), &numbers);
  }

  // By node: one more than the generation in which it was computed
  std::vector<std::uint64_t> known_;
  std::vector<Answer> numbers_;
  std::vector<std::uint64_t> stack_;
};

thread_local Conditions conditions;

}  // namespace

std::optional<double> leaf_number(const TapeNode& leaf, const ProblemState& state,
                                  const Point& point, const ElementNumbers* element) {
  if ((leaf.head & kEager) != 0) return std::nullopt;
  std::uint32_t entry = leaf.a;
  double number = 0;
  const bool symbolic = (leaf.head & kSymbolic) != 0;
  if (symbolic) {
    if (element == nullptr) return std::nullopt;
    const AddressForm& form = element->forms[leaf.a];
    if (form.direct) return round_to(element->data[form.column], point.narrow);
    if (!element->in_range(form)) return std::nullopt;
    entry = element->entry(form);
  }
  if (leaf.op() == ir::Op::Parameter) {
    if (leaf.b != state.serial) return std::nullopt;
    number = point.x.empty() ? user_parameter(state, entry) : point.x[entry];
  } else if (leaf.op() == ir::Op::Uniform) {
    if (leaf.b != state.serial) return std::nullopt;
    number = state.uniforms[entry];
  } else {
    const bool of_array = leaf.op() == ir::Op::Data && (symbolic || (leaf.head & kBound) != 0);
    number = of_array ? state.data.numbers()[entry] : number_of(leaf);
  }
  return round_to(number, point.narrow);
}

double apply_op(ir::Op op, const double operands[3], bool narrow) {
  if (!narrow) return ir::apply<double>(op, operands[0], operands[1], operands[2]);
  const auto f = [&](int k) { return static_cast<float>(operands[k]); };
  return static_cast<double>(ir::apply<float>(op, f(0), f(1), f(2)));
}

BranchScope::BranchScope(const ProblemState& state, const Point& point, const Element* element,
                         std::span<const bool> script)
    : state_(state), point_(point), element_(element), script_(script), outer_(scope) {
  scope = this;
  ++tape.generation;
}

BranchScope::~BranchScope() {
  scope = outer_;
  ++tape.generation;
}

std::optional<bool> BranchScope::scripted() {
  if (script_.empty()) return std::nullopt;
  const bool answer = script_.front();
  script_ = script_.subspan(1);
  return answer;
}

const ProblemState* problem_of(std::uint32_t serial) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().problems.find(serial);
  return found == registry().problems.end() ? nullptr : found->second;
}

void enter_problem(const ProblemState& state) {
  const std::lock_guard lock(registry().mutex);
  registry().problems.emplace(state.serial, &state);
}

void leave_problem(const ProblemState& state) {
  const std::lock_guard lock(registry().mutex);
  registry().problems.erase(state.serial);
}

bool take_branch(std::uint64_t condition_bits) {
  const std::uint64_t id = node_of(condition_bits);
  if (condition_bits == 0 || id >= tape.size)
    fail(ErrorCode::StaleValue, "the condition belongs to another thread, or its thread has ended");
  std::optional<bool> taken;
  if (scope != nullptr) taken = scope->scripted();
  if (!taken) {
    const Conditions::Answer answer = conditions.evaluate(id);
    if (answer.eager) {
      ++tape.generation;  // set_value() may be called before the next branch
      return answer.number != 0;
    }
    taken = answer.number != 0;
  }
  mark_branch(condition_bits, *taken);
  return *taken;
}

}  // namespace topograd::detail
