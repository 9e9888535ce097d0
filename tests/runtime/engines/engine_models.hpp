// Small models for tests of engines, and reference sums by the scalar evaluator.
#pragma once

#include "../../../runtime/model/model.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace topograd::test {

/// A model with the objects to which it points.
struct OwnedModel {
  std::vector<std::unique_ptr<ir::Topology>> topologies;
  std::vector<std::unique_ptr<ir::Batch>> batches;
  runtime::Model model;
  std::vector<double> x;

  /// Adds a term whose residual program is `text`; rows are appended by add_row.
  ir::Batch& add_term(const std::string& name, const char* text);
  /// Appends an instance to a term; residual rows are numbered in the order of appending.
  void add_row(std::size_t term, std::vector<std::uint32_t> indices, std::vector<double> data);
};

/// Springs of a seeded random graph in 3-D with four anchors of three rows: two terms, one array.
OwnedModel springs_model(std::uint32_t vertices, std::uint32_t edges);
/// Two arrays (width 3 and one block of width 2 that all residuals share), a uniform and a
/// rotation.
OwnedModel shared_model(std::uint32_t blocks);
/// The springs and anchors, and an energy of three scalars of neighbouring vertices: three terms.
OwnedModel energy_model(std::uint32_t vertices, std::uint32_t edges);
/// A chain x_i x_{i+1} - d over one array of width 4: coordinates change between instances.
OwnedModel chain_model(std::uint32_t scalars);
/// A sheet of width x width vertices, each with a position and a linearised rotation:
/// p_i − p_j − a_i × u_ij − u_ij along the grid and its diagonals, both ways. Two arrays, one term.
OwnedModel sheet_model(std::uint32_t width);
/// The sheet with anchors as a second term: of three corners, one is pulled away.
OwnedModel pulled_sheet_model(std::uint32_t width);

/// Sum over all instances in long double at the present x and data.
double reference_cost(const OwnedModel& m);
std::vector<double> reference_gradient(const OwnedModel& m);
/// Dense J, rows by scalars.
std::vector<std::vector<double>> reference_jacobian(const OwnedModel& m);
/// ‖a − b‖ / ‖b‖.
double relative_difference(const std::vector<double>& a, const std::vector<double>& b);
/// The model with x, data and uniforms rounded to float.
void round_to_float(OwnedModel& m);

}  // namespace topograd::test
