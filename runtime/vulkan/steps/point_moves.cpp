// Projections on bounds, moves along manifolds, their norms, and lists that accept trial points.
#include "point_moves.hpp"

#include <algorithm>
#include <iterator>

#include "../../../ir/error.hpp"

namespace topograd::runtime::vulkan {

void PointMoves::build() {
  manifolds_ = nullptr;
  for (Buffer* buffer : {&lower_, &upper_, &ambient_, &off_tangent_}) *buffer = Buffer();
  if (bounded()) make_bounds();
  if (on_manifolds()) make_manifolds();
}

void PointMoves::make_bounds() {
  lower_ = make_numbers(context_, problem_.model().scalars, "lower_bounds");
  upper_ = make_numbers(context_, problem_.model().scalars, "upper_bounds");
  const std::vector<std::uint32_t> none(problem_.model().scalars, 0);
  v_.held = make_buffer(context_, none, "held");
  write_bounds();
}

void PointMoves::make_manifolds() {
  std::vector<std::uint32_t> held(problem_.model().constant.begin(),
                                  problem_.model().constant.end());
  held.resize(problem_.model().scalars, 0);
  for (const ManifoldBlocks& manifold_blocks : problem_.model().manifolds->all) {
    for (const std::uint32_t first : manifold_blocks.blocks) {
      for (std::uint32_t k = manifold_blocks.tangent; k < manifold_blocks.width; ++k)
        held[first + k] = 1;
    }
  }
  off_tangent_ = make_buffer(context_, held, "off_tangent");
  v_.held = make_buffer(context_, held, "held");
  ambient_ = make_numbers(context_, problem_.model().scalars, "ambient_direction");
  const auto packed_start = [this](std::uint32_t first) {
    const auto after = std::ranges::upper_bound(v_.array_blocks, first, {}, &BlockRange::x_first);
    const BlockRange& range = *std::prev(after);
    const std::uint32_t packed = range.width * (range.width + 1) / 2;
    return range.blocks_first + (first - range.x_first) / range.width * packed;
  };
  manifolds_ = std::make_unique<DeviceManifolds>(context_, *v_.ops, *problem_.model().manifolds,
                                                 packed_start, v_.packed_blocks);
}

/// In f32 they are rounded to the nearest, as x is, so that x is on its bound where it was.
void PointMoves::write_bounds() {
  write_numbers(context_, lower_, problem_.model().lower);
  write_numbers(context_, upper_, problem_.model().upper);
}

void PointMoves::record_norms(CommandList& list) {
  if (on_manifolds()) {
    record_gradient_moves(list);
    list.barrier();
  }
  const Buffer& gradient = on_manifolds() ? v_.result : v_.gradient;
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  const std::uint32_t groups = v_.ops->workgroups(n);
  if (bounded()) {
    record_bounded_norms(list, gradient, v_.fixed);
  } else {
    v_.ops->record(list,
                   kernel::point_norms{{.gradient = gradient,
                                        .point = v_.x,
                                        .fixed_scalars = on_manifolds() ? v_.fixed : v_.not_free(),
                                        .partials = v_.partials},
                                       {.count = n, .out_stride = groups}});
  }
  list.barrier();
  v_.ops->sum(list, v_.partials, 0, groups, groups, Scalar::gradient_squared, 2);
  v_.ops->sum(list, v_.partials, 2 * groups, groups, groups, Scalar::gradient_max, 1, true);
  if (!bounded() || !on_manifolds()) return;
  list.barrier();  // these sums are nobody's
  record_bounded_norms(list, v_.gradient, off_tangent_);
}

void PointMoves::record_bounded_norms(CommandList& list, const Buffer& gradient,
                                      const Buffer& fixed) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list, kernel::bounded_norms{{.gradient = gradient,
                                              .point = v_.x,
                                              .lower_bounds = lower_,
                                              .upper_bounds = upper_,
                                              .fixed_scalars = fixed,
                                              .held_scalars = v_.held,
                                              .partials = v_.partials},
                                             {.count = n, .out_stride = v_.ops->workgroups(n)}});
}

