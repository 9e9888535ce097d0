// Which numbers of a batch may be code.
#include "numbers_in_code.hpp"

#include "../../plan/column_forms.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

namespace topograd::runtime::vulkan {
namespace {

bool may_be_code(double value, bool wide) {
  return wide ? std::isnormal(value) : std::isnormal(static_cast<float>(value));
}

}  // namespace

bool NumbersInCode::find(const Context& context) {
  found_.clear();
  if (batch_.size() < context.numbers_in_code_from) return false;
  for (std::uint32_t k = 0; k < batch_.data_columns(); ++k) {
    std::optional<double> number = shared_number(batch_, k);
    if (number && !may_be_code(*number, context.wide())) number.reset();
    found_.push_back(number);
  }
  if (std::ranges::none_of(found_, [](const auto& n) { return n.has_value(); })) found_.clear();
  return !found_.empty();
}

bool NumbersInCode::hold() const {
  for (std::uint32_t k = 0; k < found_.size(); ++k) {
    if (!found_[k]) continue;
    const std::optional<double> number = shared_number(batch_, k);
    if (!number ||
        std::bit_cast<std::uint64_t>(*number) != std::bit_cast<std::uint64_t>(*found_[k]))
      return false;
  }
  return true;
}

codegen::ColumnLayout NumbersInCode::left_out_of(codegen::ColumnLayout layout) const {
  for (std::size_t k = 0; k < found_.size(); ++k) {  // flexible columns count for nothing
    if (found_[k]) layout.data[k].kind = codegen::DataSource::Kind::flexible;
  }
  return layout;
}

}  // namespace topograd::runtime::vulkan
