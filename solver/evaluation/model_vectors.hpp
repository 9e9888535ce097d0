// Vectors of a model as callers of an Evaluator have them.
#pragma once

#include "../../runtime/model/model.hpp"
#include "../session/values.hpp"

#include <Eigen/Core>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace topograd {

inline std::span<double> span_of(Eigen::VectorXd& v) {
  return {v.data(), static_cast<std::size_t>(v.size())};
}

/// Sizes are those of the model, and derivatives by fixed scalars are zero.
class ModelVectors {
 public:
  /// The model outlives it.
  explicit ModelVectors(const runtime::Model& model) : model_(model) {}

  Eigen::VectorXd scalars() const {
    return Eigen::VectorXd(static_cast<Eigen::Index>(model_.scalars));
  }
  Eigen::VectorXd rows() const { return Eigen::VectorXd(static_cast<Eigen::Index>(model_.rows)); }
  bool is_fixed(std::uint32_t scalar) const {
    return !model_.constant.empty() && model_.constant[scalar];
  }

  Eigen::VectorXd masked(Eigen::VectorXd v) const {
    mask_fixed(model_, v);
    return v;
  }
  /// The same for a direction; valid until the next call.
  std::span<const double> free_part(std::span<const double> p) {
    if (model_.constant.empty()) return p;
    free_.assign(p.begin(), p.end());
    for (std::uint32_t k = 0; k < free_.size(); ++k) {
      if (is_fixed(k)) free_[k] = 0;
    }
    return free_;
  }

 private:
  const runtime::Model& model_;
  std::vector<double> free_;
};

}  // namespace topograd
