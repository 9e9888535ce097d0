// Weights of the edges of a pose graph.
#include "pose_graph_weights.hpp"

#include "../../ir/error.hpp"
#include "../../runtime/linear/dense.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Geometry>
#include <Eigen/LU>

#include <array>
#include <cmath>
#include <cstdio>

namespace topograd {
namespace {

using Information = Eigen::Matrix<double, 6, 6, Eigen::RowMajor>;

Eigen::MatrixXd information(const PoseGraph::Edge& edge, int first, int size) {
  return Eigen::Map<const Information>(edge.information.data()).block(first, first, size, size);
}

/// The block's harmonic mean d / tr(Ω⁻¹), 0 for a singular block.
double harmonic_mean(const PoseGraph::Edge& edge, int first, int size) {
  if (!has_definite_block(edge, first, size)) return 0;
  return size / information(edge, first, size).inverse().trace();
}

/// A square root S of Ω = SᵀS that is positive semidefinite.
Eigen::MatrixXd square_root(const Eigen::MatrixXd& omega) {
  const runtime::SymmetricEigen eigen(omega);
  return eigen.values().cwiseMax(0).cwiseSqrt().asDiagonal() * eigen.vectors().transpose();
}

int degrees(int dimension) { return dimension == 2 ? 3 : 6; }

/// Compares the information matrices of a graph with what an objective needs.
class InformationCheck {
 public:
  InformationCheck(const PoseGraph& graph, PoseObjective objective)
      : file_(graph.file), dimension_(graph.dimension), objective_(objective) {}

  void pose(const PoseGraph::Edge& edge) const {
    const int all = degrees(dimension_);
    if (objective_ != PoseObjective::chordal) return semidefinite(edge, all);
    definite_or_zero(edge, 0, dimension_);
    if (dimension_ == 3) definite_or_zero(edge, 3, 3);
  }
  void point(const PoseGraph::Edge& edge) const {
    if (objective_ != PoseObjective::chordal) return semidefinite(edge, dimension_);
    definite_or_zero(edge, 0, dimension_);
  }

 private:
  void definite_or_zero(const PoseGraph::Edge& edge, int first, int size) const {
    if (has_definite_block(edge, first, size) || information(edge, first, size).isZero(0)) return;
    fail(edge,
         "blocks of information matrices that are positive definite or zero, which the objective "
         "chordal needs",
         first, size, "the objectives chi2 and g2o take semidefinite ones");
  }
  void semidefinite(const PoseGraph::Edge& edge, int size) const {
    if (has_semidefinite_block(edge, 0, size)) return;
    fail(edge,
         "positive semidefinite information matrices, which the objective " +
             std::string(name(objective_)) + " reads whole",
         0, size, "the objective chordal reads only its blocks of position and of rotation");
  }
  [[noreturn]] void fail(const PoseGraph::Edge& edge, const std::string& expected, int first,
                         int size, const std::string& advice) const {
    const std::string line = edge.line == 0 ? "" : ":" + std::to_string(edge.line);
    throw Error(ErrorCode::InvalidArgument,
                (file_.empty() ? "pose graph" : file_) + line + ": expected " + expected +
                    ", got one with the eigenvalue " + least_eigenvalue(edge, first, size) + "; " +
                    advice);
  }

