// Products with the derivative of the solution, in a problem whose data are unknowns too.
#include "../sensitivity.hpp"

#include "../../frontend/inspect/array_names.hpp"
#include "../../frontend/inspect/problem_use.hpp"
#include "../../ir/error.hpp"
#include "../../ir/program.hpp"
#include "../model/model.hpp"
#include "../model/nonfinite.hpp"
#include "../session/routing.hpp"
#include "../session/session.hpp"
#include "optimality_system.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd {

/// The topologies of a model with parameters in the place of data and uniforms: products with
/// derivatives by both x and θ are then the ordinary products of an engine.
///
/// Its unknowns are x, then the numbers of all data arrays, then all uniforms of users, then
/// numbers of single residuals which share a topology with such a number.
struct ExtendedModel {
  ProblemModel model;  ///< nothing is fixed
  std::deque<ir::Batch> batches;
  std::vector<double> point;  ///< x and the numbers

  ExtendedModel() = default;
  ExtendedModel(ExtendedModel&&) = default;
  ExtendedModel& operator=(ExtendedModel&&) = default;
};

namespace {

using Slots = std::vector<std::uint32_t>;

/// The data and uniform slots of a topology that become parameters.
struct Moved {
  Slots data, uniforms;
  bool any() const { return !data.empty() || !uniforms.empty(); }
};

/// A rewritten topology, and the columns of the first batch that its slots read: column c of the
/// parameters is parameter c, then data column c − P, then uniform column c − P − D.
struct Rewritten {
  std::unique_ptr<ir::Topology> topology;
  Slots parameters, data, uniforms;
};

Rewritten rewrite(const ir::Program& program, const Moved& moved, std::uint32_t hidden_uniforms) {
  const ir::LeafCounts before = program.leaves;
  ir::LeafCounts leaves = before;
  // By old slot: the new one, of a parameter where it has moved.
  const auto renumber = [&](std::uint32_t count, const Slots& gone, std::uint32_t& left,
                            Slots& columns) {
    Slots numbers(count);
    left = 0;
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      if (std::ranges::binary_search(gone, slot)) {
        numbers[slot] = leaves.parameters++;
      } else {
        numbers[slot] = left++;
        columns.push_back(slot);
      }
    }
    return numbers;
  };
  Slots parameters(before.parameters), data, uniforms;
  std::iota(parameters.begin(), parameters.end(), 0u);
  const Slots new_data = renumber(before.data, moved.data, leaves.data, data);
  for (const std::uint32_t slot : moved.data) parameters.push_back(before.parameters + slot);
  const Slots new_uniform = renumber(before.uniforms, moved.uniforms, leaves.uniforms, uniforms);
  for (const std::uint32_t slot : moved.uniforms)
    parameters.push_back(before.parameters + before.data + slot);

  ir::Graph graph;
  std::vector<ir::Id> map;
  for (const ir::Node& node : program.nodes) {
    const bool is_data = node.op == ir::Op::Data, is_uniform = node.op == ir::Op::Uniform;
    if (!is_data && !is_uniform) {
      map.push_back(graph.copy(node, map));
      continue;
    }
    const bool moves =
        std::ranges::binary_search(is_data ? moved.data : moved.uniforms, node.slot());
    map.push_back(graph.leaf(moves ? ir::Op::Parameter : node.op,
                             (is_data ? new_data : new_uniform)[node.slot()]));
  }
  std::vector<ir::Id> outputs;
  for (const ir::Id output : program.outputs) outputs.push_back(map[output]);
  std::vector<ir::Guard> guards;
  for (const ir::Guard& guard : program.guards)
    guards.push_back({map[guard.condition], guard.expected});
  // Uniforms of losses stay the last ones (runtime::Term::loss); kernels are found by the hash of
  // the canonical form.
  leaves.uniforms -= hidden_uniforms;
  ir::Canonical canonical = ir::canonicalize(graph.extract(outputs, leaves, guards));
  canonical.topology.program.leaves.uniforms += hidden_uniforms;
  for (std::uint32_t k = 0; k < hidden_uniforms; ++k)
    canonical.uniforms.push_back(leaves.uniforms + k);

