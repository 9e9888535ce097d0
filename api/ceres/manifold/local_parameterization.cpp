// Parameterizations of Ceres 2.1: products, and user-defined ones as opaque code.
#include "local_parameterization.hpp"

#include <Eigen/Core>

#include <algorithm>

namespace ceres {
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
