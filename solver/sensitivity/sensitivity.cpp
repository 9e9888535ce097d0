// Products with the derivative of the solution.
#include "../sensitivity.hpp"

#include "../../frontend/inspect/array_names.hpp"
#include "../../frontend/inspect/problem_use.hpp"
#include "../../ir/error.hpp"
#include "../model/model.hpp"
#include "../model/nonfinite.hpp"
#include "../session/routing.hpp"
#include "../session/session.hpp"
#include "extended_model.hpp"
#include "optimality_system.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

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
