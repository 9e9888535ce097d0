// Damped steps of several processes, each on its part.
#include "distributed_steps.hpp"

namespace topograd::distributed {

void DistributedSteps::transfer(ir::StateRecord& record) {
  record.set_part(part_.get());
  try {
    part_->steps().transfer(record);  // a state that does not fit is refused by all ranks
  } catch (...) {
    record.set_part(nullptr);
    throw;
  }
  record.set_part(nullptr);
}

runtime::PointReport DistributedSteps::linearize() {
  return together([&] { return part_->steps().linearize(); });
}

runtime::StepReport DistributedSteps::try_step(const runtime::StepRequest& request) {
  return together([&] { return part_->steps().try_step(request); });
}

runtime::StepReport DistributedSteps::try_step(std::span<const double> delta) {
  const std::span<const double> here = part_->narrowed(delta);
  return together([&] { return part_->steps().try_step(here); });
}

void DistributedSteps::trial_point(std::span<double> x) {
  part_->join(x, [&](std::span<double> here) { part_->steps().trial_point(here); });
}

runtime::PreconditionerUse DistributedSteps::preconditioner() const {
  return part_->steps().preconditioner();
}
runtime::NormalMatrixUse DistributedSteps::normal_matrix() const {
  return part_->steps().normal_matrix();
}

runtime::StepReport DistributedSteps::rescale_step(double length) {
  return together([&] { return part_->engine().abilities().step_lengths->rescale_step(length); });
}

void DistributedSteps::last_step(std::span<double> delta) {
  part_->join(delta, [&](std::span<double> here) {
    part_->engine().abilities().last_step->last_step(here);
  });
}

}  // namespace topograd::distributed
