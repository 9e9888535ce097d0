// The two-level preconditioner on the device: making vectors, matrix and inverse, and applying it.
#include "vulkan_engine.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;

namespace {

/// Pivots that are eliminated at a time, and panels of them in one recorded list.
constexpr std::uint32_t kPivotsOfPanel = 16;
constexpr std::uint32_t kPanelsOfList = 16;
static_assert(kPivotsOfPanel <= codegen::kMaxBlockWidth);

std::uint32_t panels_of(std::uint32_t unknowns) {
  return (unknowns + kPivotsOfPanel - 1) / kPivotsOfPanel;
}

}  // namespace

void VulkanEngine::write_sums(const Buffer& buffer, std::span<const double> values) {
  if (context_.scalar_precision() == Precision::f64) {
    context_.device->upload<double>(buffer, values);
  } else {
    const std::vector<float> narrow(values.begin(), values.end());
    context_.device->upload<float>(buffer, narrow);
  }
}

bool VulkanEngine::coarse_fits(const CoarsePlan& plan) const {
  const std::uint64_t n = plan.unknowns();
  const std::uint64_t largest =
      std::max<std::uint64_t>({8 * n * n, 8ull * plan.functions * plan.entries(),
                               8ull * plan.colours * plan.functions * n});
  return largest <= context_.max_range();
}

void VulkanEngine::make_coarse_buffers() {
  const CoarsePlan& plan = coarse_.control.plan();
  const std::uint64_t numbers = std::uint64_t{plan.functions} * plan.entries();
  coarse_.vectors = make_numbers(context_, numbers, "coarse_vectors");
  coarse_.answers = make_numbers(context_, plan.answers ? numbers : 1, "coarse_answers");
  coarse_.offsets = make_numbers(context_, numbers, "coarse_offsets");
  coarse_.from = make_buffer(context_, plan.from, "coarse_from");
  coarse_.scalars = make_buffer(context_, plan.scalars, "coarse_scalars");
  coarse_.homes = make_buffer(context_, plan.homes, "coarse_homes");
  coarse_.starts = make_buffer(context_, plan.starts, "coarse_starts");
  const std::vector<std::uint32_t> follows(plan.follows.begin(), plan.follows.end());
  coarse_.follows = make_buffer(context_, follows, "coarse_follows");
  coarse_.sources = make_buffer(context_, plan.sources, "coarse_sources");
  coarse_.weights =
      make_partials(context_, (2ull + plan.colours) * plan.functions * plan.unknowns());
  const std::uint64_t n = plan.unknowns();
  for (Buffer& matrix : coarse_.matrices) matrix = make_partials(context_, n * n);
  coarse_.panel = make_partials(context_, kPivotsOfPanel * n);
  coarse_.in = make_partials(context_, n);
  coarse_.out = make_partials(context_, n);
  coarse_.version = coarse_.control.plan_version();
  *coarse_lists_ = {};
}

void VulkanEngine::write_coarse_centres() {
  const CoarsePlan& plan = coarse_.control.plan();
  write_numbers(context_, coarse_.offsets, plan.offsets);
  std::vector<double> weights = plan.spread;
  weights.insert(weights.end(), plan.gather.begin(), plan.gather.end());
  for (std::uint32_t colour = 0; colour < plan.colours; ++colour) {
    for (std::uint32_t f = 0; f < plan.functions; ++f) {
      for (std::uint32_t g = 0; g < plan.aggregates; ++g) {
        for (std::uint32_t h = 0; h < plan.functions; ++h) {
          weights.push_back(plan.colour[g] == colour && h == f ? 1 : 0);
        }
      }
    }
  }
  write_sums(coarse_.weights, weights);
  coarse_.centres = coarse_.control.centre_version();
}

BindingTable VulkanEngine::coarse_table() const {
  BindingTable table;
  table.set(BufferRole::x, v_.x);
  table.set(BufferRole::coarse_vectors, coarse_.vectors);
  table.set(BufferRole::coarse_in, coarse_.weights);
  table.set(BufferRole::entries, coarse_.scalars);
  table.set(BufferRole::owners, coarse_.homes);
  table.set(BufferRole::starts, coarse_.starts);
  table.set(BufferRole::direction, v_.direction);
  table.set(BufferRole::damping, v_.damping);
  table.set(BufferRole::partials, v_.partials);
  return table;
}

