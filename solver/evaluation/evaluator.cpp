// Evaluator: residuals and derivatives of a problem at any point.
#include "../evaluator.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../frontend/inspect/problem_use.hpp"
#include "../../ir/error.hpp"
#include "../../ir/whole.hpp"
#include "../../runtime/plan/passes.hpp"
#include "../host/host_engine.hpp"
#include "../linear/factor/normal_equations.hpp"
#include "../session/retrace.hpp"
#include "../session/session.hpp"
#include "../session/values.hpp"
#include "asynchronous_state.hpp"
#include "evaluation_times.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace topograd {
namespace {

using Vector = Eigen::VectorXd;
using Clock = std::chrono::steady_clock;

std::span<double> span_of(Vector& v) { return {v.data(), static_cast<std::size_t>(v.size())}; }

KernelInfo describe(const runtime::Term& term, const std::string& backend) {
  const ir::Program& program = term.topology->program;
  const std::vector<std::uint32_t> slots = autodiff::all_slots(program);
  const auto operations = [&](runtime::Pass pass) {
    if (pass == runtime::Pass::residual && term.loss == nullptr)
      return ir::operation_count(program);
    return ir::operation_count(runtime::pass_program(pass, program, slots, term.energy, term.loss));
  };
  return {.topology = to_string(term.topology->hash),
          .name = term.name,
          .instances = term.batch->size(),
          .outputs = static_cast<std::uint32_t>(program.outputs.size()),
          .parameters = term.batch->parameter_columns(),
          .residual_operations = operations(runtime::Pass::residual),
          .gradient_operations = operations(runtime::Pass::gradient),
          .jacobian_operations = operations(runtime::Pass::jacobian),
          .energy = term.energy,
          .bytes_per_instance = term.batch->index_columns() * 4 + term.batch->data_columns() * 8,
          .backend = backend};
}

}  // namespace

struct Evaluator::Impl {
  Impl(Problem& p, const SolverOptions& given, Losses which)
      : problem(p),
        view(ProblemUse::view_of(p)),
        options(resolved(given)),
        losses(which),
        model(make()),
        versions(p.versions()) {
    open(open_session(model, options));
  }

  ~Impl() { end_session(); }
  static Impl& of(const std::unique_ptr<Impl>& impl) { return whole(impl, "evaluator"); }

  ProblemModel make() const { return make_model("evaluator", problem, losses == Losses::applied); }
  runtime::Engine& engine() { return session.engine(); }
  void open(Session opened) {
    end_session();
    times.clear();
    if (session.engines) earlier += session.engines->stats();
    session = std::move(opened);
    follow_branches(session, "evaluator", problem, model, options, counts,
                    losses == Losses::applied);
    if (!problem.host_blocks().empty()) session = on_host(std::move(session), model);
  }

  /// Follows changes of the problem since the last call: data, uniforms and flags in place,
  /// anything else with a new engine, whose kernels are in the caches.
  void follow() {
    ProblemUse::require_present(problem, view, "evaluator");
    const Problem before = ProblemUse::view_of(view);
    if (!ProblemUse::is_same(problem, view)) {  // another one was moved to its place
      view = ProblemUse::view_of(problem);
      versions.structure = ~problem.versions().structure;
    }
    const Versions now = problem.versions();
    if (now == versions) return;
    model = make();
    if (now.structure != versions.structure) {
      open(open_session(model, options));
    } else {
      session.engines->refresh(model.model);
    }
    normal.reset();
    second.reset();
    versions = now;
  }

  /// Moves the engine that serves an evaluation of this kind to x, or to the caller's values.
  void move_to(runtime::Pass pass, std::optional<Numbers> x) {
    wait_for_pool();
    follow();
    if (x) {
      check_size("x", x->size(), model.model.scalars);
    } else {
      current.resize(model.model.scalars);
      problem.read_x(current);
    }
    // JᵀJ is assembled on the host, from Jacobians.
    session.engines->at(pass == runtime::Pass::blocks ? runtime::Pass::jacobian : pass,
                        x ? *x : Numbers(current));
    if (session.follows_branches) settle();
  }

  /// Brings branches to the engine's point, before terms are read by the model.
  void settle() {
    const std::uint64_t revision = model.model.revision;
    engine().cost();
    if (model.model.revision == revision) return;
    versions = problem.versions();
    normal.reset();
    second.reset();
  }

