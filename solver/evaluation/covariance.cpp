// Covariance of a problem's parameters at a solution.
#include "../covariance.hpp"

#include "../../frontend/inspect/array_names.hpp"
#include "../../frontend/inspect/problem_use.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/formatted.hpp"
#include "../host/host_engine.hpp"
#include "../host/tangent_jacobian.hpp"
#include "../linear/factor/normal_inverse.hpp"
#include "../sensitivity/optimality_system.hpp"
#include "../session/routing.hpp"
#include "../session/session.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace topograd {
namespace {

using DenseMatrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

std::string short_number(double value) { return platform::formatted("%.6g", value); }

}  // namespace

struct Covariance::Impl {
  Impl(Problem& p, const CovarianceOptions& o)
      : problem(ProblemUse::view_of(p)), options(o), space(problem) {
    if (!(options.min_reciprocal_condition_number > 0)) {
      throw Error(ErrorCode::InvalidArgument,
                  "covariance: min_reciprocal_condition_number must be > 0, got " +
                      short_number(options.min_reciprocal_condition_number));
    }
    if (options.null_space_rank < -1) {
      throw Error(ErrorCode::InvalidArgument, "covariance: null_space_rank must be >= -1, got " +
                                                  std::to_string(options.null_space_rank));
    }
    if (problem.constraint_count() > 0)
      linearize_constrained();
    else
      linearize();
  }

  /// Factorises JᵀJ beside the gradients of active constraints.
  void linearize_constrained() {
    if (problem.energy_count() > 0 || !problem.host_blocks().empty())
      throw Error(ErrorCode::Unsupported,
                  "covariance: with constraints it expects traced residuals only");
    const ProblemModel model =
        make_model("covariance", problem, options.apply_loss_function, ConstraintTerms::penalties);
    std::vector<double> x(model.model.scalars);
    problem.read_x(x);
    space.basis(x, basis);
    system = std::make_unique<OptimalitySystem>(
        model, NumberSources(problem), x,
        SensitivityOptions{.form = SensitivityForm::gauss_newton,
                           .convergence_tolerance = std::numeric_limits<double>::infinity(),
                           .solver = resolved(options.solver)});
    rank = system->degrees_of_freedom();
  }

  /// Takes J in tangent coordinates at the caller's values, and factorises.
  void linearize() {
    const ProblemModel model = make_model("covariance", problem, options.apply_loss_function);
    Session session = on_host(open_session(model, resolved(options.solver)), model);
    HostEngine& engine = *session.host;
    std::vector<double> x(model.model.scalars);
    problem.read_x(x);
    session.engines->at(runtime::Pass::jacobian, x);
    TangentJacobian tangent(model.model, space, engine.host());
    engine.evaluate_host();
    const std::span<const double> bases = engine.basis();
    basis.assign(bases.begin(), bases.end());
    tangent.refresh(engine, bases);
    if (!tangent.column_norms().allFinite())
      throw Error(ErrorCode::NonFinite, "covariance: a derivative is not finite");
    inverse.emplace(
        options.algorithm == CovarianceAlgorithm::sparse_qr
            ? DeterminedInverse::sparse(
                  tangent.normal(), [&] { return tangent.sparse(); }, -1, options.solver.threads)
            : DeterminedInverse::dense(tangent.dense(), options.min_reciprocal_condition_number,
                                       options.null_space_rank));
    rank = inverse->rank();
    lengths = tangent.column_norms();
  }

  /// The first coordinate of the range that has no covariance.
  std::optional<std::uint32_t> undetermined(const CoordinateRange& range) const {
    if (inverse) return inverse->undetermined(range);
    for (std::uint32_t k = range.first; k < range.first + range.count; ++k) {
      const std::uint32_t coordinate = system->coordinate(k);
      if (coordinate != TangentSpace::kNone && !system->determined(coordinate)) return k;
    }
    return std::nullopt;
  }

  /// A scalar that moves along a coordinate.
  std::uint32_t scalar_of(std::uint32_t coordinate) const {
    std::uint32_t k = 0;
    while (space.column(k) != coordinate) {
      const TangentSpace::Block* const block = space.block_of(k);
      if (block != nullptr && coordinate >= block->column &&
          coordinate < block->column + block->tangent)
        break;
      ++k;
    }
    return k;
  }

