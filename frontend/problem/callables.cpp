// Evaluates conditions of branches, runs callables, combines their paths, and traces again.
#include "callables.hpp"

#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "problem_state.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
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

namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

[[noreturn]] void fail_unequal(const Caller& caller) {
  caller.fail(ErrorCode::InvalidArgument,
              "expected a callable that does the same when it is called again with the same "
              "parameters, got one that branches elsewhere");
}

/// The number of nodes that the callable had made when two paths parted.
std::uint64_t parting(const TracedPath& a, const TracedPath& b, const Caller& caller) {
  const std::span<const PathBranch> p = a.own_branches(), q = b.own_branches();
  for (std::size_t k = 0; k < std::min(p.size(), q.size()); ++k) {
    if (p[k].at != q[k].at) fail_unequal(caller);
    if (p[k].taken != q[k].taken) return p[k].at;
  }
  fail_unequal(caller);
}

class Combination {
 public:
  Combination(std::span<const TracedPath* const> paths, const Caller& caller)
      : paths_(paths), caller_(caller), renamed_(paths.size()) {}

  TracedPath run() {
    for (std::size_t i = 0; i < paths_.size(); ++i) take_nodes(i);
    for (std::size_t i = 0; i < paths_.size(); ++i)
      for (std::size_t k = 0; k < paths_[i]->outer; ++k)
        out_.branches.push_back(
            {renamed_[i][paths_[i]->branches[k].condition], paths_[i]->branches[k].taken});
    out_.outer = out_.branches.size();
    std::vector<std::size_t> all(paths_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    out_.rows = rows_of(all, 0, std::nullopt);
    return std::move(out_);
  }

 private:
  using Key = std::array<std::uint64_t, 4>;

  std::uint32_t intern(const Key& key, const TapeNode& node) {
    const auto next = static_cast<std::uint32_t>(out_.nodes.size());
    const auto [at, is_new] = known_.try_emplace(key, next);
    if (is_new) {
      out_.nodes.push_back(node);
      out_.origins.push_back(next);
    }
    return at->second;
  }

  std::uint32_t op(ir::Op op, std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0) {
    const int arity = ir::arity(op);
    if (arity < 2) b = 0;
    if (arity < 3) c = 0;
    const auto next = static_cast<std::uint32_t>(out_.nodes.size());
    return intern({head(op), a, b, c},
                  {head(op), next - a, arity > 1 ? next - b : 0, arity > 2 ? next - c : 0});
  }

  /// A number in the code is the same one in two paths only if they had not parted before it.
  std::uint32_t number(std::size_t i, std::uint32_t k) {
    const TracedPath& path = *paths_[i];
    const std::uint64_t origin = path.origins[k];
    std::uint64_t first = i;
    for (std::size_t j = 0; j < i && first == i; ++j) {
      const bool common =
          origin >= TracedPath::kCaptured || origin < parting(*paths_[j], path, caller_);
      if (common) first = j;
    }
    const TapeNode& node = path.nodes[k];
    return intern({node.head, first, origin, kNever}, node);
  }

  std::uint32_t symbolic(const TracedPath& path, TapeNode node) {
    const AddressForm& form = path.forms[node.a];
    const auto at = std::ranges::find(out_.forms, form);
    node.a = static_cast<std::uint32_t>(at - out_.forms.begin());
    if (at == out_.forms.end()) out_.forms.push_back(form);
    return intern({node.head, node.a, node.b, 0}, node);
  }

  void take_nodes(std::size_t i) {
    const TracedPath& path = *paths_[i];
    std::vector<std::uint32_t>& renamed = renamed_[i];
    for (std::uint32_t k = 0; k < path.nodes.size(); ++k) {
      const TapeNode& n = path.nodes[k];
      const int arity = ir::arity(n.op());
      if (arity > 0) {
        renamed.push_back(op(n.op(), renamed[k - n.a], arity > 1 ? renamed[k - n.b] : 0,
                             arity > 2 ? renamed[k - n.c] : 0));
      } else if ((n.head & kSymbolic) != 0) {
        renamed.push_back(symbolic(path, n));
      } else if (n.head == head(ir::Op::Data)) {
        renamed.push_back(number(i, k));
      } else {
        renamed.push_back(intern({n.head, n.a, n.b, n.c}, n));
      }
    }
  }

  /// Requires that the branch goes this way wherever `reach` is true.
  void add_branch(std::uint32_t condition, bool taken, const std::optional<std::uint32_t>& reach) {
    if (!reach) {
      out_.branches.push_back({condition, taken});
      return;
    }
    const std::uint32_t right = taken ? condition : op(ir::Op::Not, condition);
    out_.branches.push_back({op(ir::Op::Or, op(ir::Op::Not, *reach), right), true});
  }

  std::uint32_t both(const std::optional<std::uint32_t>& reach, std::uint32_t condition) {
    return reach ? op(ir::Op::And, *reach, condition) : condition;
  }

  /// Rows of these paths, which agree in their first `depth` branches.
  std::vector<std::uint32_t> rows_of(const std::vector<std::size_t>& group, std::size_t depth,
                                     std::optional<std::uint32_t> reach) {
    const std::size_t first = group.front();
    const std::span<const PathBranch> branches = paths_[first]->own_branches();
    for (; depth < branches.size(); ++depth) {
      std::vector<std::size_t> sides[2];
      for (const std::size_t i : group) {
        if (depth >= paths_[i]->own_branches().size()) fail_unequal(caller_);
        sides[paths_[i]->own_branches()[depth].taken ? 1 : 0].push_back(i);
      }
      const std::uint32_t condition = renamed_[first][branches[depth].condition];
      if (sides[0].empty() || sides[1].empty()) {
        add_branch(condition, branches[depth].taken, reach);
        continue;
      }
      const auto yes = rows_of(sides[1], depth + 1, both(reach, condition));
      const auto no = rows_of(sides[0], depth + 1, both(reach, op(ir::Op::Not, condition)));
      return choose(condition, yes, no);
    }
    if (group.size() > 1) fail_unequal(caller_);
    std::vector<std::uint32_t> rows;
    for (const std::uint32_t row : paths_[first]->rows) rows.push_back(renamed_[first][row]);
    return rows;
  }

  std::vector<std::uint32_t> choose(std::uint32_t condition, const std::vector<std::uint32_t>& yes,
                                    const std::vector<std::uint32_t>& no) {
    if (yes.size() != no.size())
      caller_.fail(ErrorCode::Shape, "expected as many rows on both sides of a branch, got " +
                                         std::to_string(yes.size()) + " and " +
                                         std::to_string(no.size()));
    std::vector<std::uint32_t> rows;
    for (std::size_t k = 0; k < yes.size(); ++k)
      rows.push_back(yes[k] == no[k] ? yes[k] : op(ir::Op::Select, condition, yes[k], no[k]));
    return rows;
  }

  std::span<const TracedPath* const> paths_;
  const Caller& caller_;
  TracedPath out_;
  std::map<Key, std::uint32_t> known_;
  std::vector<std::vector<std::uint32_t>> renamed_;  // by path and node
};

/// Number of branches of one path whose other sides are evaluated together.
constexpr std::size_t kMostNeighbours = 64;
/// Failed branches after which an element becomes one expression of all its paths.
constexpr std::uint32_t kFlipsToCombine = 2;

}  // namespace

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

