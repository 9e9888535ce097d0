// Colours by displacement, residual and gradient.
#include "colors.hpp"

#include <algorithm>
#include <cmath>

namespace topograd::view {

Evaluator& Colors::evaluator() {
  if (evaluator_ == nullptr) {
    evaluator_ =
        std::make_unique<Evaluator>(*subject_->problem, SolverOptions{.backend = Backend::cpu});
  }
  return *evaluator_;
}

void Colors::find_rows() {
  if (!first_row_.empty()) return;
  const std::size_t points = subject_->points.size(),
                    width = static_cast<std::size_t>(subject_->points.width());
  const std::uint32_t first = subject_->problem->offset_of("view", {subject_->points, 0});
  std::vector<std::vector<std::uint32_t>> rows(points);
  const Evaluator::SparseMatrix jacobian = evaluator().jacobian();
  for (int row = 0; row < jacobian.outerSize(); ++row) {
    for (Evaluator::SparseMatrix::InnerIterator entry(jacobian, row); entry; ++entry) {
      const auto scalar = static_cast<std::size_t>(entry.col());
      if (scalar < first || scalar >= first + width * points) continue;
      std::vector<std::uint32_t>& of_point = rows[(scalar - first) / width];
      const auto number = static_cast<std::uint32_t>(row);
      if (of_point.empty() || of_point.back() != number) of_point.push_back(number);
    }
  }
  for (const std::vector<std::uint32_t>& of_point : rows) {
    first_row_.push_back(static_cast<std::uint32_t>(rows_.size()));
    rows_.insert(rows_.end(), of_point.begin(), of_point.end());
  }
  first_row_.push_back(static_cast<std::uint32_t>(rows_.size()));
}

std::vector<double> Colors::residuals() {
  find_rows();
  const Eigen::VectorXd r = evaluator().residuals();
  std::vector<double> out(subject_->shown);
  for (std::size_t p = 0; p + 1 < first_row_.size(); ++p) {
    double sum = 0;
    for (std::uint32_t k = first_row_[p]; k < first_row_[p + 1]; ++k)
      sum += r[rows_[k]] * r[rows_[k]];
    out[p] = std::sqrt(sum);
  }
  return out;
}

std::vector<double> Colors::gradients() {
  const Eigen::VectorXd g = evaluator().gradient();
  const std::uint32_t first = subject_->problem->offset_of("view", {subject_->points, 0});
  const auto width = static_cast<std::size_t>(subject_->points.width());
  std::vector<double> out(subject_->shown);
  for (std::size_t p = 0; p < subject_->points.size(); ++p)
    out[p] =
        g.segment(static_cast<Eigen::Index>(first + width * p), static_cast<Eigen::Index>(width))
            .norm();
  return out;
}

std::vector<double> Colors::values(Coloring coloring, std::span<const double> present) {
  switch (coloring) {
    case Coloring::none: return {};
    case Coloring::residual: return residuals();
    case Coloring::gradient: return gradients();
    case Coloring::displacement: break;
  }
  std::vector<double> out(present.size() / 3);
  for (std::size_t p = 0; p < out.size(); ++p)
    out[p] = std::hypot(present[3 * p] - start_[3 * p], present[3 * p + 1] - start_[3 * p + 1],
                        present[3 * p + 2] - start_[3 * p + 2]);
  return out;
}

}  // namespace topograd::view
