// Projections on bounds, moves along manifolds, and norms that take both into account.
#include "point_moves.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <iterator>

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;
using codegen::VectorOp;

}  // namespace

void PointMoves::build() {
  charts_ = nullptr;
  for (Buffer* buffer : {&lower_, &upper_, &ambient_, &chart_held_}) *buffer = Buffer();
  if (bounded()) make_bounds();
  if (charted()) make_charts();
}

void PointMoves::make_bounds() {
  lower_ = make_numbers(context_, problem_.model().scalars, "lower_bounds");
  upper_ = make_numbers(context_, problem_.model().scalars, "upper_bounds");
  const std::vector<std::uint32_t> none(problem_.model().scalars, 0);
  v_.held = make_buffer(context_, none, "held");
  write_bounds();
}

void PointMoves::make_charts() {
  std::vector<std::uint32_t> held(problem_.model().constant.begin(),
                                  problem_.model().constant.end());
  held.resize(problem_.model().scalars, 0);
  for (const Chart& chart : problem_.model().charts->all) {
    for (const std::uint32_t first : chart.blocks) {
      for (std::uint32_t k = chart.tangent; k < chart.width; ++k) held[first + k] = 1;
    }
  }
  chart_held_ = make_buffer(context_, held, "chart_held");
  v_.held = make_buffer(context_, held, "held");
  ambient_ = make_numbers(context_, problem_.model().scalars, "ambient_direction");
  const auto packed_start = [this](std::uint32_t first) {
    const auto after = std::ranges::upper_bound(v_.array_blocks, first, {}, &BlockRange::x_first);
    const BlockRange& range = *std::prev(after);
    const std::uint32_t packed = range.width * (range.width + 1) / 2;
    return range.blocks_first + (first - range.x_first) / range.width * packed;
  };
  charts_ = std::make_unique<DeviceCharts>(context_, *v_.ops, *problem_.model().charts,
                                           packed_start, v_.packed_blocks);
}

/// In f32 they are rounded to the nearest, as x is, so that x is on its bound where it was.
void PointMoves::write_bounds() {
  write_numbers(context_, lower_, problem_.model().lower);
  write_numbers(context_, upper_, problem_.model().upper);
}

void PointMoves::hold(std::span<const std::uint8_t> held) {
  if (!bounded()) throw Error(ErrorCode::Unsupported, "vulkan engine: steps know no box");
  std::vector<std::uint32_t> words(held.begin(), held.end());
  for (std::size_t k = 0; k < problem_.order().position.size(); ++k)
    words[problem_.order().position[k]] = held[k];
  context_.device->upload<std::uint32_t>(v_.held, words);
}

void PointMoves::record_norms(CommandList& list) {
  BindingTable table = v_.table();
  table.set(BufferRole::first_operand, v_.x);
  if (bounded()) {
    table.set(BufferRole::fixed, v_.fixed);
    table.set(BufferRole::held, v_.held);
    table.set(BufferRole::lower_bounds, lower_);
    table.set(BufferRole::upper_bounds, upper_);
  }
  if (charted()) {
    record_gradient_moves(list);
    list.barrier();
    table.set(BufferRole::fixed, v_.fixed);
    table.set(BufferRole::gradient, v_.result);
  }
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  const std::uint32_t groups = v_.ops->workgroups(n);
  v_.ops->record(list,
                 {.op = bounded() ? VectorOp::bounded_norms : VectorOp::point_norms,
                  .constants = {.count = n, .out_stride = groups}},
                 table);
  list.barrier();
  v_.ops->sum(list, v_.partials, 0, groups, groups, Scalar::gradient_squared, 2);
  v_.ops->sum(list, v_.partials, 2 * groups, groups, groups, Scalar::gradient_max, 1, true);
  if (bounded() && charted()) record_charted_holds(list);
}

void PointMoves::record_scaled_norms(CommandList& list) {
  BindingTable table = v_.table();
  table.set(BufferRole::first_operand, v_.x);
  const std::uint32_t groups = v_.block_groups();
  list.barrier();
  v_.record_by_blocks(list, {.op = VectorOp::scaled_norms, .constants = {.out_stride = groups}},
                      table);
  list.barrier();
  v_.ops->sum(list, v_.partials, 0, groups, groups, Scalar::scaled_gradient_squared, 3);
  v_.ops->sum(list, v_.partials, 3 * groups, groups, groups, Scalar::scaled_gradient_max, 1, true);
}

void PointMoves::record(CommandList& list, Scalar length) {
  BindingTable table = v_.table();
  table.set(BufferRole::first_operand, v_.x);
  table.set(BufferRole::result, v_.trial);
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  if (charted()) return record_charted_move(list, length);
  if (!bounded() && length != Scalar::one) {
    table.set(BufferRole::second_operand, v_.step);
    v_.ops->record(list,
                   {.op = VectorOp::combine, .constants = {.count = n, .b = codegen::slot(length)}},
                   table);
    list.barrier();
    return;
  }
  if (bounded()) {
    table.set(BufferRole::lower_bounds, lower_);
    table.set(BufferRole::upper_bounds, upper_);
  }
  const std::uint32_t groups = v_.ops->workgroups(n);
  const std::uint32_t first =
      2 * (v_.block_groups() + v_.most_coarse);  // conjugate gradients may go on from theirs
  v_.ops->record(list,
                 {.op = bounded() ? VectorOp::bounded_trial : VectorOp::trial_point,
                  .constants = {.count = n,
                                .out_first = first,
                                .out_stride = groups,
                                .a = codegen::slot(length)}},
                 table);
  list.barrier();
  v_.ops->sum(list, v_.partials, first, groups, groups, Scalar::model_decrease, bounded() ? 3 : 2);
}

