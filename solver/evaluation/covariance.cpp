// Covariance of a problem's parameters at a solution.
#include "../covariance.hpp"

#include "../../frontend/inspect/array_names.hpp"
#include "../../frontend/inspect/number_sources.hpp"
#include "../../frontend/inspect/problem_use.hpp"
#include "../../ir/error.hpp"
#include "../host/host_engine.hpp"
#include "../host/tangent_jacobian.hpp"
#include "../linear/factor/normal_inverse.hpp"
#include "../sensitivity/optimality_system.hpp"
#include "../session/session.hpp"

#include <Eigen/QR>
#include <Eigen/SVD>
#include <Eigen/SparseQR>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace topograd {
namespace {

using DenseMatrix = Eigen::MatrixXd;
using SparseColumns = Eigen::SparseMatrix<double>;
using Vector = Eigen::VectorXd;

std::string short_number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

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
    if (options.algorithm == CovarianceAlgorithm::sparse_qr) {
      normal = NormalInverse::make(tangent.normal(), options.solver.threads);
      rank = space.size();
      if (normal == nullptr) factor(tangent.sparse());
    } else {
      invert(tangent.dense());
    }
  }

  void factor(const SparseColumns& J) {
    qr.compute(J);
    rank = static_cast<std::size_t>(qr.rank());
    if (qr.info() == Eigen::Success && rank == space.size()) return;
    fail(J, "; use dense_svd with a null_space_rank");
  }

  void invert(const DenseMatrix& J) {
    // J and its triangular factor have the same singular values and right singular vectors.
    const auto n = static_cast<Eigen::Index>(space.size());
    const Eigen::Index rows = std::min(J.rows(), n);
    DenseMatrix R = DenseMatrix::Zero(n, n);
    R.topRows(rows) = Eigen::HouseholderQR<DenseMatrix>(J)
                          .matrixQR()
                          .topRows(rows)
                          .triangularView<Eigen::Upper>();
    const Eigen::JacobiSVD<DenseMatrix, Eigen::NoQRPreconditioner> svd(R, Eigen::ComputeFullV);
    const Vector& values = svd.singularValues();
    const Eigen::Index most = std::min(values.size(), n - std::max(options.null_space_rank, 0));
    const double largest = values.size() > 0 ? values[0] : 0;
    Vector inverse = Vector::Zero(values.size());
    for (Eigen::Index k = 0; k < most; ++k) {
      const double ratio = values[k] / largest;
      const bool too_small =
          !(ratio * ratio >= options.min_reciprocal_condition_number) || values[k] == 0;
      if (too_small && options.null_space_rank < 0) break;
      rank = static_cast<std::size_t>(k);
      if (too_small) fail(J.sparseView(), "; raise null_space_rank, or −1 to let the bound decide");
      inverse[k] = 1 / (values[k] * values[k]);
      rank = static_cast<std::size_t>(k) + 1;
    }
    if (options.null_space_rank >= 0 && most < n - options.null_space_rank)
      fail(J.sparseView(), "; raise null_space_rank");
    dense = svd.matrixV() * inverse.asDiagonal() * svd.matrixV().transpose();
  }

  /// Names the coordinates that no residual depends on, if that is what is wrong.
  [[noreturn]] void fail(const SparseColumns& J, const std::string& advice) const {
    std::string text = "covariance: the Jacobian has rank " + std::to_string(rank) + " of " +
                       std::to_string(space.size());
    for (std::uint32_t k = 0; k < space.scalars(); ++k) {
      const std::uint32_t column = space.column(k);
      if (column == TangentSpace::kNone || J.col(column).norm() != 0) continue;
      text += "; no residual depends on " + scalar_text(problem.arrays(), k);
      break;
    }
    throw Error(ErrorCode::InvalidArgument, text + advice);
  }

  /// Columns of (JᵀJ)⁻¹.
  DenseMatrix columns(const CoordinateRange& of) const {
    const auto n = static_cast<Eigen::Index>(space.size());
    if (system != nullptr) return constrained_columns(of);
    if (options.algorithm == CovarianceAlgorithm::dense_svd)
      return dense.middleCols(of.first, of.count);
    DenseMatrix out(n, of.count);
    const SparseColumns R = qr.matrixR().topLeftCorner(n, n);
    for (std::uint32_t k = 0; k < of.count; ++k) {
      Vector y = qr.colsPermutation().transpose() * Vector::Unit(n, of.first + k);
      y = R.transpose().triangularView<Eigen::Lower>().solve(y);
      y = R.triangularView<Eigen::Upper>().solve(y);
      out.col(k) = qr.colsPermutation() * y;
    }
    return out;
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
    // The checks of owner and range are those of the problem's own calls.
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
    if (normal != nullptr) return normal->block(a.range, b.range);
    return columns(b.range).middleRows(a.range.first, a.range.count);
  }

  /// All pairs of parts side by side, in tangent coordinates.
  DenseMatrix tangents(std::span<const CoordinateRange> ranges) const {
    Eigen::Index size = 0;
    for (const CoordinateRange& range : ranges) size += range.count;
    DenseMatrix out(size, size);
    if (normal != nullptr) {
      put_pairs(ranges, out);
      return out;
    }
    Eigen::Index column = 0;
    for (const CoordinateRange& b : ranges) {
      const DenseMatrix all = columns(b);
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
    const std::vector<DenseMatrix> blocks = normal->blocks(pairs);
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
  std::unique_ptr<NormalInverse> normal;  // of sparse_qr, if JᵀJ has enough digits; else qr
  Eigen::SparseQR<SparseColumns, Eigen::COLAMDOrdering<int> > qr;
  DenseMatrix dense;                         // (JᵀJ)⁻¹ of dense_svd
  std::unique_ptr<OptimalitySystem> system;  // with constraints
};

Covariance::Covariance(Problem& problem, const CovarianceOptions& options)
    : impl_(std::make_unique<Impl>(problem, options)) {}
Covariance::~Covariance() = default;
Covariance::Covariance(Covariance&&) noexcept = default;
Covariance& Covariance::operator=(Covariance&&) noexcept = default;

std::size_t Covariance::rank() const { return impl_->rank; }
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