  const std::string& file_;
  int dimension_;
  PoseObjective objective_;
};

}  // namespace

Eigen::MatrixXd information_matrix(const PoseGraph::Edge& edge, int dimension) {
  return information(edge, 0, dimension == 2 ? 3 : 6);
}

bool has_definite_block(const PoseGraph::Edge& edge, int first, int size) {
  const Eigen::MatrixXd block = information(edge, first, size);
  const Eigen::LLT<Eigen::MatrixXd> root(block);
  if (root.info() != Eigen::Success || !root.matrixLLT().allFinite()) return false;
  // By rounding a singular block has a factor in one order of its rows and none in another.
  constexpr double kRounding = 1e-14;
  const Eigen::ArrayXd pivots = root.matrixLLT().diagonal().array().square();
  return (pivots > kRounding * block.diagonal().array()).all();
}

bool has_semidefinite_block(const PoseGraph::Edge& edge, int first, int size) {
  if (has_definite_block(edge, first, size)) return true;
  constexpr double kRounding = 1e-6;  // files have six digits
  const Eigen::MatrixXd block = information(edge, first, size);
  const Eigen::VectorXd values = runtime::symmetric_eigenvalues(block);
  return values.allFinite() && values.minCoeff() >= -kRounding * values.cwiseAbs().maxCoeff();
}

std::string least_eigenvalue(const PoseGraph::Edge& edge, int first, int size) {
  const Eigen::MatrixXd block = information(edge, first, size);
  const double least = runtime::symmetric_eigenvalues(block).minCoeff();
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", block.allFinite() ? least : NAN);
  return text.data();
}

void require_information(const PoseGraph& graph, PoseObjective objective) {
  const InformationCheck check(graph, objective);
  for (const PoseGraph::Edge& edge : graph.edges) check.pose(edge);
  for (const PoseGraph::Sighting& seen : graph.sightings)
    if (!seen.bearing) check.point(seen.edge);
  for (const PoseGraph::Prior& prior : graph.priors) {
    if (prior.of == PoseGraph::Prior::Of::pose) {
      check.pose(prior.edge);
    } else if (prior.of != PoseGraph::Prior::Of::switched) {
      check.point(prior.edge);
    }
  }
}

ChordalWeights chordal_weights(const PoseGraph::Edge& edge, int dimension) {
  if (dimension == 2) return {chordal_weight(edge, 2), edge.information[2 * 6 + 2]};
  return {chordal_weight(edge, 3), harmonic_mean(edge, 3, 3) / 2};
}

double chordal_weight(const PoseGraph::Edge& edge, int dimension) {
  return harmonic_mean(edge, 0, dimension);
}

ChordalWeights start_weights(const PoseGraph::Edge& edge, int dimension) {
  const auto mean = [&](int first, int size) {
    if (has_definite_block(edge, first, size)) return harmonic_mean(edge, first, size);
    return information(edge, first, size).trace() / size;
  };
  const double turned = dimension == 2 ? edge.information[2 * 6 + 2] : mean(3, 3) / 2;
  return {mean(0, dimension), turned};
}

PoseGraph::Edge in_measured_frame(const PoseGraph::Edge& edge, int dimension) {
  const auto& q = edge.measured.rotation;
  const Eigen::Matrix3d back =
      Eigen::Quaterniond(q[0], q[1], q[2], q[3]).toRotationMatrix().transpose();
  const int n = degrees(dimension);
  Eigen::MatrixXd b = Eigen::MatrixXd::Identity(n, n);
  b.topLeftCorner(dimension, dimension) = back.topLeftCorner(dimension, dimension);
  if (dimension == 3) b.bottomRightCorner<3, 3>() = -0.5 * back;
  PoseGraph::Edge out = edge;
  Eigen::Map<Information>(out.information.data()).topLeftCorner(n, n) =
      b.transpose() * information(edge, 0, n) * b;
  return out;
}

Eigen::MatrixXd lower_factor(const PoseGraph::Edge& edge, int size) {
  if (has_definite_block(edge, 0, size))
    return Eigen::LLT<Eigen::MatrixXd>(information(edge, 0, size)).matrixL();
  return runtime::upper_factor(square_root(information(edge, 0, size))).transpose();
}

Eigen::MatrixXd lower_root(const PoseGraph::Edge& edge, int size) {
  const Eigen::LLT<Eigen::MatrixXd> from_the_end(information(edge, 0, size).reverse());
  if (has_definite_block(edge, 0, size) && from_the_end.info() == Eigen::Success)
    return Eigen::MatrixXd(from_the_end.matrixL()).transpose().reverse();
  return runtime::upper_factor(square_root(information(edge, 0, size)).rowwise().reverse())
      .reverse();
}

Eigen::MatrixXd information_factor(const PoseGraph::Edge& edge, int dimension) {
  return lower_factor(edge, degrees(dimension));
}

Eigen::MatrixXd information_root(const PoseGraph::Edge& edge, int dimension) {
  return lower_root(edge, degrees(dimension));
}

Eigen::MatrixXd objective_root(const PoseGraph::Edge& edge, int dimension,
                               PoseObjective objective) {
  switch (objective) {
    case PoseObjective::geodesic: return information_factor(edge, dimension);
    case PoseObjective::chi2: return information_root(edge, dimension);
    case PoseObjective::g2o: return information_root(in_measured_frame(edge, dimension), dimension);
    case PoseObjective::chordal: break;
  }
  const ChordalWeights weights = chordal_weights(edge, dimension);
  Eigen::VectorXd diagonal(degrees(dimension));
  diagonal.setConstant(std::sqrt(2 * weights.rotation));
  diagonal.head(dimension).setConstant(std::sqrt(weights.translation));
  return diagonal.asDiagonal();
}

Eigen::MatrixXd point_root(const PoseGraph::Edge& edge, int size, PoseObjective objective) {
  if (objective == PoseObjective::geodesic) return lower_factor(edge, size);
  if (objective != PoseObjective::chordal) return lower_root(edge, size);
  return Eigen::MatrixXd::Identity(size, size) * std::sqrt(chordal_weight(edge, size));
}

}  // namespace topograd
