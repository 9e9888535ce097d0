// A problem in which numbers that residuals read are unknowns too.
#pragma once

#include "../../frontend/inspect/array_names.hpp"
#include "../model/model.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace topograd {

/// The topologies of a model with parameters in the place of data and uniforms: products with
/// derivatives by both x and θ are then the ordinary products of an engine.
///
/// Its unknowns are x, then the numbers of all data arrays, then all uniforms of users, then
/// numbers of single residuals which share a topology with such a number.
struct ExtendedModel {
  ProblemModel model;  ///< nothing is fixed
  std::deque<ir::Batch> batches;
  std::vector<double> point;  ///< x and the numbers

  ExtendedModel() = default;
  ExtendedModel(ExtendedModel&&) = default;
  ExtendedModel& operator=(ExtendedModel&&) = default;
};

/// Copies the model's batches. Topologies of which no instance reads a chosen number stay as they
/// are.
///
///   base    of the problem; its losses' programs outlive the result
///   chosen  by data entry and then by uniform of `sources`: it becomes an unknown
///
/// Throws Error{Unsupported} if x and the numbers are 2³² − 1 scalars or more.
ExtendedModel extend_model(const ProblemModel& base, const NumberSources& sources,
                           const std::vector<bool>& chosen, std::span<const double> x);

}  // namespace topograd
