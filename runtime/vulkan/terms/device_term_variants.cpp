// What kernels of a term may leave out or hold in their text: constant blocks, and numbers that all
// of its instances share.
#include "device_term.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

bool may_be_code(double value, bool wide) {
  return wide ? std::isnormal(value) : std::isnormal(static_cast<float>(value));
}

}  // namespace

void DeviceTerm::set_mask(std::vector<std::uint32_t> held, std::span<const std::uint8_t> constant) {
  masked_view_ = view_;
  masked_view_.shape.held = std::move(held);
  constant_ = constant;
}

DeviceTerm::Work DeviceTerm::work(Pass pass, bool stored_terms) {
  const std::uint64_t number = context_.element_bytes();
  const codegen::ColumnLayout layout = serving_layout();
  Work work;
  if (stored_terms) {
    const codegen::KernelRequest request = store_request(shape(), pass);
    work.operations = instances() * ir::operation_count(request.program);
    work.bytes =
        instances() * (stored_bytes(layout, context_.element_bytes()) + number * width(pass));
  }
  for (const auto& set : gather_sets()) {
    for (std::size_t r = 0; r < set->roles(); ++r) {
      const std::uint32_t group = set->role_groups()[r];
      const std::uint64_t entries = set->role_entries()[r];
      work.entries += entries;
      if (stored_terms) {
        work.bytes += entries * (4 + number * shape().groups[group].slots.size());
        continue;
      }
      const bool gives = value_set(pass) == set.get() && set->lead() == r;
      const codegen::GatherRole role = gather_role(
          shape(), has_values(pass) && !gives ? Pass::gradient : pass, group, set->owner_width());
      work.operations += entries * ir::operation_count(role.program);
      const EntryColumns columns =
          entry_columns(layout, shape().groups[group], shape().flexible.of_group(group));
      const codegen::ColumnLayout numbers{.data = columns.layout.data,
                                          .data_columns = columns.layout.data_columns};
      work.bytes += entries * (4 * columns.fixed + stored_bytes(numbers, context_.element_bytes()));
    }
  }
  return work;
}

bool DeviceTerm::find_shared_numbers() {
  numbers_.clear();
  if (instances() < context_.numbers_in_code_from) return false;
  for (std::uint32_t k = 0; k < batch_->data_columns(); ++k) {
    std::optional<double> number = shared_number(*batch_, k);
    if (number && !may_be_code(*number, context_.wide())) number.reset();
    numbers_.push_back(number);
  }
  if (std::ranges::none_of(numbers_, [](const auto& n) { return n.has_value(); })) numbers_.clear();
  return !numbers_.empty();
}

codegen::ColumnLayout DeviceTerm::serving_layout() const {
  codegen::ColumnLayout layout = shape().layout;
  if (context_.code != Code::serve) return layout;
  for (std::size_t k = 0; k < numbers_.size(); ++k) {  // what is flexible counts for nothing
    if (numbers_[k]) layout.data[k].kind = codegen::DataSource::Kind::flexible;
  }
  return layout;
}

bool DeviceTerm::shares_numbers() const {
  for (std::uint32_t k = 0; k < numbers_.size(); ++k) {
    if (!numbers_[k]) continue;
    const std::optional<double> number = shared_number(*batch_, k);
    if (!number ||
        std::bit_cast<std::uint64_t>(*number) != std::bit_cast<std::uint64_t>(*numbers_[k]))
      return false;
  }
  return true;
}

}  // namespace topograd::runtime::vulkan