  const auto in_order = [](const Slots& order, const Slots& columns) {
    Slots out;
    for (const std::uint32_t slot : order) out.push_back(columns[slot]);
    return out;
  };
  return {.topology = std::make_unique<ir::Topology>(std::move(canonical.topology)),
          .parameters = in_order(canonical.parameters, parameters),
          .data = in_order(canonical.data, data),
          .uniforms = in_order(canonical.uniforms, uniforms)};
}

class Extension {
 public:
  Extension(const ProblemModel& base, const NumberSources& sources, const std::vector<bool>& chosen,
            std::span<const double> x)
      : base_(base), sources_(sources), chosen_(chosen) {
    out_.point.assign(x.begin(), x.end());
    const std::span<const double> data = sources.data();
    out_.point.insert(out_.point.end(), data.begin(), data.end());
    first_data_ = x.size();
    first_uniform_ = out_.point.size();
    for (const std::uint32_t uniform : sources.uniforms()) {
      rank_[uniform] = static_cast<std::uint32_t>(out_.point.size() - first_uniform_);
      out_.point.push_back(base.model.uniforms[uniform]);
    }
  }

  ExtendedModel run() {
    ProblemModel& model = out_.model;
    model.topologies = base_.topologies;
    model.problem = base_.problem;
    model.with_losses = base_.with_losses;
    model.constraints = base_.constraints;
    model.model = base_.model;
    for (std::size_t t = 0; t < base_.topologies.size(); ++t) extend(t);
    const std::size_t scalars = out_.point.size();
    if (scalars >= std::numeric_limits<std::uint32_t>::max())
      throw Error(ErrorCode::Unsupported,
                  "sensitivity: expected fewer than 2^32 - 1 unknowns and numbers, got " +
                      std::to_string(scalars));
    runtime::Model& to = model.model;
    if (scalars > to.scalars)
      to.arrays.push_back({.offset = to.scalars, .width = 1, .blocks = scalars - to.scalars});
    to.scalars = scalars;
    to.constant.clear();
    to.lower.clear();
    to.upper.clear();
    to.manifolds = nullptr;
    return std::move(out_);
  }

 private:
  Moved moved_slots(std::size_t t) const {
    const std::size_t topology = base_.topologies[t];
    const ir::Batch& batch = *base_.model.terms[t].batch;
    Moved out;
    const std::uint32_t data = batch.data_columns() - sources_.hidden_data(topology);
    for (std::uint32_t c = 0; c < data && sources_.reads_arrays(topology); ++c) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const std::uint32_t entry = sources_.source(topology, i, c);
        if (entry == NumberSources::kOwn || !chosen_[entry]) continue;
        out.data.push_back(c);
        break;
      }
    }
    const std::uint32_t uniforms = batch.uniform_columns() - sources_.hidden_uniforms(topology);
    for (std::uint32_t c = 0; c < uniforms; ++c) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const std::uint32_t uniform = batch.index(i, batch.parameter_columns() + c);
        if (!chosen_[first_uniform_ - first_data_ + rank_.at(uniform)]) continue;
        out.uniforms.push_back(c);
        break;
      }
    }
    return out;
  }

  void extend(std::size_t t) {
    runtime::Term& term = out_.model.model.terms[t];
    const std::size_t topology = base_.topologies[t];
    const ir::Batch& from = *base_.model.terms[t].batch;
    const Moved moved = moved_slots(t);
    const bool constrains = is_constraint(base_.problem->kind(topology));
    const std::uint32_t hidden = constrains ? 0 : sources_.hidden_uniforms(topology);
    Rewritten to;
    if (moved.any()) {
      to = rewrite(term.topology->program, moved, hidden);
      out_.model.own_topologies.push_back(std::move(to.topology));
      term.topology = out_.model.own_topologies.back().get();
    } else {
      to.parameters.resize(from.parameter_columns());
      to.data.resize(from.data_columns());
      to.uniforms.resize(from.uniform_columns());
      for (Slots* slots : {&to.parameters, &to.data, &to.uniforms})
        std::iota(slots->begin(), slots->end(), 0u);
    }
    term.batch = &copy(topology, from, to);
  }

  ir::Batch& copy(std::size_t topology, const ir::Batch& from, const Rewritten& to) {
    ir::Batch& out = out_.batches.emplace_back(static_cast<std::uint32_t>(to.parameters.size()),
                                               static_cast<std::uint32_t>(to.uniforms.size()),
                                               static_cast<std::uint32_t>(to.data.size()));
    for (const ir::Batch::NewRows& rows : out.append_rows(from.size())) {
      for (std::size_t i = 0; i < rows.count; ++i) rows.row[i] = from.residual_row(rows.first + i);
      std::uint32_t* index = rows.index;
      for (const std::uint32_t column : to.parameters) {
        if (column < from.parameter_columns()) {
          from.copy_index_column(column, rows.first, {index, rows.count});
        } else {
          for (std::size_t i = 0; i < rows.count; ++i)
            index[i] = number(topology, from, rows.first + i, column - from.parameter_columns());
        }
        index += rows.stride;
      }
      for (const std::uint32_t column : to.uniforms) {
        from.copy_index_column(from.parameter_columns() + column, rows.first, {index, rows.count});
        index += rows.stride;
      }
      double* data = rows.data;
      for (const std::uint32_t column : to.data) {
        from.copy_data_column(column, rows.first, {data, rows.count});
        data += rows.stride;
      }
    }
    return out;
  }

  /// The unknown that stands for the number in a data column, or a uniform column after these.
  std::uint32_t number(std::size_t topology, const ir::Batch& from, std::size_t instance,
                       std::uint32_t column) {
    const std::uint32_t data = from.data_columns();
    if (column >= data) {
      const std::uint32_t uniform = from.index(instance, from.parameter_columns() + column - data);
      return static_cast<std::uint32_t>(first_uniform_ + rank_.at(uniform));
    }
    const std::uint32_t entry = sources_.source(topology, instance, column);
    if (entry != NumberSources::kOwn) return static_cast<std::uint32_t>(first_data_ + entry);
    out_.point.push_back(from.data(instance, column));
    return static_cast<std::uint32_t>(out_.point.size() - 1);
  }

  const ProblemModel& base_;
  const NumberSources& sources_;
  const std::vector<bool>& chosen_;
  ExtendedModel out_;
  std::size_t first_data_ = 0, first_uniform_ = 0;
  std::map<std::uint32_t, std::uint32_t> rank_;  // of users' uniforms
};

