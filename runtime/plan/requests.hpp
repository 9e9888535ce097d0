// Kernel requests: what is generated for a pass over the instances of one topology.
#pragma once

#include "../../codegen/kernel.hpp"
#include "passes.hpp"
#include "plan.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime {

/// A topology and how the columns of its batch are stored.
struct TermShape {
  const ir::Topology* topology = nullptr;
  std::string name;  ///< for kernels: letters, digits and underscores
  codegen::ColumnLayout layout;
  std::vector<SlotGroup> groups;
  FlexibleColumns flexible;
  std::vector<std::uint32_t> held;    ///< slots whose scalars are constant everywhere, ascending
  bool energy = false;                ///< Term::energy
  const ir::Program* loss = nullptr;  ///< Term::loss
};
TermShape shape_of(const Term& term, std::span<const ParameterArray> arrays);
/// Lays the columns out by shape.flexible.
void lay_out(TermShape& shape);

/// The program of a pass over instances or entries of this shape, without derivatives by what is
/// held and without its directions, which are zero.
///
///   slots  that are not held; see pass_program
ir::Program shape_program(const TermShape& shape, Pass pass, std::span<const std::uint32_t> slots);
/// Slots by which a pass over instances stores or scatters: those that are not held where what it
/// gives is summed by owner or is the Jacobian behind such a sum, else all.
std::vector<std::uint32_t> slots_of(const TermShape& shape, Pass pass);

/// A label as part of a kernel's name.
std::string identifier(std::string_view label);

/// Outputs of every instance side by side. For Pass::stored_jtjp the Jacobian takes the data
/// columns' place.
codegen::KernelRequest store_request(const TermShape& shape, Pass pass);
/// One partial sum of the cost a workgroup.
codegen::KernelRequest cost_request(const TermShape& shape);
/// Atomic sums by slot; `rung` is atomic_float or atomic_cas.
codegen::KernelRequest scatter_request(const TermShape& shape, Pass pass,
                                       codegen::Accumulation rung);
/// Sums by owner, evaluated again for each role.
///
///   roles        groups of the shape that lie in the owners' array (GatherPlan::roles)
///   owner_width  scalars of an owner
///   lead         has_values(pass): which of the roles, one that every instance has, gives what is
///                not summed by owner
codegen::KernelRequest gather_request(const TermShape& shape, Pass pass,
                                      std::span<const std::uint32_t> roles,
                                      std::uint32_t owner_width, std::size_t lead = 0);
/// One of its roles; the layout is that of the group's entries.
codegen::GatherRole gather_role(const TermShape& shape, Pass pass, std::uint32_t group,
                                std::uint32_t owner_width);
/// Sums by owner of terms that a store pass wrote.
codegen::KernelRequest sum_terms_request(const TermShape& shape, Pass pass,
                                         std::span<const std::uint32_t> roles,
                                         std::uint32_t owner_width);
/// Sums by scalar of terms whose positions are listed (invert_terms).
codegen::KernelRequest sum_terms_request(const TermShape& shape, Pass pass);
/// Sums of neighbouring partial sums, `out_width` numbers each.
codegen::KernelRequest combine_request(std::uint32_t out_width);

/// The kernels that compute `pass` over a batch with accumulation `rung`, in the order they run.
std::vector<codegen::KernelRequest> requests(const Term& term,
                                             std::span<const ParameterArray> arrays, Pass pass,
                                             codegen::Accumulation rung);
std::vector<codegen::KernelRequest> requests(const TermShape& shape,
                                             std::span<const ParameterArray> arrays, Pass pass,
                                             codegen::Accumulation rung);

}  // namespace topograd::runtime
