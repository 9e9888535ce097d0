// Branches on the device: what fails a guard, and trial points that outlive a change of terms.
#include "vulkan_engine.hpp"

#include <algorithm>
#include <string>

namespace topograd::runtime::vulkan {

std::vector<std::uint32_t> VulkanEngine::failed_instances(std::size_t term, At at) {
  DeviceTerm* device_term = terms_.at(term).get();
  if (device_term == nullptr || !device_term->has_guards()) return {};
  const std::uint64_t size = device_term->stored_size(Pass::guards);
  const std::string name = at == At::point ? "failed_guards_" : "failed_trial_guards_";
  Buffer& flags = row_result(Pass::guards, term);
  evaluate(name + std::to_string(term), [&](CommandList& list) {
    device_term->record_store(list, Pass::guards,
                              terms_.operands(at == At::point ? v_.x : v_.trial), flags);
  });
  std::vector<double> stored(size), fails(size);
  read_numbers(context_, flags, stored);
  device_term->from_device_order(stored, fails, 1);
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < fails.size(); ++i) {
    if (fails[i] == 0) continue;
    out.push_back(static_cast<std::uint32_t>(problem_.row(term, i)));
  }
  std::sort(out.begin(), out.end());
  return out;
}

double VulkanEngine::trial_cost() {
  prepare_lists();
  evaluate("trial_cost", [&](CommandList& list) {
    terms_.record_cost(list, v_.trial, Scalar::trial_cost);
    v_.ops->record_read(list);
  });
  return read_scalars()[codegen::slot(Scalar::trial_cost)];
}

void VulkanEngine::rebuild() {
  const std::vector<double> none(problem_.model().scalars);
  std::vector<double> x = none, trial = none, scale = none, step = none;
  problem_.read(v_.x, x);
  problem_.read(v_.trial, trial);
  problem_.read(v_.scale, scale);
  problem_.read(v_.step, step);
  const bool scaled = scale_is_set_;
  build();
  problem_.write(v_.x, x);
  problem_.write(v_.trial, trial);
  problem_.write(v_.scale, scale);
  problem_.write(v_.step, step);
  scale_is_set_ = scaled;
}

}  // namespace topograd::runtime::vulkan