/// Copies the model's batches. Topologies of which no instance reads a chosen number stay as they
/// are.
///
///   base    of the problem; its losses' programs outlive the result
///   chosen  by data entry and then by uniform of `sources`: it becomes an unknown
///
/// Throws Error{Unsupported} if x and the numbers are 2³² − 1 scalars or more.
ExtendedModel extend_model(const ProblemModel& base, const NumberSources& sources,
                           const std::vector<bool>& chosen, std::span<const double> x) {
  return Extension(base, sources, chosen, x).run();
}

using Vector = Eigen::VectorXd;

std::span<double> span_of(Vector& v) { return {v.data(), static_cast<std::size_t>(v.size())}; }
std::span<const double> view_of(const Vector& v) {
  return {v.data(), static_cast<std::size_t>(v.size())};
}

void check_size(const char* what, std::size_t size, std::size_t expected) {
  if (size == expected) return;
  throw Error(ErrorCode::Shape, std::string("sensitivity: ") + what + " needs " +
                                    std::to_string(expected) + " numbers, got " +
                                    std::to_string(size));
}

SensitivityOptions resolved_options(SensitivityOptions options) {
  options.solver = resolved(options.solver);
  if (!(options.convergence_tolerance > 0))
    throw Error(ErrorCode::InvalidArgument, "sensitivity: convergence_tolerance must be > 0, got " +
                                                std::to_string(options.convergence_tolerance));
  return options;
}

/// Throws for what has no second derivatives here.
void check_problem(const Problem& problem, SensitivityForm form) {
  if (!problem.host_blocks().empty())
    throw Error(ErrorCode::Unsupported,
                "sensitivity: the problem has residuals that run on the host; expected traced "
                "residuals");
  if (form == SensitivityForm::gauss_newton && problem.energy_count() > 0)
    throw Error(ErrorCode::Unsupported,
                "sensitivity: energies have no Gauss-Newton form; expected the form full");
}

}  // namespace

struct Sensitivity::Impl {
  /// Numbers first .. first + count − 1, of the extended model's numbers after x.
  struct NumberRange {
    std::size_t first = 0, count = 0;
  };

