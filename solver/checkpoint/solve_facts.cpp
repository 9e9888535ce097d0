// Facts about a problem and the options of its solve.
#include "solve_facts.hpp"

#include "../../ir/text.hpp"
#include "../../runtime/cache/content_hash.hpp"
#include "../../runtime/plan/record/plan_json.hpp"

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

void add_options(Facts& facts, const SolverOptions& o) {
  facts.add("method", name(o.method));
  facts.add("precision", codegen::name(o.precision));
  facts.add("deterministic", o.deterministic);
  facts.add("scale_free", o.scale_free);
  facts.add("jacobi_scaling", o.jacobi_scaling);
  facts.add("rescale_steps", o.rescale_steps);
  facts.add("initial_trust_region_radius", o.initial_trust_region_radius);
  facts.add("min_trust_region_radius", o.min_trust_region_radius);
  facts.add("max_trust_region_radius", o.max_trust_region_radius);
  facts.add("min_relative_decrease", o.min_relative_decrease);
  facts.add("min_lm_diagonal", o.min_lm_diagonal);
  facts.add("max_lm_diagonal", o.max_lm_diagonal);
  facts.add("dogleg_type", name(o.dogleg_type));
  facts.add("use_nonmonotonic_steps", o.use_nonmonotonic_steps);
  facts.add("max_consecutive_nonmonotonic_steps", o.max_consecutive_nonmonotonic_steps);
  facts.add("max_consecutive_invalid_steps", o.max_consecutive_invalid_steps);
  facts.add("linear_tolerance", o.linear_tolerance);
  facts.add("max_linear_iterations", o.max_linear_iterations);
  facts.add("eta", o.eta);
  facts.add("factor", name(o.factor));
  facts.add("forcing_sequence", name(o.forcing_sequence));
  facts.add("preconditioner", name(o.preconditioner));
  facts.add("normal_matrix", name(o.normal_matrix));
  facts.add("number of groups of elimination", std::uint64_t{o.linear_solver_ordering.size()});
  facts.add("max_lbfgs_rank", o.max_lbfgs_rank);
  const LineSearchOptions& l = o.line_search;
  facts.add("line_search.sufficient_decrease", l.sufficient_decrease);
  facts.add("line_search.sufficient_curvature_decrease", l.sufficient_curvature_decrease);
  facts.add("line_search.max_expansion", l.max_expansion);
  facts.add("line_search.min_step_size", l.min_step_size);
  facts.add("line_search.max_evaluations", l.max_evaluations);
  facts.add("max_escapes", o.max_escapes);
  const FirstOrderOptions& f = o.first_order;
  facts.add("first_order.learning_rate", f.learning_rate);
  facts.add("first_order.beta1", f.beta1);
  facts.add("first_order.beta2", f.beta2);
  facts.add("first_order.epsilon", f.epsilon);
  facts.add("first_order.weight_decay", f.weight_decay);
  facts.add("first_order.momentum", f.momentum);
  facts.add("accumulation", o.accumulation ? codegen::name(*o.accumulation) : "automatic");
  facts.add("plan", o.plan ? runtime::hash_text(runtime::to_json(*o.plan)) : Hash128{});
  facts.add("max_instances_per_dispatch", o.max_instances_per_dispatch.value_or(0));
  facts.add("domain", name(o.domain));
  facts.add("domain_epsilon", o.domain_epsilon);
  facts.add("cross_check", o.cross_check);
  facts.add("update_state_every_iteration", o.update_state_every_iteration);
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
  add_options(facts, options);
  return std::move(facts.out);
}

SolveFacts facts_of(const SolverOptions& options) {
  Facts facts;
  add_options(facts, options);
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
