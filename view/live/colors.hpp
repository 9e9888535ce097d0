// Numbers for the colours of points.
#pragma once

#include "../../solver/evaluator.hpp"
#include "live_solver.hpp"
#include "subject.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::view {

/// Computes what colours show, by an Evaluator on the CPU that is made when it is first needed.
class Colors {
 public:
  ///   start  of the shown points; must outlive this
  Colors(Subject& subject, std::span<const double> start) : subject_(&subject), start_(start) {}

  /// One number >= 0 for each shown point; 0 for those that no handle can have, except their
  /// displacements. Empty for Coloring::none.
  std::vector<double> values(Coloring coloring, std::span<const double> present);

 private:
  Evaluator& evaluator();
  std::vector<double> residuals();
  std::vector<double> gradients();
  /// For each point the rows of residuals that read it.
  void find_rows();

  Subject* subject_;
  std::span<const double> start_;
  std::unique_ptr<Evaluator> evaluator_;
  std::vector<std::uint32_t> first_row_, rows_;  ///< of point p: first_row_[p] .. first_row_[p + 1]
};

}  // namespace topograd::view