  Impl(Problem& p, const std::vector<Theta>* parts, const SensitivityOptions& given)
      : problem(ProblemUse::view_of(p)),
        options(resolved_options(given)),
        sources(problem),
        entries(sources.data().size()) {
    check_problem(problem, options.form);
    choose(parts);
    const ProblemModel base = make_model(
        "sensitivity", problem, true,
        problem.constraint_count() > 0 ? ConstraintTerms::penalties : ConstraintTerms::none);
    std::vector<double> x(base.model.scalars);
    problem.read_x(x);
    check_manifolds("sensitivity", problem, x);
    scalars = x.size();
    extended = extend_model(base, sources, chosen, x);
    require_second_derivatives(base);
    system = std::make_unique<OptimalitySystem>(base, sources, x, options);
    session = open_session(extended.model, options.solver);
  }
  static std::unique_ptr<Impl> make(Problem& problem, const std::vector<Theta>* parts,
                                    const SensitivityOptions& options) {
    const LongBlocksTraced traced(problem);  // kernels have second derivatives
    return here_or_on_cpu(options, "sensitivity", [&](const SensitivityOptions& with) {
      return std::make_unique<Impl>(problem, parts, with);
    });
  }
  /// Calls f with an engine at the extended point, and with the CPU's if a device fails that
  /// `automatic` had chosen.
  template <class F>
  void on_engine(runtime::Pass pass, const F& f) {
    try {
      return f(session.engines->at(pass, extended.point));
    } catch (const Error& error) {
      if (!session.plan.backend.may_leave || !is_device_failure(error.code())) throw;
      session = take_over(extended.model, options.solver, error, session);
    }
    f(session.engines->at(pass, extended.point));
  }
  static Impl& of(const std::unique_ptr<Impl>& impl) {
    return require_not_moved_from(impl, "sensitivity");
  }

  /// Throws where the gradient jumps: at kinks by unknowns that are not fixed, or by numbers of θ.
  void require_second_derivatives(const ProblemModel& base) const {
    if (options.form != SensitivityForm::full) return;
    const bool narrow = options.solver.precision == Precision::f32;
    const auto precision = narrow ? runtime::Precision::f32 : runtime::Precision::f64;
    const std::optional<std::string> text =
        KinkCheck(extended.model, base.model.constant, precision, autodiff::KinksSought::all)
            .describe(extended.point);
    if (text) throw SensitivityError(SensitivityError::Reason::kink, "sensitivity: " + *text);
  }

  /// Position of a part among the numbers after x.
  NumberRange range_of(const Theta& part) const {
    if (const Data* data = std::get_if<Data>(&part))
      return {sources.first_entry("sensitivity", *data),
              data->size() * static_cast<std::size_t>(data->width())};
    const std::uint32_t uniform = sources.index("sensitivity", std::get<Uniform>(part));
    const auto& all = sources.uniforms();
    const auto rank = std::ranges::lower_bound(all, uniform) - all.begin();
    return {entries + static_cast<std::size_t>(rank), 1};
  }

  void choose(const std::vector<Theta>* parts) {
    const std::size_t numbers = entries + sources.uniforms().size();
    chosen.assign(numbers, parts == nullptr);
    if (parts == nullptr) {
      theta.push_back({0, numbers});
      size = numbers;
      return;
    }
    for (const Theta& part : *parts) {
      const NumberRange range = range_of(part);
      if (range.count > 0 && chosen[range.first])
        throw Error(ErrorCode::InvalidArgument, "sensitivity: a part of theta is listed twice");
      std::fill_n(chosen.begin() + static_cast<std::ptrdiff_t>(range.first), range.count, true);
      theta.push_back(range);
      size += range.count;
    }
  }

  /// Position in θ.
  std::size_t offset(const Theta& part) const {
    const NumberRange wanted = range_of(part);
    std::size_t at = 0;
    for (const NumberRange& range : theta) {
      if (wanted.first >= range.first && wanted.first + wanted.count <= range.first + range.count)
        return at + wanted.first - range.first;
      at += range.count;
    }
    throw Error(ErrorCode::InvalidArgument,
                "sensitivity: the data array or uniform is not one of those that theta was made "
                "of; list it in the constructor");
  }

  std::size_t all() const { return extended.point.size(); }