  std::string name_of(std::uint32_t coordinate) const {
    const std::uint32_t scalar = scalar_of(coordinate);
    const TangentSpace::Block* const block = space.block_of(scalar);
    std::string text = scalar_text(problem.arrays(), scalar);
    return block == nullptr ? text : text.substr(0, text.rfind(", coordinate "));
  }

  /// Throws if a coordinate of the range has no covariance.
  void require(const CoordinateRange& range) const {
    const std::optional<std::uint32_t> missing = undetermined(range);
    if (!missing) return;
    const bool unread = lengths.size() > 0 && lengths[*missing] == 0;
    throw Error(ErrorCode::InvalidArgument,
                "covariance: the residuals do not determine " + name_of(*missing) +
                    (unread ? ", on which no residual depends" : "") + " (the Jacobian has rank " +
                    std::to_string(rank) + " of " + std::to_string(space.size()) +
                    "); dense_svd with null_space_rank −1 gives the pseudo-inverse");
  }

  std::vector<std::string> undetermined() const {
    std::vector<std::string> names;
    for (std::uint32_t k = 0; k < space.scalars(); ++k) {
      const TangentSpace::Block* const block = space.block_of(k);
      if (space.column(k) == TangentSpace::kNone || (block != nullptr && block->offset != k))
        continue;
      const CoordinateRange range{space.column(k), block == nullptr ? 1 : block->tangent};
      if (const auto missing = undetermined(range)) names.push_back(name_of(*missing));
    }
    return names;
  }

  DenseMatrix constrained_columns(const CoordinateRange& of) const {
    DenseMatrix out = DenseMatrix::Zero(static_cast<Eigen::Index>(space.size()), of.count);
    const Vector none = Vector::Zero(static_cast<Eigen::Index>(system->active_rows().size()));
    for (std::uint32_t k = 0; k < of.count; ++k) {
      const std::uint32_t coordinate = system->coordinate(of.first + k);
      if (coordinate == TangentSpace::kNone) continue;
      const Vector u = system->solve(Vector::Unit(system->coordinates(), coordinate), none).u;
      for (std::uint32_t row = 0; row < space.size(); ++row)
        if (system->coordinate(row) != TangentSpace::kNone)
          out(row, k) = u[system->coordinate(row)];
      double& variance = out(of.first + k, k);
      variance = std::max(variance, 0.0);  // rounding, where constraints hold it
    }
    return out;
  }

  /// The columns of a block's coordinates, one after the other, and its part of P.
  struct Part {
    CoordinateRange range;
    DenseMatrix P;  // (width, range.count)
  };
  Part part(const ParameterBlock& b) const {
    // The checks of the problem and the range are those of the problem's own calls.
    const std::uint32_t width = static_cast<std::uint32_t>(b.array.width());
    const std::uint32_t offset = problem.offset_of("covariance", b);
    Part out;
    if (const TangentSpace::Block* on = space.block_of(offset)) {
      out = {{on->column, on->tangent}, DenseMatrix(width, on->tangent)};
      for (std::uint32_t k = 0; k < width; ++k)
        for (std::uint32_t t = 0; t < on->tangent; ++t)
          out.P(k, t) = basis[on->basis + std::size_t{k} * on->tangent + t];
      return out;
    }
    CoordinateRange& range = out.range;
    for (std::uint32_t k = 0; k < width; ++k)
      if (space.column(offset + k) != TangentSpace::kNone && range.count++ == 0)
        range.first = space.column(offset + k);
    out.P = DenseMatrix::Zero(width, range.count);
    for (std::uint32_t k = 0; k < width; ++k)
      if (space.column(offset + k) != TangentSpace::kNone)
        out.P(k, space.column(offset + k) - range.first) = 1;
    return out;
  }

  DenseMatrix tangent(const Part& a, const Part& b) const {
    require(a.range);
    require(b.range);
    if (inverse) return inverse->blocks(std::array{NormalInverse::Pair{a.range, b.range}}).front();
    return constrained_columns(b.range).middleRows(a.range.first, a.range.count);
  }