  void check_size(const char* what, std::size_t size, std::size_t expected) const {
    if (size == expected) return;
    throw Error(ErrorCode::Shape, std::string("evaluator: ") + what + " needs " +
                                      std::to_string(expected) + " numbers, got " +
                                      std::to_string(size));
  }

  Vector scalars() const { return Vector(static_cast<Eigen::Index>(model.model.scalars)); }
  Vector rows() const { return Vector(static_cast<Eigen::Index>(model.model.rows)); }
  bool constant(std::uint32_t scalar) const {
    return !model.model.constant.empty() && model.model.constant[scalar];
  }

  Vector masked(Vector v) const {
    mask_fixed(model.model, v);
    return v;
  }
  std::span<const double> free_part(Numbers p) {
    if (model.model.constant.empty()) return p;
    current.assign(p.begin(), p.end());
    for (std::uint32_t k = 0; k < current.size(); ++k) {
      if (constant(k)) current[k] = 0;
    }
    return current;
  }

  /// Runs `f`, an evaluation of this kind, on the engine at x; once more on the CPU if a device
  /// fails that `automatic` had chosen.
  template <class F>
  auto at(runtime::Pass pass, std::optional<Numbers> x, const F& f) {
    try {
      const Clock::time_point begin = Clock::now();
      move_to(pass, x);
      auto result = f(engine());
      teach(pass, begin);
      return result;
    } catch (const Error& error) {
      if (!session.plan.backend.may_leave || !is_device_failure(error.code())) throw;
      open(take_over(model, options, error, session));
      move_to(pass, x);
      return f(engine());
    }
  }

  /// Reports the time of an evaluation to the route, if it ran on the planned backend.
  void teach(runtime::Pass pass, Clock::time_point begin) {
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    busy_seconds += 1e-6 * us;
    if (options.deterministic || engine().backend() != session.planned_backend()) return;
    if (const auto median = times.add(pass, us, session.engines->stats().compile_wall_ms))
      session.route->measured(pass, engine().backend() != runtime::Backend::cpu, *median);
  }

  double cost(std::optional<Numbers> x) {
    return at(runtime::Pass::cost, x, [](runtime::Engine& e) { return e.cost(); });
  }
  Vector residuals(std::optional<Numbers> x) {
    return at(runtime::Pass::residual, x, [&](runtime::Engine& e) {
      Vector out = rows();
      e.residuals(span_of(out));
      return out;
    });
  }
  Vector gradient(std::optional<Numbers> x) {
    return at(runtime::Pass::gradient, x, [&](runtime::Engine& e) {
      Vector out = scalars();
      e.gradient(span_of(out));
      return masked(std::move(out));
    });
  }
  Evaluation evaluate(std::optional<Numbers> x, const Wanted& wanted) {
    const runtime::Pass pass =
        runtime::pass_of_values(wanted.cost, wanted.residuals, wanted.gradient);
    return at(pass, x, [&](runtime::Engine& e) { return values_of(e, model.model, wanted); });
  }
  Vector jvp(std::optional<Numbers> x, Numbers p) {
    return at(runtime::Pass::jvp, x, [&](runtime::Engine& e) {
      check_size("p", p.size(), model.model.scalars);
      Vector out = rows();
      e.jvp(free_part(p), span_of(out));
      return out;
    });
  }
  Vector vjp(std::optional<Numbers> x, Numbers seeds) {
    return at(runtime::Pass::vjp, x, [&](runtime::Engine& e) {
      check_size("seeds", seeds.size(), model.model.rows);
      Vector out = scalars();
      e.vjp(seeds, span_of(out));
      return masked(std::move(out));
    });
  }
  Vector jtjp(std::optional<Numbers> x, Numbers p) {
    return at(runtime::Pass::jtjp, x, [&](runtime::Engine& e) {
      check_size("p", p.size(), model.model.scalars);
      Vector out = scalars();
      e.jtjp(free_part(p), span_of(out));
      return masked(std::move(out));
    });
  }