  /// Second derivatives of the extended model times p, or JᵀJ p.
  Vector product(const Vector& p) {
    Vector out(static_cast<Eigen::Index>(all()));
    if (options.form == SensitivityForm::full) {
      on_engine(runtime::Pass::hvp, [&](runtime::Engine& engine) {
        runtime::second_derivatives(engine).hvp(view_of(p), span_of(out));
      });
    } else {
      on_engine(runtime::Pass::jtjp,
                [&](runtime::Engine& engine) { engine.jtjp(view_of(p), span_of(out)); });
    }
    return out;
  }

  /// (∂c/∂θ) dθ of active constraints.
  Vector constraint_change(const Vector& p) {
    const std::span<const std::uint32_t> active = system->active_rows();
    Vector out(static_cast<Eigen::Index>(active.size()));
    if (active.empty()) return out;
    Vector rows(static_cast<Eigen::Index>(extended.model.model.rows));
    on_engine(runtime::Pass::jvp,
              [&](runtime::Engine& engine) { engine.jvp(view_of(p), span_of(rows)); });
    for (std::size_t k = 0; k < active.size(); ++k)
      out[static_cast<Eigen::Index>(k)] = -rows[active[k]] / system->penalty_weight();
    return out;
  }

  /// ∂c/∂(x, θ)ᵀ y.
  Vector constraint_gradient(const Vector& y) {
    const std::span<const std::uint32_t> active = system->active_rows();
    Vector out = Vector::Zero(static_cast<Eigen::Index>(all()));
    if (active.empty()) return out;
    Vector seeds = Vector::Zero(static_cast<Eigen::Index>(extended.model.model.rows));
    for (std::size_t k = 0; k < active.size(); ++k)
      seeds[active[k]] = -y[static_cast<Eigen::Index>(k)] / system->penalty_weight();
    on_engine(runtime::Pass::vjp,
              [&](runtime::Engine& engine) { engine.vjp(view_of(seeds), span_of(out)); });
    return out;
  }

  /// dtheta: by number after x.
  Vector forward(const Vector& dtheta) {
    Vector p = Vector::Zero(static_cast<Eigen::Index>(all()));
    p.segment(static_cast<Eigen::Index>(scalars), dtheta.size()) = dtheta;
    const Vector moved = product(p).head(static_cast<Eigen::Index>(scalars));
    Vector u = system->solve(-system->gather(moved), -constraint_change(p)).u;
    for (Eigen::Index k = 0; k < u.size(); ++k)
      if (system->unknown(k) == SymmetricSolver::Unknown::singular)
        u[k] = std::numeric_limits<double>::quiet_NaN();
    return system->spread(u);
  }

  /// Throws if a function of x* depends on unknowns that are not determined.
  void require_determined(const Vector& seed) const {
    for (Eigen::Index k = 0; k < seed.size(); ++k) {
      if (seed[k] == 0 || system->unknown(k) != SymmetricSolver::Unknown::singular) continue;
      throw SensitivityError(SensitivityError::Reason::singular,
                             "sensitivity: the residuals do not determine " +
                                 scalar_text(problem.arrays(), system->scalar_of(k)) +
                                 ", and dx is not 0 there; fix it, or add a residual for it");
    }
  }

  std::vector<std::string> undetermined() const {
    std::vector<std::uint32_t> scalars_of;
    for (Eigen::Index k = 0; k < system->coordinates(); ++k)
      if (!system->determined(k)) scalars_of.push_back(system->scalar_of(k));
    std::ranges::sort(scalars_of);
    const auto again = std::ranges::unique(scalars_of);
    scalars_of.erase(again.begin(), again.end());
    std::vector<std::string> names;
    for (const std::uint32_t k : scalars_of) names.push_back(scalar_text(problem.arrays(), k));
    return names;
  }

  /// By number after x.
  Vector backward(Numbers dx) {
    check_size("dx", dx.size(), scalars);
    const Eigen::Map<const Vector> seed(dx.data(), static_cast<Eigen::Index>(dx.size()));
    const Vector gathered = system->gather(seed);
    require_determined(gathered);
    const OptimalitySystem::Solution found = system->solve(
        gathered, Vector::Zero(static_cast<Eigen::Index>(system->active_rows().size())));
    Vector p = Vector::Zero(static_cast<Eigen::Index>(all()));
    p.head(static_cast<Eigen::Index>(scalars)) = system->spread(found.u);
    const Vector by_all = product(p) + constraint_gradient(found.y);
    return -by_all.tail(by_all.size() - static_cast<Eigen::Index>(scalars));
  }

