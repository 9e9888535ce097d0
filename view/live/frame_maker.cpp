// Frames from summaries, positions and colours.
#include "frame_maker.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

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

namespace {

constexpr double kMilliseconds = 1000;

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace

double FrameMaker::milliseconds() const { return milliseconds_since(begun_); }

Frame FrameMaker::begin(std::uint64_t drag) {
  Frame frame{.number = ++frames_, .drag = drag};
  frame.milliseconds.apply = milliseconds();
  return frame;
}

void FrameMaker::add(Frame& frame, const Summary& summary, double solve_ms) {
  frame.milliseconds.solve = solve_ms;
  frame.milliseconds.evaluate = kMilliseconds * summary.times.evaluation_seconds;
  frame.milliseconds.linear = kMilliseconds * summary.times.linear_solver_seconds;
  frame.cost = summary.final_cost;
  frame.gradient = summary.iterations.empty() ? 0 : summary.iterations.back().gradient_max_norm;
  frame.steps = summary.num_iterations();
  frame.backend = summary.backend;
  frame.device = summary.device;
  frame.termination = name(summary.termination);
  frame.compiled = compiled_ += summary.shaders_compiled;
  // Below this share of the cost a solve changes nothing that can be seen.
  constexpr double kSettled = 1e-9;
  frame.settled = !(summary.initial_cost - summary.final_cost > kSettled * summary.initial_cost);
  rate_.add(frame.steps);
  std::tie(frame.solves_per_second, frame.steps_per_second) = rate_.per_second();
}

void FrameMaker::show(Frame& frame, Coloring coloring) {
  frame.positions.resize(numbers_);
  subject_.show(frame.positions);
  const auto color_begun = Clock::now();
  frame.values = colors_.values(coloring, frame.positions);
  if (!frame.values.empty()) {
    const auto [low, high] = std::ranges::minmax(frame.values);
    frame.low = low;
    frame.high = high;
  }
  frame.milliseconds.color = milliseconds_since(color_begun);
  frame.milliseconds.total = milliseconds();
}

}  // namespace topograd::view