  SparseMatrix jacobian(std::optional<Numbers> x) {
    return at(runtime::Pass::jacobian, x, [&](runtime::Engine& e) {
      SparseMatrix out(static_cast<Eigen::Index>(model.model.rows),
                       static_cast<Eigen::Index>(model.model.scalars));
      std::vector<Eigen::Triplet<double>> entries;
      std::vector<double> values;
      for (std::size_t t = 0; t < model.model.terms.size(); ++t) {
        const runtime::Term& term = model.model.terms[t];
        if (term.energy) continue;
        const std::size_t size =
            term.topology->program.outputs.size() * term.batch->parameter_columns();
        values.resize(term.batch->size() * size);
        e.jacobian(t, values);
        for (std::size_t i = 0; i < term.batch->size(); ++i) {
          append_entries(term, i, std::span(values).subspan(i * size, size), entries);
        }
      }
      append_host_entries(entries);
      out.setFromTriplets(entries.begin(), entries.end());
      return out;
    });
  }

  void append_host_entries(std::vector<Eigen::Triplet<double>>& entries) const {
    if (problem.host_blocks().empty()) return;
    session.host->evaluate_host();
    session.host->host().for_entries([&](std::uint64_t row, std::uint32_t scalar, double entry) {
      if (!constant(scalar))
        entries.emplace_back(static_cast<int>(row), static_cast<int>(scalar), entry);
    });
  }

  void append_entries(const runtime::Term& term, std::size_t instance,
                      std::span<const double> values,
                      std::vector<Eigen::Triplet<double>>& entries) const {
    const std::uint32_t n = term.batch->parameter_columns();
    const std::uint64_t first = term.batch->residual_row(instance);
    for (std::uint32_t slot = 0; slot < n; ++slot) {
      const std::uint32_t scalar = term.batch->index(instance, slot);
      if (constant(scalar)) continue;
      for (std::size_t row = 0; row * n < values.size(); ++row) {
        entries.emplace_back(static_cast<int>(first + row), static_cast<int>(scalar),
                             values[row * n + slot]);
      }
    }
  }

  SparseMatrix jtj(std::optional<Numbers> x) {
    if (!problem.host_blocks().empty()) {
      const SparseMatrix J = jacobian(x);
      return SparseMatrix(J.transpose()) * J;
    }
    at(runtime::Pass::blocks, x, [&](runtime::Engine& e) {
      if (!normal) normal.emplace(model.model);
      normal->refresh(e);
      return true;
    });
    return both_triangles(*normal);
  }

  SparseMatrix hessian(std::optional<Numbers> x, const HessianOptions& asked) {
    at(runtime::Pass::hessian, x, [&](runtime::Engine& e) {
      if (!second) second.emplace(model.model, true);
      second->refresh_hessian(e, asked.project_psd);
      return true;
    });
    return both_triangles(*second);
  }
  Vector hvp(std::optional<Numbers> x, Numbers p) {
    return at(runtime::Pass::hvp, x, [&](runtime::Engine& e) {
      check_size("p", p.size(), model.model.scalars);
      Vector out = scalars();
      runtime::second_derivatives(e).hvp(free_part(p), span_of(out));
      return masked(std::move(out));
    });
  }

  /// Finishes evaluations whose results nobody has asked for yet.
  void settle_begun() {
    for (const auto& held : std::exchange(begun, {})) {
      if (const auto state = held.lock()) state->finish();
    }
  }
  /// Reports the session to the route as one task.
  void end_session() {
    settle_begun();
    if (session.route && busy_seconds > 0)
      session.route->ended(engine().backend() != runtime::Backend::cpu, busy_seconds,
                           session.engines->stats());
    busy_seconds = 0;
  }
  /// An engine that does not run asynchronously is used by one thread at a time.
  void wait_for_pool() {
    if (const auto state = on_pool.lock()) state->finish();
  }

  std::shared_ptr<AsyncState> begin(runtime::Pass pass, Numbers x, Numbers p) {
    wait_for_pool();
    follow();
    check_size("x", x.size(), model.model.scalars);
    const bool directed =
        pass == runtime::Pass::jvp || pass == runtime::Pass::jtjp || pass == runtime::Pass::hvp;
    if (directed) check_size("p", p.size(), model.model.scalars);
    auto state = std::make_shared<AsyncState>();
    state->pass = pass;
    state->x.assign(x.begin(), x.end());
    const std::span<const double> free = directed ? free_part(p) : std::span<const double>();
    state->p.assign(free.begin(), free.end());
    const bool rows_out = pass == runtime::Pass::residual || pass == runtime::Pass::jvp;
    state->out = pass == runtime::Pass::cost ? Vector(1) : rows_out ? rows() : scalars();
    state->figures = figures;
    state->complete = [this](AsyncState& done) { complete(done); };
    start(state);
    std::erase_if(begun, [](const auto& held) { return held.expired(); });
    begun.push_back(state);
    return state;
  }