  Vector jvp(std::span<const NumberRange> ranges, std::span<const double> dtheta) {
    std::size_t count = 0;
    for (const NumberRange& range : ranges) count += range.count;
    check_size("dtheta", dtheta.size(), count);
    Vector numbers = Vector::Zero(static_cast<Eigen::Index>(chosen.size()));
    std::size_t at = 0;
    for (const NumberRange& range : ranges)
      for (std::size_t k = 0; k < range.count; ++k)
        numbers[static_cast<Eigen::Index>(range.first + k)] = dtheta[at++];
    return forward(numbers);
  }

  Vector vjp(std::span<const NumberRange> ranges, Numbers dx) {
    const Vector numbers = backward(dx);
    std::size_t count = 0;
    for (const NumberRange& range : ranges) count += range.count;
    Vector out(static_cast<Eigen::Index>(count));
    Eigen::Index at = 0;
    for (const NumberRange& range : ranges)
      for (std::size_t k = 0; k < range.count; ++k)
        out[at++] = numbers[static_cast<Eigen::Index>(range.first + k)];
    return out;
  }

  /// The numbers of a part that θ has.
  NumberRange part(const Theta& of) const {
    offset(of);
    return range_of(of);
  }

  Problem problem;  // a view, which lives as long as this
  SensitivityOptions options;
  NumberSources sources;
  std::size_t entries;             // numbers of data arrays
  std::vector<bool> chosen;        // by number after x: it is in θ
  std::vector<NumberRange> theta;  // in order
  std::size_t size = 0, scalars = 0;
  std::unique_ptr<OptimalitySystem> system;
  ExtendedModel extended;
  Session session;  // of `extended`
};

Sensitivity::Sensitivity(Problem& problem, const SensitivityOptions& options)
    : impl_(Impl::make(problem, nullptr, options)) {}
Sensitivity::Sensitivity(Problem& problem, std::span<const Theta> theta,
                         const SensitivityOptions& options) {
  const std::vector<Theta> parts(theta.begin(), theta.end());
  impl_ = Impl::make(problem, &parts, options);
}
Sensitivity::~Sensitivity() = default;
Sensitivity::Sensitivity(Sensitivity&&) noexcept = default;
Sensitivity& Sensitivity::operator=(Sensitivity&&) noexcept = default;

std::size_t Sensitivity::size() const { return Impl::of(impl_).size; }
std::size_t Sensitivity::offset(const Theta& part) const { return Impl::of(impl_).offset(part); }

Vector Sensitivity::jvp(Numbers dtheta) const {
  Impl& impl = Impl::of(impl_);
  return impl.jvp(impl.theta, dtheta);
}
Vector Sensitivity::jvp(const Data& part, Numbers dtheta) const {
  Impl& impl = Impl::of(impl_);
  const Impl::NumberRange range = impl.part(part);
  return impl.jvp({&range, 1}, dtheta);
}
Vector Sensitivity::jvp(const Uniform& part, double dtheta) const {
  Impl& impl = Impl::of(impl_);
  const Impl::NumberRange range = impl.part(part);
  return impl.jvp({&range, 1}, {&dtheta, 1});
}
Vector Sensitivity::vjp(Numbers dx) const {
  Impl& impl = Impl::of(impl_);
  return impl.vjp(impl.theta, dx);
}
Vector Sensitivity::vjp(const Data& part, Numbers dx) const {
  Impl& impl = Impl::of(impl_);
  const Impl::NumberRange range = impl.part(part);
  return impl.vjp({&range, 1}, dx);
}
double Sensitivity::vjp(const Uniform& part, Numbers dx) const {
  Impl& impl = Impl::of(impl_);
  const Impl::NumberRange range = impl.part(part);
  return impl.vjp({&range, 1}, dx)[0];
}

std::vector<std::string> Sensitivity::undetermined() const {
  return Impl::of(impl_).undetermined();
}
std::size_t Sensitivity::active_bounds() const { return Impl::of(impl_).system->active_bounds(); }
std::size_t Sensitivity::active_constraints() const {
  return Impl::of(impl_).system->active_rows().size();
}

}  // namespace topograd