void PointMoves::record_scaled_norms(CommandList& list) {
  const std::uint32_t groups = v_.block_groups();
  list.barrier();
  v_.record_by_blocks(list, kernel::scaled_norms{{.gradient = v_.gradient,
                                                  .point = v_.x,
                                                  .delta = v_.step,
                                                  .scale = v_.scale,
                                                  .fixed_scalars = v_.not_free(),
                                                  .partials = v_.partials},
                                                 {.out_stride = groups}});
  list.barrier();
  v_.ops->sum(list, v_.partials, 0, groups, groups, Scalar::scaled_gradient_squared, 3);
  v_.ops->sum(list, v_.partials, 3 * groups, groups, groups, Scalar::scaled_gradient_max, 1, true);
}

void PointMoves::record(CommandList& list, Scalar length) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  if (on_manifolds()) return record_move_on_manifolds(list, length);
  if (!bounded() && length != Scalar::one) {
    v_.ops->record(list,
                   kernel::combine{{.x = v_.x, .y = v_.step, .result = v_.trial},
                                   {.count = n, .x_factor = Scalar::one, .y_factor = length}});
    list.barrier();
    return;
  }
  const std::uint32_t groups = v_.ops->workgroups(n);
  const std::uint32_t first =
      2 * (v_.block_groups() + v_.most_sums);  // conjugate gradients may go on from theirs
  if (bounded()) {
    record_bounded_trial(list, v_.x, first, length);
  } else {
    record_trial(list, first);
  }
  list.barrier();
  v_.ops->sum(list, v_.partials, first, groups, groups, Scalar::model_decrease, 3);
}

void PointMoves::record_trial(CommandList& list, std::uint32_t first) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list, kernel::trial_point{
                           {.point = v_.x,
                            .delta = v_.step,
                            .residual = v_.residual,
                            .damping = v_.damping,
                            .gradient = v_.gradient,
                            .result = v_.trial,
                            .partials = v_.partials},
                           {.count = n, .out_first = first, .out_stride = v_.ops->workgroups(n)}});
}

void PointMoves::record_bounded_trial(CommandList& list, const Buffer& point, std::uint32_t first,
                                      Scalar length) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  kernel::bounded_trial trial = v_.bounded_trial(n, lower_, upper_, length);
  trial.buffers.point = point;
  trial.push.out_first = first;
  v_.ops->record(list, trial);
}

void PointMoves::record_tangents(CommandList& list) {
  if (!on_manifolds()) return;
  manifolds_->record_bases(list, v_.x);
  list.barrier();
  manifolds_->record_contract(list, v_.gradient);
  manifolds_->record_contract_packed(list, v_.packed);
  list.barrier();
}

void PointMoves::record_gradient_moves(CommandList& list) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list,
                 kernel::mask{{.result = v_.gradient, .fixed_scalars = v_.fixed}, {.count = n}});
  list.barrier();
  v_.ops->record(list, kernel::copy{{.source = v_.gradient, .result = v_.result}, {.count = n}});
  v_.ops->record(
      list, kernel::combine{{.x = v_.gradient, .y = v_.gradient, .result = v_.product},
                            {.count = n, .x_factor = Scalar::minus_one, .y_factor = Scalar::zero}});
  list.barrier();
  manifolds_->record_plus(list, v_.x, v_.product, v_.result, Scalar::minus_one, Scalar::one);
}

const Buffer& PointMoves::record_expanded(CommandList& list, const Buffer& direction) {
  if (!on_manifolds()) return direction;
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list, kernel::copy{{.source = direction, .result = ambient_}, {.count = n}});
  list.barrier();
  manifolds_->record_expand(list, direction, ambient_);
  list.barrier();
  return ambient_;
}

void PointMoves::record_into_box(CommandList& list, std::uint32_t first) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  const std::uint32_t groups = v_.ops->workgroups(n);
  list.barrier();
  v_.ops->record(list, kernel::copy{{.source = v_.trial, .result = v_.product}, {.count = n}});
  list.barrier();
  record_bounded_trial(list, v_.product, first, Scalar::zero);
  list.barrier();
  v_.ops->sum(list, v_.partials, first, groups, groups, Scalar::model_decrease, 3);
}