  void start(const std::shared_ptr<AsyncState>& state) {
    state->since = AsyncState::Clock::now();
    const bool here = session.follows_branches || !problem.host_blocks().empty();
    try {
      runtime::Engine& engine = session.engines->for_evaluation(state->pass);
      if (here || engine.abilities().asynchronous != nullptr) {
        state->engine = session.engines->hold();
        state->begun = runtime::begin(engine, state->pass, state->x, state->p, span_of(state->out));
        return;
      }
    } catch (...) {
      state->error = std::current_exception();
      return;
    }
    state->running = run_on_pool([state, &on = engine()] {
      runtime::begin(on, state->pass, state->x, state->p, span_of(state->out))->finish();
    });
    on_pool = state;
  }

  /// Results as the synchronous calls give them; evaluates again on the CPU where a device failed
  /// that `automatic` had chosen.
  void complete(AsyncState& state) {
    if (state.error) {
      try {
        std::rethrow_exception(state.error);
      } catch (const Error& error) {
        if (!session.plan.backend.may_leave || !is_device_failure(error.code())) throw;
        state.error = nullptr;
        if (engine().backend() != runtime::Backend::cpu)
          open(take_over(model, options, error, session));
        runtime::begin(engine(), state.pass, state.x, state.p, span_of(state.out))->finish();
      }
    }
    const bool by_scalar = state.pass == runtime::Pass::gradient ||
                           state.pass == runtime::Pass::jtjp || state.pass == runtime::Pass::hvp;
    if (by_scalar) state.out = masked(std::move(state.out));
  }

  SparseMatrix both_triangles(const NormalEquations& lower) const {
    std::vector<Eigen::Triplet<double>> entries;
    entries.reserve(2 * lower.values().size());
    for (std::size_t c = 0; c < lower.size(); ++c) {
      const auto column = static_cast<int>(lower.free_scalars()[c]);
      for (std::int32_t k = lower.starts()[c]; k < lower.starts()[c + 1]; ++k) {
        const auto row = static_cast<int>(lower.free_scalars()[lower.rows()[k]]);
        entries.emplace_back(row, column, lower.values()[k]);
        if (row != column) entries.emplace_back(column, row, lower.values()[k]);
      }
    }
    const auto size = static_cast<Eigen::Index>(model.model.scalars);
    SparseMatrix out(size, size);
    out.setFromTriplets(entries.begin(), entries.end());
    return out;
  }

  Problem& problem;  // the caller's
  Problem view;      // of the same, which keeps what the model refers to
  SolverOptions options;
  Losses losses;
  ProblemModel model;
  RetraceCounts counts;
  Session session;
  runtime::EngineStats earlier;  // of the sessions before it
  EvaluationTimes times;         // of the session's engine
  double busy_seconds = 0;       // of the session, without asynchronous calls
  std::string reason;            // as last asked for
  Versions versions;
  std::vector<double> current;                   // scratch: one number a scalar
  std::vector<std::weak_ptr<AsyncState>> begun;  // perhaps not finished
  std::weak_ptr<AsyncState> on_pool;             // the last one that ran there
  std::shared_ptr<AsyncFigures> figures = std::make_shared<AsyncFigures>();
  std::optional<NormalEquations> normal, second;  // JᵀJ and the Hessian, once asked for
};

Evaluator::Evaluator(Problem& problem, const SolverOptions& options, Losses losses)
    : impl_(std::make_unique<Impl>(problem, options, losses)) {}
Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;
Evaluator& Evaluator::operator=(Evaluator&&) noexcept = default;

