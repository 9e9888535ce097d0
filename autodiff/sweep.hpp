// The two modes of differentiation as sweeps over a builder's program.
#pragma once

#include "rules.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace topograd::autodiff {

/// Throws Error{InvalidArgument} if a slot is not one of f's parameters.
void check_slots(const ir::Program& f, std::span<const std::uint32_t> slots);

/// Throws Error{Shape} if the program has not exactly one output.
void expect_scalar(const ir::Program& E);

/// For each node of the builder's program: true if it depends on one of these parameter slots.
std::vector<bool> depends_on(const Builder& builder, std::span<const std::uint32_t> slots);

/// Sums of the adjoint contributions to each node of the builder's program.
class Adjoints {
 public:
  explicit Adjoints(Builder& builder) : builder_(builder), ids_(builder.size(), ir::kNone) {}

  /// The sum so far; its id is kNone before the first contribution.
  Expr operator[](ir::Id node) const { return {&builder_, ids_[node]}; }
  /// A term of kNone adds nothing.
  void add(ir::Id node, Expr term);

 private:
  Builder& builder_;
  std::vector<ir::Id> ids_;
};

/// Reverse mode: adjoints of the parameter slots in `slots`, kNone where structurally zero.
///
///   seeds   adjoint of each output of the builder's program; kNone leaves an output out
///   visit   called for each node, the last one first, when its adjoint is complete and has been
///           propagated to its operands
///
/// Cost: linear in the program's nodes.
std::vector<ir::Id> reverse(Builder& builder, std::span<const ir::Id> seeds,
                            std::span<const std::uint32_t> slots,
                            const std::function<void(ir::Id node, Adjoints& adjoints)>& visit = {});

/// The tangent of a node from those of its operands (by node id), kNone where structurally zero.
ir::Id tangent_of(Builder& builder, ir::Id id, std::span<const ir::Id> tangents);

/// Forward mode: tangents of the outputs, kNone where structurally zero.
///
///   tangents   tangent of each parameter slot; kNone is zero
///
/// Cost: linear in the program's nodes.
std::vector<ir::Id> forward(Builder& builder, std::span<const ir::Id> tangents);

/// Makes a Tangent leaf for each parameter slot.
std::vector<ir::Id> tangent_leaves(Builder& builder);

/// Makes a Tangent leaf for each slot of `moving`; kNone for the others.
std::vector<ir::Id> tangent_leaves(Builder& builder, std::span<const std::uint32_t> moving);

/// Makes a Seed leaf for each output of the builder's program and counts them in `leaves`.
std::vector<ir::Id> seed_leaves(Builder& builder, ir::LeafCounts& leaves);

/// Upper triangle of JᵀJ, packed by rows, or only its diagonal; J has n columns and is row-major.
ir::Program products_of_columns(const ir::Program& J, std::size_t n, bool diagonal = false);

}  // namespace topograd::autodiff