void PointMoves::record_move_on_manifolds(CommandList& list, Scalar length) {
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  const std::uint32_t groups = v_.ops->workgroups(n);
  const std::uint32_t first = 2 * v_.block_groups();  // conjugate gradients may go on from theirs
  const bool whole = length == Scalar::one;
  const auto combine = [&](const Buffer& a, const Buffer& b, const Buffer& out, Scalar in_a,
                           Scalar in_b) {
    v_.ops->record(list, kernel::combine{{.x = a, .y = b, .result = out},
                                         {.count = n, .x_factor = in_a, .y_factor = in_b}});
    list.barrier();
  };
  if (whole && !bounded()) {
    record_trial(list, first);
    list.barrier();
  } else {
    combine(v_.step, v_.step, v_.product, length, Scalar::zero);
    combine(v_.x, v_.product, v_.trial, Scalar::one, Scalar::one);
  }
  manifolds_->record_plus(list, v_.x, whole ? v_.step : v_.product, v_.trial);
  if (bounded()) record_into_box(list, first);
  list.barrier();
  combine(v_.trial, v_.x, v_.result, Scalar::one, Scalar::minus_one);
  v_.ops->record(
      list,
      kernel::dot{
          {.x = v_.result, .y = v_.result, .fixed_scalars = v_.fixed, .partials = v_.partials},
          {.count = n, .out_first = first + 3 * groups}});
  list.barrier();
  if (whole && !bounded()) {
    v_.ops->sum(list, v_.partials, first, groups, groups, Scalar::model_decrease, 1);
    v_.ops->sum(list, v_.partials, first + 2 * groups, groups, groups, Scalar::slope, 1);
  }
  v_.ops->sum(list, v_.partials, first + 3 * groups, groups, groups, Scalar::step_squared, 1);
}

DeviceManifolds::MatrixVectors PointMoves::matrix_vectors(const BlockRows& matrix) const {
  if (!on_manifolds()) return {};
  return manifolds_->vectors_of(matrix, problem_.model().arrays);
}

void PointMoves::record_matrix_contracted(CommandList& list,
                                          const DeviceManifolds::MatrixVectors& vectors,
                                          const Buffer& matrix) const {
  if (on_manifolds()) manifolds_->record_contract_matrix(list, vectors, matrix);
}

void PointMoves::record_contracted(CommandList& list, const Buffer& vector) {
  if (!on_manifolds()) return;
  manifolds_->record_contract(list, vector);
  list.barrier();
}

void AcceptedPoints::prepare() {
  if (lists_->accept.list) return;
  const std::uint64_t bytes = problem_.model().scalars * context_.element_bytes();
  lists_->accept =
      recorder_.make_list("accept", [&](CommandList& l) { l.copy(v_.trial, 0, v_.x, 0, bytes); });
  for (std::size_t k = 0; k < staged_->points.size(); ++k) {
    staged_->points[k] = context_.device->buffer(bytes, MemoryKind::Upload, "staged_point");
    lists_->accept_and_stage[k] = recorder_.make_list("accept_and_stage", [&](CommandList& l) {
      l.copy(v_.trial, 0, v_.x, 0, bytes);
      l.copy(v_.trial, 0, staged_->points[k], 0, bytes);
    });
  }
}

const Recorded& AcceptedPoints::accepting() {
  ++staged_->accepted;
  return staged_->due() ? lists_->accept_and_stage[staged_->begin()] : lists_->accept;
}

bool AcceptedPoints::last_known_point(std::span<double> x) { return staged_->read(problem_, x); }

const AcceptedPoints::Scalars& AcceptedPoints::read_scalars() {
  const auto& values = v_.ops->read(recorder_.last());
  staged_->arrive();  // the read-back was queued behind it
  return values;
}

}  // namespace topograd::runtime::vulkan