double Evaluator::cost() { return Impl::of(impl_).cost({}); }
double Evaluator::cost(Numbers x) { return Impl::of(impl_).cost(x); }
Vector Evaluator::residuals() { return Impl::of(impl_).residuals({}); }
Vector Evaluator::residuals(Numbers x) { return Impl::of(impl_).residuals(x); }
Vector Evaluator::gradient() { return Impl::of(impl_).gradient({}); }
Vector Evaluator::gradient(Numbers x) { return Impl::of(impl_).gradient(x); }
Evaluation Evaluator::evaluate(const Wanted& w) { return Impl::of(impl_).evaluate({}, w); }
Evaluation Evaluator::evaluate(Numbers x, const Wanted& wanted) {
  return Impl::of(impl_).evaluate(x, wanted);
}
Evaluator::SparseMatrix Evaluator::jacobian() { return Impl::of(impl_).jacobian({}); }
Evaluator::SparseMatrix Evaluator::jacobian(Numbers x) { return Impl::of(impl_).jacobian(x); }
Evaluator::SparseMatrix Evaluator::jtj() { return Impl::of(impl_).jtj({}); }
Evaluator::SparseMatrix Evaluator::jtj(Numbers x) { return Impl::of(impl_).jtj(x); }
Evaluator::SparseMatrix Evaluator::hessian(const HessianOptions& options) {
  return Impl::of(impl_).hessian({}, options);
}
Evaluator::SparseMatrix Evaluator::hessian(Numbers x, const HessianOptions& options) {
  return Impl::of(impl_).hessian(x, options);
}
Vector Evaluator::hvp(Numbers p) { return Impl::of(impl_).hvp({}, p); }
Vector Evaluator::hvp(Numbers x, Numbers p) { return Impl::of(impl_).hvp(x, p); }
Vector Evaluator::jvp(Numbers p) { return Impl::of(impl_).jvp({}, p); }
Vector Evaluator::jvp(Numbers x, Numbers p) { return Impl::of(impl_).jvp(x, p); }
Vector Evaluator::vjp(Numbers seeds) { return Impl::of(impl_).vjp({}, seeds); }
Vector Evaluator::vjp(Numbers x, Numbers seeds) { return Impl::of(impl_).vjp(x, seeds); }
Vector Evaluator::jtjp(Numbers p) { return Impl::of(impl_).jtjp({}, p); }
Vector Evaluator::jtjp(Numbers x, Numbers p) { return Impl::of(impl_).jtjp(x, p); }

Async<double> Evaluator::cost_async(Numbers x) {
  return Async<double>(Impl::of(impl_).begin(runtime::Pass::cost, x, x));
}
Async<Vector> Evaluator::residuals_async(Numbers x) {
  return Async<Vector>(Impl::of(impl_).begin(runtime::Pass::residual, x, x));
}
Async<Vector> Evaluator::gradient_async(Numbers x) {
  return Async<Vector>(Impl::of(impl_).begin(runtime::Pass::gradient, x, x));
}
Async<Vector> Evaluator::jvp_async(Numbers x, Numbers p) {
  return Async<Vector>(Impl::of(impl_).begin(runtime::Pass::jvp, x, p));
}
Async<Vector> Evaluator::jtjp_async(Numbers x, Numbers p) {
  return Async<Vector>(Impl::of(impl_).begin(runtime::Pass::jtjp, x, p));
}
Async<Vector> Evaluator::hvp_async(Numbers x, Numbers p) {
  return Async<Vector>(Impl::of(impl_).begin(runtime::Pass::hvp, x, p));
}

EvaluatorReport Evaluator::report() const {
  runtime::EngineStats stats = Impl::of(impl_).session.engines->stats();
  stats += Impl::of(impl_).earlier;
  EvaluatorReport report;
  static_cast<runtime::EngineCounts&>(report) = stats;
  static_cast<runtime::MakingTimes&>(report) = stats;
  report.backend = backend();
  report.device = device();
  report.why = why();
  report.asynchronous = *Impl::of(impl_).figures;
  report.plan = Impl::of(impl_).session.engines->planned().abilities().plans->plan();
  return report;
}

std::vector<KernelInfo> Evaluator::kernels() const {
  std::vector<KernelInfo> out;
  for (const runtime::Term& term : Impl::of(impl_).model.model.terms)
    out.push_back(describe(term, backend()));
  return out;
}
std::string Evaluator::backend() const {
  return std::string(name(Impl::of(impl_).session.engine().backend()));
}
std::string Evaluator::device() const { return Impl::of(impl_).session.engine().device(); }
const std::string& Evaluator::why() const {
  Impl& impl = Impl::of(impl_);
  return impl.reason = impl.session.reason();
}

}  // namespace topograd
