// Lists that accept trial points, and their copies on the host.
#include "accepted_points.hpp"

namespace topograd::runtime::vulkan {

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
