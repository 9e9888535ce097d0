// Conjugate gradients on the device: an iteration is a direction, a product with JᵀJ + Λ, an
// update.
#include "recording/hazards.hpp"
#include "vulkan_engine.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;
using codegen::Fusion;
using codegen::SolverState;
using codegen::StepTime;

void VulkanEngine::record_solve_start(CommandList& list, bool preconditioned, bool coarse) {
  const std::uint32_t groups = sum_groups(coarse);
  // Fused products write the directions of the owners that they sum.
  if (terms_.masked())
    list.fill(v_.next_direction, 0, problem_.model().scalars * context_.element_bytes(), 0);
  v_.record_by_blocks(list, {.op = VectorOp::precondition}, v_.table());
  list.barrier();
  v_.record_by_blocks(list,
                      {.op = VectorOp::cg_init,
                       .unpreconditioned = !preconditioned,
                       .constants = {.out_stride = groups}},
                      v_.table());
  if (coarse) record_coarse_correction(list, false);
  list.barrier();
  v_.ops->record(
      list, {.op = VectorOp::cg_start, .constants = {.sums_count = groups, .sums_stride = groups}},
      v_.table());
}

void VulkanEngine::record_iterations(CommandList& list, int count, bool preconditioned,
                                     bool coarse) {
  const bool fused = products_.can_fuse();
  // Several dispatches of one update share scalars, which one of them writes.
  const bool alternates =
      fused && std::ranges::count_if(v_.blocks, [](auto& range) { return range.count > 0; }) == 1;
  const std::uint32_t groups = sum_groups(coarse);
  const Buffer& z = preconditioned ? v_.preconditioned : v_.residual;
  BindingTable table = v_.table();
  table.set(BufferRole::preconditioned, z);
  for (int k = 0; k < count; ++k) {
    const Buffer& before = k % 2 == 0 ? v_.direction : v_.next_direction;
    const Buffer& now = k % 2 == 0 ? v_.next_direction : v_.direction;
    table.set(BufferRole::direction, fused ? now : v_.direction);
    table.set(BufferRole::next_direction, before);
    list.barrier();
    const std::uint32_t sums = fused ? record_fused_product(list, before, now, z, groups)
                                     : record_direction_and_product(list, table, groups);
    list.barrier();
    v_.record_by_blocks(list,
                        {.op = VectorOp::cg_update,
                         .unpreconditioned = !preconditioned,
                         .step_time = !alternates  ? StepTime::now
                                      : k % 2 == 0 ? StepTime::later
                                                   : StepTime::both,
                         .constants = {.out_stride = groups, .sums_count = sums}},
                        table);
    if (coarse) record_coarse_correction(list, true);
  }
  if (alternates) record_pending_step(list);
  list.barrier();
  v_.ops->record(
      list, {.op = VectorOp::cg_finish, .constants = {.sums_count = groups, .sums_stride = groups}},
      table);
}

/// Where the solver stopped between an update that left its step and the next one.
void VulkanEngine::record_pending_step(CommandList& list) {
  BindingTable table;
  table.set(BufferRole::first_operand, v_.next_direction);
  table.set(BufferRole::result, v_.step);
  list.barrier();
  v_.ops->record(list,
                 {.op = VectorOp::axpby,
                  .constants = {.count = static_cast<std::uint32_t>(problem_.model().scalars),
                                .a = codegen::slot(Scalar::pending),
                                .b = codegen::slot(Scalar::one)}},
                 table);
}

std::uint32_t VulkanEngine::record_direction_and_product(CommandList& list,
                                                         const BindingTable& table,
                                                         std::uint32_t sums) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list,
                 {.op = VectorOp::cg_direction,
                  .constants = {.count = n, .sums_count = sums, .sums_stride = sums}},
                 table);
  list.barrier();
  if (DeviceMatrix* const matrix = products_.matrix())
    return matrix->record_product(list, *v_.ops, table);
  Operands predicated = terms_.operands(v_.x, &moves_.record_expanded(list, v_.direction));
  predicated.scalars = &v_.decision;
  products_.record(list, predicated, v_.product);
  list.barrier();
  moves_.record_contracted(list, v_.product);
  return v_.ops->record(list, {.op = VectorOp::cg_curvature, .constants = {.count = n}}, table);
}