TracedPath combine(std::span<const TracedPath* const> paths, const Caller& caller) {
  return Combination(paths, caller).run();
}

TracedPath trace_element(const RowsOfElement& call, const ProblemState& state, MapTrace& trace,
                         const Point& point, std::span<const std::uint32_t> indices,
                         std::span<const double> data, std::span<const bool> script,
                         const Caller& caller) {
  const BranchScope::Element element{&trace, indices, data};
  const BranchScope branches(state, point, &element, script);
  TracedPath path =
      trace_path([&](std::vector<Value>& rows) { call(Element(trace), rows); }, caller);
  path.forms = trace.forms;
  return path;
}

TracedMap::TracedMap(RowsOfElement call, const MapOptions& options, std::vector<std::uint64_t> ids)
    : call_(std::move(call)),
      indices_(options.indices.begin(), options.indices.end()),
      offsets_(options.offsets.begin(), options.offsets.end()),
      data_offsets_(options.data_offsets.begin(), options.data_offsets.end()),
      data_(options.data.begin(), options.data.end()),
      options_{
          .indices = indices_, .data = data_, .offsets = offsets_, .data_offsets = data_offsets_},
      elements_(ids.size(), options_,
                Caller{.call = "add_residuals", .label = {}, .number = 0, .problem = 0}),
      ids_(std::move(ids)),
      states_(ids_.size()) {}