/// direction = the sum of vectors whose weights begin at `first`; product = JᵀJ times it.
void VulkanEngine::record_coarse_product(CommandList& list, std::uint32_t first) {
  const CoarsePlan& plan = coarse_.control.plan();
  BindingTable table = coarse_table();
  table.set(BufferRole::result, v_.direction);
  list.barrier();
  v_.ops->record(list,
                 {.op = VectorOp::coarse_expand,
                  .width = plan.functions,
                  .constants = {.count = plan.entries(), .first = first}},
                 table);
  list.barrier();
  products_.record(list, terms_.operands(v_.x, &v_.direction), v_.product);
  list.barrier();
}

void VulkanEngine::record_coarse_vectors(CommandList& list) {
  const CoarsePlan& plan = coarse_.control.plan();
  list.barrier();
  v_.record_by_blocks(list, {.op = VectorOp::precondition}, v_.table());
  list.fill(v_.direction, 0, problem_.model().scalars * context_.element_bytes(), 0);
  BindingTable table = coarse_table();
  table.set(BufferRole::first_operand, coarse_.offsets);
  table.set(BufferRole::entries, coarse_.from);
  const std::uint32_t numbers = plan.functions * plan.entries();
  v_.ops->record(list, {.op = VectorOp::coarse_vectors, .constants = {.count = numbers}}, table);
  if (!plan.answers) return;
  const std::uint64_t bytes = std::uint64_t{numbers} * context_.element_bytes();
  list.barrier();
  // Vectors of those that follow stay 0 until all answers are there.
  list.copy(coarse_.vectors, 0, coarse_.answers, 0, bytes);
  for (std::uint32_t f = 0; f < plan.functions; ++f) {
    record_coarse_product(list, f * plan.unknowns());
    BindingTable answer = v_.table();
    answer.set(BufferRole::first_operand, v_.product);
    answer.set(BufferRole::result, v_.preconditioned);
    v_.record_by_blocks(list, {.op = VectorOp::apply_preconditioner}, answer);
    list.barrier();
    answer = coarse_table();
    answer.set(BufferRole::first_operand, v_.preconditioned);
    answer.set(BufferRole::result, coarse_.answers);
    answer.set(BufferRole::outputs, coarse_.follows);
    v_.ops->record(
        list,
        {.op = VectorOp::coarse_answer,
         .width = plan.functions,
         .constants = {.count = plan.entries(), .first = (plan.functions + f) * plan.unknowns()}},
        answer);
  }
  list.barrier();
  list.copy(coarse_.answers, 0, coarse_.vectors, 0, bytes);
}

void VulkanEngine::record_coarse_matrix(CommandList& list) {
  const CoarsePlan& plan = coarse_.control.plan();
  const std::uint64_t n = plan.unknowns();
  list.barrier();
  list.fill(coarse_.matrices[0], 0, n * n * (context_.scalar_precision() == Precision::f64 ? 8 : 4),
            0);
  BindingTable table = coarse_table();
  table.set(BufferRole::first_operand, v_.product);
  table.set(BufferRole::outputs, coarse_.sources);
  table.set(BufferRole::coarse_out, coarse_.matrices[0]);
  for (std::uint32_t colour = 0; colour < plan.colours; ++colour) {
    for (std::uint32_t f = 0; f < plan.functions; ++f) {
      record_coarse_product(list,
                            (2 * plan.functions + colour * plan.functions + f) * plan.unknowns());
      v_.ops->record(list,
                     {.op = VectorOp::coarse_column,
                      .width = plan.functions,
                      .constants = {.count = plan.entries(),
                                    .first = colour * plan.aggregates,
                                    .out_stride = plan.unknowns(),
                                    .a = f},
                      .groups = plan.aggregates},
                     table);
    }
  }
}

void VulkanEngine::record_elimination(CommandList& list, std::uint32_t first, std::uint32_t count) {
  const std::uint32_t n = coarse_.control.plan().unknowns();
  BindingTable table;
  table.set(BufferRole::partials, coarse_.panel);
  for (std::uint32_t panel = first; panel < first + count; ++panel) {
    const std::uint32_t pivot = panel * kPivotsOfPanel;
    codegen::VectorConstants constants = {
        .count = n, .first = pivot, .out_stride = n, .a = std::min(kPivotsOfPanel, n - pivot)};
    table.set(BufferRole::coarse_in, coarse_.matrices[panel % 2]);
    table.set(BufferRole::coarse_out, coarse_.matrices[(panel + 1) % 2]);
    list.barrier();
    v_.ops->record(list,
                   {.op = VectorOp::coarse_panel, .width = kPivotsOfPanel, .constants = constants},
                   table);
    list.barrier();
    constants.count = n * n;
    v_.ops->record(list, {.op = VectorOp::coarse_eliminate, .constants = constants}, table);
  }
}

