// Kernel requests for a pass over the instances of one topology.
#pragma once

#include "../../codegen/kernel.hpp"
#include "passes.hpp"
#include "plan.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::runtime {

/// A topology and how the columns of its batch are stored.
struct TermShape {
  const ir::Topology* topology = nullptr;
  std::string name;  ///< for kernels: letters, digits and underscores
  codegen::ColumnLayout layout;
  std::vector<SlotGroup> groups;
  FlexibleColumns flexible;
  std::vector<std::uint32_t> fixed;   ///< slots whose scalars are fixed everywhere, ascending
  bool energy = false;                ///< Term::energy
  const ir::Program* loss = nullptr;  ///< Term::loss
};
TermShape shape_of(const Term& term, std::span<const ParameterArray> arrays);
/// Sets the layout according to shape.flexible.
void lay_out(TermShape& shape);

/// The program of a pass over instances or entries of this shape, without derivatives by fixed
/// slots and without their directions, which are zero.
///
///   slots  slots that are not fixed; see pass_program
ir::Program shape_program(const TermShape& shape, Pass pass, std::span<const std::uint32_t> slots);
/// Slots by which a pass over instances stores or scatters. For results that are summed by block,
/// and for the Jacobian of such a sum, fixed slots are left out.
std::vector<std::uint32_t> slots_of(const TermShape& shape, Pass pass);

/// Converts a label to a part of a kernel's name.
std::string identifier(std::string_view label);

/// Stores the outputs of every instance. For Pass::stored_jtjp the data columns are the Jacobian.
codegen::KernelRequest store_request(const TermShape& shape, Pass pass);
/// One partial sum of the cost per workgroup.
codegen::KernelRequest cost_request(const TermShape& shape);
/// Atomic sums by slot; the strategy is atomic_float or atomic_cas.
codegen::KernelRequest scatter_request(const TermShape& shape, Pass pass,
                                       codegen::Accumulation strategy);
/// Sums by block; each block slot evaluates its terms again.
///
///   block_slots  groups of the shape in the blocks' array (GatherPlan::block_slots)
///   block_width  scalars of a block
///   lead         has_values(pass): the block slot, one that every instance has, that computes
///                values that are not summed by block
codegen::KernelRequest gather_request(const TermShape& shape, Pass pass,
                                      std::span<const std::uint32_t> block_slots,
                                      std::uint32_t block_width, std::size_t lead = 0);
/// One block slot of such a request; the layout is that of the group's entries.
codegen::GatherSlot gather_slot(const TermShape& shape, Pass pass, std::uint32_t group,
                                std::uint32_t block_width);
/// Sums by block of terms that a store pass wrote.
codegen::KernelRequest sum_terms_request(const TermShape& shape, Pass pass,
                                         std::span<const std::uint32_t> block_slots,
                                         std::uint32_t block_width);
/// Sums by scalar of terms whose positions are listed (invert_terms).
codegen::KernelRequest sum_terms_request(const TermShape& shape, Pass pass);
/// Sums of adjacent partial sums, `out_width` numbers each.
codegen::KernelRequest combine_request(std::uint32_t out_width);

/// The kernels that compute `pass` over a batch with one accumulation strategy, in execution order.
std::vector<codegen::KernelRequest> requests(const Term& term,
                                             std::span<const ParameterArray> arrays, Pass pass,
                                             codegen::Accumulation strategy);
std::vector<codegen::KernelRequest> requests(const TermShape& shape,
                                             std::span<const ParameterArray> arrays, Pass pass,
                                             codegen::Accumulation strategy);

}  // namespace topograd::runtime