void TracedMap::add_shape(ElementPaths paths) {
  const auto number = static_cast<std::uint32_t>(shapes_.size());
  ElementForms& shape = shapes_.emplace_back();
  shape.paths = std::move(paths.paths);
  for (std::uint32_t k = 0; k < shape.paths.size(); ++k) shape.forms.push_back({{k}, {}});
  for (std::size_t k = 0; k < paths.elements.size(); ++k)
    states_[paths.elements[k]] = {number, paths.path_of[k], 0};
}

std::size_t TracedMap::element_of(std::uint64_t id) const {
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
  return at != ids_.end() && *at == id ? static_cast<std::size_t>(at - ids_.begin()) : ids_.size();
}

std::uint32_t TracedMap::run(const ProblemState& state, std::size_t element, const Point& point,
                             std::span<const bool> script, const Caller& caller) {
  const std::span<const std::uint32_t> indices = elements_.indices(element);
  const std::span<const double> data = elements_.data(element);
  MapTrace trace{state.serial,
                 next_serial(),
                 static_cast<int>(indices.size()),
                 static_cast<int>(data.size()),
                 {}};
  TracedPath path = trace_element(call_, state, trace, point, indices, data, script, caller);
  const std::size_t one[] = {element};
  elements_.check_ranges(path.forms, one, caller);
  ElementForms& shape = shapes_[states_[element].shape];
  const auto known = std::ranges::find_if(
      shape.paths, [&](const TracedPath& p) { return same_branches(p, path); });
  const auto number = static_cast<std::uint32_t>(known - shape.paths.begin());
  if (known == shape.paths.end()) shape.paths.push_back(std::move(path));
  return number;
}

std::uint32_t TracedMap::path_at(const ProblemState& state, std::size_t element, const Point& point,
                                 const Caller& caller) {
  const ElementForms& shape = shapes_[states_[element].shape];
  for (std::uint32_t k = 0; k < shape.paths.size(); ++k) {
    const ElementNumbers own = numbers(element, shape.paths[k]);
    if (holds(shape.paths[k], state, point, &own)) return k;
  }
  return run(state, element, point, {}, caller);
}

std::vector<std::uint32_t> TracedMap::neighbours(const ProblemState& state, std::size_t element,
                                                 const Point& point, std::uint32_t path,
                                                 const Caller& caller) {
  std::vector<std::uint32_t> out;
  const TracedPath base = shapes_[states_[element].shape].paths[path];
  const std::size_t count = base.own_branches().size();
  if (count > kMostNeighbours)
    caller.fail(ErrorCode::StaleBranch,
                "one of " + std::to_string(count) +
                    " branches is decided otherwise by the backend than by its numbers; at most " +
                    std::to_string(kMostNeighbours) + " can be combined");
  const auto script = std::make_unique<bool[]>(count);
  for (std::size_t k = 0; k < count; ++k) {
    script[k] = !base.own_branches()[k].taken;
    out.push_back(run(state, element, point, {script.get(), k + 1}, caller));
    script[k] = base.own_branches()[k].taken;
  }
  return out;
}

