// User-defined manifolds and parameterizations as manifolds of the library, lines and products.
#include "manifold.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <memory>
#include <string>

#include "../../../ir/error.hpp"
#include "local_parameterization.hpp"

namespace ceres {
namespace {

using RowMajorMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<RowMajorMatrix>;
using VectorMap = Eigen::Map<Eigen::VectorXd>;
using ConstVector = Eigen::Map<const Eigen::VectorXd>;

/// A user-defined manifold as opaque code.
class Opaque final : public topograd::ManifoldModel {
 public:
  explicit Opaque(const Manifold& manifold) : manifold_(manifold) {}
  int ambient_size() const override { return manifold_.AmbientSize(); }
  int tangent_size() const override { return manifold_.TangentSize(); }
  std::string name() const override { return "ceres::Manifold"; }
  bool plus(const double* x, const double* delta, double* out) const override {
    return manifold_.Plus(x, delta, out);
  }
  bool plus_jacobian(const double* x, double* jacobian) const override {
    return manifold_.PlusJacobian(x, jacobian);
  }
  bool minus(const double* y, const double* x, double* delta) const override {
    return manifold_.Minus(y, x, delta);
  }
  bool minus_jacobian(const double* x, double* jacobian) const override {
    return manifold_.MinusJacobian(x, jacobian);
  }

 private:
  const Manifold& manifold_;
};

/// The tangents of the direction d's sphere are perpendicular to d: |d| times a basis of them.
class Line final : public topograd::ManifoldModel {
 public:
  explicit Line(int size) : size_(size), sphere_(topograd::Manifold::sphere(size)) {}
  int ambient_size() const override { return 2 * size_; }
  int tangent_size() const override { return 2 * (size_ - 1); }
  std::string name() const override { return "line(" + std::to_string(size_) + ")"; }

  bool plus(const double* x, const double* delta, double* out) const override {
    VectorMap(out, size_) = ConstVector(x, size_) + Across(x) * ConstVector(delta, size_ - 1);
    return sphere_.plus(x + size_, delta + size_ - 1, out + size_);
  }
  bool plus_jacobian(const double* x, double* jacobian) const override {
    MatrixMap J(jacobian, ambient_size(), tangent_size());
    J.setZero();
    J.topLeftCorner(size_, size_ - 1) = Across(x);
    J.bottomRightCorner(size_, size_ - 1) = Length(x) * Across(x);
    return true;
  }
  bool minus(const double* y, const double* x, double* delta) const override {
    VectorMap(delta, size_ - 1) =
        Across(x).transpose() * (ConstVector(y, size_) - ConstVector(x, size_));
    return sphere_.minus(y + size_, x + size_, delta + size_ - 1);
  }
  bool minus_jacobian(const double* x, double* jacobian) const override {
    MatrixMap J(jacobian, tangent_size(), ambient_size());
    J.setZero();
    J.topLeftCorner(size_ - 1, size_) = Across(x).transpose();
    J.bottomRightCorner(size_ - 1, size_) = Across(x).transpose() / Length(x);
    return true;
  }

 private:
  double Length(const double* x) const { return ConstVector(x + size_, size_).norm(); }
  RowMajorMatrix Across(const double* x) const {
    RowMajorMatrix basis(size_, size_ - 1);
    sphere_.plus_jacobian(x + size_, basis.data());
    return basis / Length(x);
  }