std::uint32_t VulkanEngine::record_fused_product(CommandList& list, const Buffer& old_direction,
                                                 const Buffer& new_direction,
                                                 const Buffer& preconditioned, std::uint32_t sums) {
  Operands with = terms_.operands(v_.x, &old_direction);
  with.scalars = &v_.ops->scalars();
  FusedOperands fused{.preconditioned = &preconditioned,
                      .damping = &v_.damping,
                      .next_direction = &new_direction,
                      .decision = &v_.decision,
                      .partials = &v_.partials,
                      .sums_count = sums,
                      .curvature = &v_.curvature};
  Hazards hazards(list);
  bool first = true;
  for (const auto& [use, riders] : products_.fused()) {
    hazards.write(use.set->array());
    const Fusion fusion = !use.covers ? Fusion::adds : first ? Fusion::decides : Fusion::begins;
    first = false;
    fused.riders = riders.get();
    fused.curvature_first += use.set->record_fused(
        list, fusion, with, fused,
        {.out = &v_.product, .first = use.set->x_first(), .overwrite = use.covers});
    ++context_.term_dispatches;
  }
  return fused.curvature_first;
}

SolveLists VulkanEngine::solve_lists() {
  if (schur_->device) return {&schur_->start, &schur_->iterations, &schur_->finish};
  if (coarse_.control.in_use()) return {&coarse_lists_->start, &coarse_lists_->iterations};
  return {&linear_lists_->solve_start, &linear_lists_->iterations};
}

/// As many iterations as the last solve needed and a few more, then the trial point: most steps
/// take one read-back. Where the solver is still running after that, it goes on.
int VulkanEngine::iterate(int most, bool takes, VulkanEngine& stepping,
                          std::vector<const Recorded*> lists) {
  const SolveLists solve = solve_lists();
  lists.push_back(solve.start);
  const struct Settles {
    CoarseControl& control;
    ~Settles() { control.settle(); }
  } settles{coarse_.control};
  int queued = 0, before = 0;
  int want = std::min(most, expected_iterations_ + expected_iterations_ / 8 + 1);
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    queue_iterations(*solve.iterations, want, queued, lists);
    if (solve.finish != nullptr) lists.push_back(solve.finish);
    if (&stepping != this) lists.push_back(&stepping.narrow_lists_->step);
    bool staged = false;
    if (takes) {
      staged = stepping.queue_taking(lists);
    } else {
      lists.push_back(&stepping.point_lists_->trial);
    }
    stepping.recorder_.submit(lists);
    lists.clear();
    const auto values = stepping.points_.read_scalars();
    if (takes) stepping.read_taken(staged);
    const auto state = static_cast<SolverState>(values[codegen::slot(Scalar::state)]);
    const int done = static_cast<int>(values[codegen::slot(Scalar::iterations)]);
    pace_.measured(static_cast<std::size_t>(done - before) / kIterationsOfList,
                   std::chrono::steady_clock::now() - begin);
    before = done;
    if (state != SolverState::running || queued >= most) {
      expected_iterations_ = std::max(done, 1);
      return done;
    }
    want = std::min(most, 2 * queued);
    if (!schur_->device) coarse_.control.expect(problem_.model(), done);
  }
}

/// Lists beyond those that fit one submission are what is left.
void VulkanEngine::queue_iterations(const Recorded& iterations, int want, int& queued,
                                    std::vector<const Recorded*>& lists) {
  // No display hangs on the software device.
  const bool paced = !context_.device->info().software();
  for (std::size_t together = 0; queued < want; queued += kIterationsOfList) {
    if (paced && together == pace_.lists()) {
      recorder_.submit(lists);
      lists.clear();
      together = 0;
    }
    lists.push_back(&iterations);
    ++together;
  }
}

}  // namespace topograd::runtime::vulkan