std::uint32_t TracedMap::form_of(std::uint32_t number, std::vector<std::uint32_t> paths,
                                 const Caller& caller) {
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  ElementForms& shape = shapes_[number];
  const auto known = std::ranges::find_if(
      shape.forms, [&](const ElementForms::Form& form) { return form.paths == paths; });
  if (known != shape.forms.end()) return static_cast<std::uint32_t>(known - shape.forms.begin());
  ElementForms::Form form{std::move(paths), {}};
  if (form.paths.size() > 1) {
    std::vector<const TracedPath*> parts;
    for (const std::uint32_t k : form.paths) parts.push_back(&shape.paths[k]);
    form.combined = combine(parts, caller);
  }
  shape.forms.push_back(std::move(form));
  return static_cast<std::uint32_t>(shape.forms.size() - 1);
}

ConcreteTape TracedMap::retake(const ProblemState& state, std::size_t element, const Point& point,
                               const Caller& caller) {
  if (shapes_.empty()) shapes_.emplace_back();
  ElementState& own = states_[element];
  const std::uint32_t path = path_at(state, element, point, caller);
  const ElementNumbers read = numbers(element, shapes_[own.shape].paths[path]);
  if (!outer_holds(shapes_[own.shape].paths[path], state, point, &read))
    caller.fail(ErrorCode::StaleBranch,
                "a branch that was taken outside of the callable holds no longer");
  ++own.flips;
  std::vector<std::uint32_t> paths;
  if (own.form != kUnknownForm) paths = shapes_[own.shape].forms[own.form].paths;
  const bool stuck = std::ranges::find(paths, path) != paths.end();
  if (!stuck && own.flips < kFlipsToCombine && paths.size() < 2) paths.clear();
  paths.push_back(path);
  if (stuck) {
    const std::vector<std::uint32_t> others = neighbours(state, element, point, path, caller);
    paths.insert(paths.end(), others.begin(), others.end());
  }
  own.form = form_of(own.shape, std::move(paths), caller);
  const ElementForms& shape = shapes_[own.shape];
  const ElementForms::Form& form = shape.forms[own.form];
  const TracedPath& taken = form.paths.size() > 1 ? form.combined : shape.paths[form.paths.front()];
  return concrete(taken, numbers(element, taken), state.serial);
}

bool TracedMap::includes(const ElementState& a, const ElementState& b) const {
  if (a.form == kUnknownForm || b.form == kUnknownForm) return false;
  const std::vector<ElementForms::Form>& forms = shapes_[a.shape].forms;
  return std::ranges::includes(forms[a.form].paths, forms[b.form].paths);
}

std::size_t TracedMap::bytes() const {
  std::size_t total = (indices_.capacity() + offsets_.capacity() + data_offsets_.capacity()) * 4 +
                      (data_.capacity() + ids_.capacity()) * 8 +
                      states_.capacity() * sizeof(ElementState);
  for (const ElementForms& shape : shapes_) {
    for (const TracedPath& path : shape.paths)
      total += path.nodes.capacity() * (sizeof(TapeNode) + sizeof(std::uint64_t));
    for (const ElementForms::Form& form : shape.forms)
      total += form.combined.nodes.capacity() * (sizeof(TapeNode) + sizeof(std::uint64_t));
  }
  return total;
}

TracedMap* Callables::find(std::uint64_t id) {
  auto after = maps.upper_bound(id);
  if (after != maps.begin()) {
    TracedMap& map = *std::prev(after)->second;
    if (map.element_of(id) < map.ids().size()) return &map;
  }
  const auto single = singles.find(id);
  if (single == singles.end()) return nullptr;
  auto made = std::make_unique<TracedMap>(
      [call = std::move(single->second)](Element, std::vector<Value>& rows) { call(rows); },
      MapOptions{}, std::vector<std::uint64_t>{id});
  singles.erase(single);
  return maps.emplace(id, std::move(made)).first->second.get();
}

}  // namespace topograd::detail