  /// All pairs of parts side by side, in tangent coordinates.
  DenseMatrix tangents(std::span<const CoordinateRange> ranges) const {
    Eigen::Index size = 0;
    for (const CoordinateRange& range : ranges) {
      require(range);
      size += range.count;
    }
    DenseMatrix out(size, size);
    if (inverse) {
      put_pairs(ranges, out);
      return out;
    }
    Eigen::Index column = 0;
    for (const CoordinateRange& b : ranges) {
      const DenseMatrix all = constrained_columns(b);
      Eigen::Index row = 0;
      for (const CoordinateRange& a : ranges) {
        out.block(row, column, a.count, b.count) = all.middleRows(a.first, a.count);
        row += a.count;
      }
      column += b.count;
    }
    return out;
  }

  void put_pairs(std::span<const CoordinateRange> ranges, DenseMatrix& out) const {
    std::vector<Eigen::Index> at;
    std::vector<NormalInverse::Pair> pairs;
    Eigen::Index size = 0;
    for (const CoordinateRange& range : ranges) {
      at.push_back(size);
      size += range.count;
    }
    for (std::size_t i = 0; i < ranges.size(); ++i)
      for (std::size_t j = i; j < ranges.size(); ++j) pairs.push_back({ranges[i], ranges[j]});
    const std::vector<DenseMatrix> blocks = inverse->blocks(pairs);
    auto block = blocks.begin();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      for (std::size_t j = i; j < ranges.size(); ++j, ++block) {
        out.block(at[i], at[j], block->rows(), block->cols()) = *block;
        out.block(at[j], at[i], block->cols(), block->rows()) = block->transpose();
      }
    }
  }

  DenseMatrix side_by_side(std::span<const ParameterBlock> blocks, bool ambient) const {
    std::vector<Part> parts;
    std::vector<CoordinateRange> ranges;
    Eigen::Index size = 0;
    for (const ParameterBlock& b : blocks) {
      parts.push_back(part(b));
      ranges.push_back(parts.back().range);
      size += parts.back().P.rows();
    }
    DenseMatrix inner = tangents(ranges);
    if (!ambient) return inner;
    DenseMatrix out(size, size);
    Eigen::Index column = 0, from_column = 0;
    for (const Part& b : parts) {
      Eigen::Index row = 0, from_row = 0;
      for (const Part& a : parts) {
        out.block(row, column, a.P.rows(), b.P.rows()) =
            a.P * inner.block(from_row, from_column, a.P.cols(), b.P.cols()) * b.P.transpose();
        row += a.P.rows();
        from_row += a.P.cols();
      }
      column += b.P.rows();
      from_column += b.P.cols();
    }
    return out;
  }

  Problem problem;  // a view, which lives as long as this
  CovarianceOptions options;
  TangentSpace space;
  std::vector<double> basis;
  std::size_t rank = 0;
  std::optional<DeterminedInverse> inverse;
  Vector lengths;                            // of the columns of J
  std::unique_ptr<OptimalitySystem> system;  // with constraints, in place of both
};

Covariance::Covariance(Problem& problem, const CovarianceOptions& options)
    : impl_(here_or_on_cpu(options, "covariance", [&](const CovarianceOptions& chosen) {
        return std::make_unique<Impl>(problem, chosen);
      })) {}
Covariance::~Covariance() = default;
Covariance::Covariance(Covariance&&) noexcept = default;
Covariance& Covariance::operator=(Covariance&&) noexcept = default;

std::size_t Covariance::rank() const { return impl_->rank; }
bool Covariance::determines(const ParameterBlock& block) const {
  return !impl_->undetermined(impl_->part(block).range);
}
std::vector<std::string> Covariance::undetermined() const { return impl_->undetermined(); }
DenseMatrix Covariance::tangent_block(const ParameterBlock& a, const ParameterBlock& b) const {
  return impl_->tangent(impl_->part(a), impl_->part(b));
}
DenseMatrix Covariance::block(const ParameterBlock& a, const ParameterBlock& b) const {
  const Impl::Part pa = impl_->part(a), pb = impl_->part(b);
  return pa.P * impl_->tangent(pa, pb) * pb.P.transpose();
}
DenseMatrix Covariance::matrix(std::span<const ParameterBlock> blocks) const {
  return impl_->side_by_side(blocks, true);
}
DenseMatrix Covariance::tangent_matrix(std::span<const ParameterBlock> blocks) const {
  return impl_->side_by_side(blocks, false);
}

}  // namespace topograd