  int size_;
  topograd::Manifold sphere_;
};

}  // namespace

Manifold::~Manifold() = default;

bool Manifold::RightMultiplyByPlusJacobian(const double* x, int num_rows,
                                           const double* ambient_matrix,
                                           double* tangent_matrix) const {
  RowMajorMatrix jacobian(AmbientSize(), TangentSize());
  if (!PlusJacobian(x, jacobian.data())) return false;
  MatrixMap(tangent_matrix, num_rows, TangentSize()) =
      Eigen::Map<const RowMajorMatrix>(ambient_matrix, num_rows, AmbientSize()) * jacobian;
  return true;
}

topograd::Manifold Manifold::Lowered() const {
  return topograd::Manifold(std::make_shared<Opaque>(*this));
}

std::optional<std::uint32_t> SubsetManifold::FixedCoordinates() const {
  std::uint32_t held = 0;
  for (const int k : constant_) {
    if (k >= 32) return std::nullopt;
    held |= std::uint32_t{1} << k;
  }
  return held;
}

namespace internal {

int CheckedManifoldSize(const char* name, int of_template, int size) {
  if (of_template != DYNAMIC && of_template != size)
    throw topograd::Error(topograd::ErrorCode::InvalidArgument,
                          std::string(name) + ": expected size " + std::to_string(of_template) +
                              " as in the template, got " + std::to_string(size));
  return size;
}

topograd::Manifold LineSpace(int size) { return topograd::Manifold(std::make_shared<Line>(size)); }

}  // namespace internal

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowMajorMap = Eigen::Map<RowMajor>;

/// A parameterization as a manifold of opaque code.
class OpaqueParameterization final : public topograd::ManifoldModel {
 public:
  explicit OpaqueParameterization(const LocalParameterization& of) : of_(of) {}
  int ambient_size() const override { return of_.GlobalSize(); }
  int tangent_size() const override { return of_.LocalSize(); }
  std::string name() const override { return "ceres::LocalParameterization"; }
  bool plus(const double* x, const double* delta, double* out) const override {
    return of_.Plus(x, delta, out);
  }
  bool plus_jacobian(const double* x, double* jacobian) const override {
    return of_.ComputeJacobian(x, jacobian);
  }

 private:
  const LocalParameterization& of_;
};

}  // namespace

LocalParameterization::~LocalParameterization() = default;

bool LocalParameterization::MultiplyByJacobian(const double* x, int num_rows,
                                               const double* global_matrix,
                                               double* local_matrix) const {
  RowMajor jacobian(GlobalSize(), LocalSize());
  if (!ComputeJacobian(x, jacobian.data())) return false;
  RowMajorMap(local_matrix, num_rows, LocalSize()) =
      Eigen::Map<const RowMajor>(global_matrix, num_rows, GlobalSize()) * jacobian;
  return true;
}

topograd::Manifold LocalParameterization::Lowered() const {
  return topograd::Manifold(std::make_shared<OpaqueParameterization>(*this));
}

bool ProductParameterization::Plus(const double* x, const double* delta,
                                   double* x_plus_delta) const {
  return std::ranges::all_of(parts_, [&](const auto& part) {
    const bool defined = part->Plus(x, delta, x_plus_delta);
    x += part->GlobalSize();
    x_plus_delta += part->GlobalSize();
    delta += part->LocalSize();
    return defined;
  });
}

bool ProductParameterization::ComputeJacobian(const double* x, double* jacobian) const {
  RowMajorMap whole(jacobian, GlobalSize(), LocalSize());
  whole.setZero();
  Eigen::Index row = 0, column = 0;
  for (const auto& part : parts_) {
    RowMajor block(part->GlobalSize(), part->LocalSize());
    if (!part->ComputeJacobian(x + row, block.data())) return false;
    whole.block(row, column, block.rows(), block.cols()) = block;
    row += block.rows();
    column += block.cols();
  }
  return true;
}

int ProductParameterization::GlobalSize() const {
  int sum = 0;
  for (const auto& part : parts_) sum += part->GlobalSize();
  return sum;
}

int ProductParameterization::LocalSize() const {
  int sum = 0;
  for (const auto& part : parts_) sum += part->LocalSize();
  return sum;
}

topograd::Manifold ProductParameterization::Lowered() const {
  std::vector<topograd::Manifold> parts;
  for (const auto& part : parts_) parts.push_back(part->Lowered());
  return topograd::Manifold::product(std::move(parts));
}

}  // namespace ceres