void PointMoves::record_tangents(CommandList& list) {
  if (!charted()) return;
  charts_->record_bases(list, v_.x);
  list.barrier();
  charts_->record_contract(list, v_.gradient);
  charts_->record_contract_packed(list, v_.packed);
  list.barrier();
}

void PointMoves::record_gradient_moves(CommandList& list) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  BindingTable table;
  table.set(BufferRole::fixed, v_.fixed);
  table.set(BufferRole::result, v_.gradient);
  v_.ops->record(list, {.op = VectorOp::mask, .constants = {.count = n}}, table);
  list.barrier();
  table.set(BufferRole::first_operand, v_.gradient);
  table.set(BufferRole::result, v_.result);
  v_.ops->record(list, {.op = VectorOp::copy, .constants = {.count = n}}, table);
  table.set(BufferRole::second_operand, v_.gradient);
  table.set(BufferRole::result, v_.product);
  v_.ops->record(
      list,
      {.op = VectorOp::combine, .constants = {.count = n, .a = codegen::slot(Scalar::minus_one)}},
      table);
  list.barrier();
  charts_->record_plus(list, v_.x, v_.product, v_.result, Scalar::minus_one, Scalar::one);
}

const Buffer& PointMoves::record_expanded(CommandList& list, const Buffer& direction) {
  if (!charted()) return direction;
  BindingTable table;
  table.set(BufferRole::first_operand, direction);
  table.set(BufferRole::result, ambient_);
  v_.ops->record(list,
                 {.op = VectorOp::copy,
                  .constants = {.count = static_cast<std::uint32_t>(problem_.model().scalars)}},
                 table);
  list.barrier();
  charts_->record_expand(list, direction, ambient_);
  list.barrier();
  return ambient_;
}

void PointMoves::record_charted_holds(CommandList& list) {
  BindingTable table = v_.table();
  table.set(BufferRole::fixed, chart_held_);
  table.set(BufferRole::held, v_.held);
  table.set(BufferRole::lower_bounds, lower_);
  table.set(BufferRole::upper_bounds, upper_);
  table.set(BufferRole::first_operand, v_.x);
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  list.barrier();  // its sums are nobody's
  v_.ops->record(list,
                 {.op = VectorOp::bounded_norms,
                  .constants = {.count = n, .out_stride = v_.ops->workgroups(n)}},
                 table);
}

void PointMoves::record_into_box(CommandList& list, std::uint32_t first) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  const std::uint32_t groups = v_.ops->workgroups(n);
  BindingTable table = v_.table();
  table.set(BufferRole::first_operand, v_.trial);
  table.set(BufferRole::result, v_.product);
  list.barrier();
  v_.ops->record(list, {.op = VectorOp::copy, .constants = {.count = n}}, table);
  list.barrier();
  table.set(BufferRole::first_operand, v_.product);
  table.set(BufferRole::result, v_.trial);
  table.set(BufferRole::lower_bounds, lower_);
  table.set(BufferRole::upper_bounds, upper_);
  v_.ops->record(list,
                 {.op = VectorOp::bounded_trial,
                  .constants = {.count = n,
                                .out_first = first,
                                .out_stride = groups,
                                .a = codegen::slot(Scalar::zero)}},
                 table);
  list.barrier();
  v_.ops->sum(list, v_.partials, first, groups, groups, Scalar::model_decrease, 3);
}

void PointMoves::record_charted_move(CommandList& list, Scalar length) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  const std::uint32_t groups = v_.ops->workgroups(n);
  const std::uint32_t first = 2 * v_.block_groups();  // conjugate gradients may go on from theirs
  const bool whole = length == Scalar::one;
  BindingTable table = v_.table();
  const auto combine = [&](const Buffer& a, const Buffer& b, const Buffer& out, Scalar in_a,
                           Scalar in_b) {
    table.set(BufferRole::first_operand, a);
    table.set(BufferRole::second_operand, b);
    table.set(BufferRole::result, out);
    v_.ops->record(list,
                   {.op = VectorOp::combine,
                    .constants = {.count = n, .a = codegen::slot(in_a), .b = codegen::slot(in_b)}},
                   table);
    list.barrier();
  };
  if (whole && !bounded()) {
    table.set(BufferRole::first_operand, v_.x);
    table.set(BufferRole::result, v_.trial);
    v_.ops->record(list,
                   {.op = VectorOp::trial_point,
                    .constants = {.count = n, .out_first = first, .out_stride = groups}},
                   table);
    list.barrier();
  } else {
    combine(v_.step, v_.step, v_.product, length, Scalar::zero);
    combine(v_.x, v_.product, v_.trial, Scalar::one, Scalar::one);
  }
  charts_->record_plus(list, v_.x, whole ? v_.step : v_.product, v_.trial);
  if (bounded()) record_into_box(list, first);
  list.barrier();
  combine(v_.trial, v_.x, v_.result, Scalar::one, Scalar::minus_one);
  table.set(BufferRole::fixed, v_.fixed);
  table.set(BufferRole::first_operand, v_.result);
  table.set(BufferRole::second_operand, v_.result);
  v_.ops->record(list,
                 {.op = VectorOp::dot, .constants = {.count = n, .out_first = first + 2 * groups}},
                 table);
  list.barrier();
  if (whole && !bounded())
    v_.ops->sum(list, v_.partials, first, groups, groups, Scalar::model_decrease, 1);
  v_.ops->sum(list, v_.partials, first + 2 * groups, groups, groups, Scalar::step_squared, 1);
}

void PointMoves::record_contracted(CommandList& list, const Buffer& vector) {
  if (!charted()) return;
  charts_->record_contract(list, vector);
  list.barrier();
}

}  // namespace topograd::runtime::vulkan
