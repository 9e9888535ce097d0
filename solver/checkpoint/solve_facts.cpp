// Facts about a problem and the options of its solve.
#include "solve_facts.hpp"

#include "../../ir/text.hpp"
#include "../../runtime/cache/content_hash.hpp"
#include "../../runtime/plan/record/plan_record.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace topograd {
namespace {

using runtime::Hash128;

constexpr std::size_t kMostTold = 3;

template <class T>
void add(Hash128& hash, std::span<const T> values) {
  hash = runtime::hash_bytes(std::as_bytes(values), hash);
}

/// Indices, numbers, uniforms and residual rows of all instances of a term: the sum of a hash for
/// each of them, so that processes can add those of their shares.
Hash128 hash_of(const ProblemModel& problem, std::size_t t) {
  const runtime::Term& term = problem.model.terms[t];
  const ir::Batch& batch = *term.batch;
  const ModelShares* const shares = problem.shares.get();
  const std::uint64_t first = shares == nullptr ? 0 : shares->first_instance(t);
  const std::uint64_t first_row = shares == nullptr ? 0 : shares->first_row(term.energy);
  Hash128 sum;
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    numbers.assign({first + i, first_row + batch.residual_row(i)});
    for (std::uint32_t c = 0; c < batch.parameter_columns(); ++c)
      numbers.push_back(batch.index(i, c));
    for (std::uint32_t c = batch.parameter_columns(); c < batch.index_columns(); ++c)
      numbers.push_back(std::bit_cast<std::uint64_t>(problem.model.uniforms[batch.index(i, c)]));
    for (std::uint32_t c = 0; c < batch.data_columns(); ++c)
      numbers.push_back(std::bit_cast<std::uint64_t>(batch.data(i, c)));
    const Hash128 one = runtime::hash_bytes(std::as_bytes(std::span(numbers)));
    sum.high += one.high;
    sum.low += one.low;
  }
  return shares == nullptr ? sum : shares->sum(sum);
}

class Facts {
 public:
  void add(std::string what, std::string value) {
    out.facts.push_back({std::move(what), std::move(value)});
  }
  void add(std::string what, std::string_view value) { add(std::move(what), std::string(value)); }
  void add(std::string what, const char* value) { add(std::move(what), std::string(value)); }
  void add(std::string what, double value) { add(std::move(what), ir::print_number(value)); }
  void add(std::string what, int value) { add(std::move(what), std::to_string(value)); }
  void add(std::string what, std::uint64_t value) { add(std::move(what), std::to_string(value)); }
  void add(std::string what, bool value) { add(std::move(what), value ? "true" : "false"); }
  void add(std::string what, const Hash128& value) {
    out.facts.push_back({std::move(what), runtime::hex(value), true});
  }

  SolveFacts out;
};

void add_problem(Facts& facts, const ProblemModel& problem, std::span<const double> x) {
  const runtime::Model& model = problem.model;
  facts.add("number of unknowns and constants", model.scalars);
  facts.add("number of residual rows", model.rows);
  Hash128 arrays;
  for (const runtime::ParameterArray& array : model.arrays) {
    for (const std::uint64_t value : {array.offset, array.blocks, std::uint64_t{array.width}})
      arrays.add(value);
  }
  facts.add("layout of the parameters", arrays);
  facts.add("number of topologies", std::uint64_t{model.terms.size()});
  for (std::size_t t = 0; t < model.terms.size(); ++t) {
    const runtime::Term& term = model.terms[t];
    const std::string name = "\"" + term.name + "\" (topology " + std::to_string(t) + ")";
    facts.add("number of " + name, problem.instances(t));
    facts.add("expression of " + name, term.topology->hash);
    facts.add("loss of " + name,
              term.loss == nullptr ? Hash128{} : runtime::hash_text(ir::print(*term.loss)));
    facts.add("data of " + name, hash_of(problem, t));
  }
  Hash128 fixed, bounds, manifolds;
  for (std::size_t k = 0; k < model.constant.size(); ++k) {
    if (model.constant[k] == 0) continue;
    fixed.add(k);
    add<double>(fixed, x.subspan(k, 1));
  }
  add<double>(bounds, model.lower);
  add<double>(bounds, model.upper);
  const Problem& source = *problem.problem;
  for (std::size_t a = 0; source.has_manifolds() && a < model.arrays.size(); ++a) {
    for (std::size_t b = 0; b < model.arrays[a].blocks; ++b) {
      const Manifold* const manifold = source.manifold(a, b);
      manifolds = runtime::hash_text(manifold == nullptr ? "" : manifold->name() + "\n", manifolds);
    }
  }
  facts.add("fixed scalars", fixed);
  facts.add("bounds", bounds);
  facts.add("manifolds", manifolds);
  facts.add("number of residual blocks on the host", std::uint64_t{source.host_blocks().size()});
}

/// Options on which this scope has to agree.
void add_options(Facts& facts, const SolverOptions& o, OptionScope scope) {
  for (const SolverOption& option : option_table()) {
    if (option.scope == OptionScope::process ||
        (scope == OptionScope::steps && option.scope != scope))
      continue;
    if (option.name == "plan")  // a long text
      facts.add("plan", o.plan ? runtime::hash_text(runtime::to_json(*o.plan)) : Hash128{});
    else
      facts.add(std::string(option.name), text_of(option.get(o)));
  }
  facts.add("number of groups of elimination", std::uint64_t{o.linear_solver_ordering.size()});
}

}  // namespace

void SolveFacts::transfer(ir::StateRecord& record) {
  std::uint64_t count = facts.size();
  record.value("facts", count);
  if (record.restores()) facts.clear();
  for (std::uint64_t k = 0; k < count; ++k) {
    Fact fact;
    if (!record.restores()) fact = facts[k];
    record.text("what", fact.what);
    record.text("value", fact.value);
    record.value("is a hash", fact.is_hash);
    if (record.restores()) facts.push_back(std::move(fact));
  }
}

SolveFacts facts_of(const ProblemModel& model, const SolverOptions& options,
                    const SolvePlace& place, std::span<const double> x) {
  Facts facts;
  facts.add("version of Topograd", TOPOGRAD_VERSION);
  add_problem(facts, model, x);
  facts.add("backend", place.backend);
  facts.add("linear solver", place.linear_solver);
  add_options(facts, options, OptionScope::steps);
  return std::move(facts.out);
}

SolveFacts facts_of(const SolverOptions& options, OptionScope scope) {
  Facts facts;
  add_options(facts, options, scope);
  return std::move(facts.out);
}

std::string difference(const SolveFacts& here, const SolveFacts& there) {
  std::string text;
  std::size_t told = 0, more = 0;
  const auto tell = [&](const std::string& sentence) {
    if (told == kMostTold) {
      ++more;
      return;
    }
    text += (told++ == 0 ? "" : "; ") + sentence;
  };
  for (const SolveFacts::Fact& fact : here.facts) {
    const auto other = std::ranges::find(there.facts, fact.what, &SolveFacts::Fact::what);
    if (other == there.facts.end()) {
      tell("it says nothing of the " + fact.what);
    } else if (other->value == fact.value) {
      continue;
    } else if (fact.is_hash) {
      tell("different " + fact.what);
    } else {
      tell("the " + fact.what + " is " + fact.value + " here, " + other->value +
           " in the checkpoint");
    }
  }
  if (text.empty() && here.facts.size() != there.facts.size()) tell("it has more facts");
  if (more > 0) text += "; and " + std::to_string(more) + " more differ";
  return text;
}

}  // namespace topograd