void VulkanEngine::record_coarse_correction(CommandList& list, bool predicated) {
  const CoarsePlan& plan = coarse_.control.plan();
  const std::uint32_t n = plan.unknowns();
  BindingTable table = coarse_table();
  table.set(BufferRole::first_operand, v_.residual);
  table.set(BufferRole::coarse_out, coarse_.in);
  list.barrier();
  v_.ops->record(list,
                 {.op = VectorOp::coarse_restrict,
                  .width = plan.functions,
                  .predicated = predicated,
                  .constants = {.count = plan.entries()},
                  .groups = plan.aggregates},
                 table);
  table.set(BufferRole::coarse_matrix, coarse_.matrices[panels_of(n) % 2]);
  table.set(BufferRole::coarse_in, coarse_.in);
  table.set(BufferRole::coarse_out, coarse_.out);
  list.barrier();
  v_.ops->record(
      list,
      {.op = VectorOp::coarse_multiply,
       .predicated = predicated,
       .constants = {.count = n, .out_first = v_.block_groups(), .out_stride = sum_groups(true)},
       .groups = n},
      table);
  table.set(BufferRole::coarse_in, coarse_.out);
  table.set(BufferRole::result, v_.preconditioned);
  list.barrier();
  v_.ops->record(list,
                 {.op = VectorOp::coarse_expand,
                  .width = plan.functions,
                  .predicated = predicated,
                  .constants = {.count = plan.entries(), .overwrite = 0}},
                 table);
}

void VulkanEngine::prepare_coarse_lists() {
  if (coarse_lists_->start.list) return;
  recorder_.collect([&](CommandList& list) {
    record_coarse_vectors(list);
    record_coarse_matrix(list);
    record_elimination(list, 0, 1);
    record_solve_start(list, true, true);
    record_iterations(list, 2, true, true);
  });
  recorder_.finish_kernels();
  coarse_lists_->build.push_back(
      recorder_.make_list("coarse_vectors", [&](CommandList& l) { record_coarse_vectors(l); }));
  coarse_lists_->build.push_back(
      recorder_.make_list("coarse_matrix", [&](CommandList& l) { record_coarse_matrix(l); }));
  const std::uint32_t panels = panels_of(coarse_.control.plan().unknowns());
  for (std::uint32_t first = 0; first < panels; first += kPanelsOfList) {
    const std::uint32_t count = std::min(kPanelsOfList, panels - first);
    coarse_lists_->build.push_back(recorder_.make_list(
        "coarse_inverse", [&](CommandList& l) { record_elimination(l, first, count); }));
  }
  coarse_lists_->start = recorder_.make_list(
      "coarse_solve_start", [&](CommandList& l) { record_solve_start(l, true, true); });
  coarse_lists_->iterations = recorder_.make_list("coarse_iterations", [&](CommandList& l) {
    record_iterations(l, kIterationsOfList, true, true);
  });
}

void VulkanEngine::precondition_coarse(VulkanEngine& stepping,
                                       std::vector<const Recorded*>& lists) {
  const auto here = [&] {
    std::vector<double> x(problem_.model().scalars);
    read_numbers(stepping.context_, stepping.v_.x, x);
    return x;
  };
  if (coarse_.control.due(problem_.model(), here)) {
    if (!coarse_fits(coarse_.control.plan())) {
      return coarse_.control.failed("a coarse space does not fit the range of a storage buffer");
    }
    if (coarse_.version != coarse_.control.plan_version()) make_coarse_buffers();
    if (coarse_.centres != coarse_.control.centre_version()) write_coarse_centres();
    prepare_coarse_lists();
    for (const Recorded& list : coarse_lists_->build) lists.push_back(&list);
    coarse_.control.built();
  }
  if (coarse_.control.in_use()) prepare_coarse_lists();
}

}  // namespace topograd::runtime::vulkan
