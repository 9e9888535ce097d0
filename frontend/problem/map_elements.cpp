// Divides a map's arrays among its elements.
#include "map_elements.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <string>
#include <tuple>

namespace topograd::detail {

Division::Division(const char* name, std::size_t count, std::size_t size,
                   std::span<const std::uint32_t> offsets, const Caller& caller)
    : offsets_(offsets) {
  const auto fail = [&](const std::string& expected, const std::string& got) {
    caller.fail(ErrorCode::Shape, std::string(name) + ": expected " + expected + ", got " + got);
  };
  if (offsets.empty()) {
    width_ = size / count;
    if (width_ * count != size)
      fail("equally many for each of " + std::to_string(count) + " elements", std::to_string(size));
    return;
  }
  if (offsets.size() != count + 1)
    fail(std::to_string(count + 1) + " offsets", std::to_string(offsets.size()));
  if (!std::is_sorted(offsets.begin(), offsets.end())) fail("ascending offsets", "a descent");
  if (offsets.back() != size)
    fail(std::to_string(size) + " as the last offset", std::to_string(offsets.back()));
}

MapElements::MapElements(std::size_t count, const MapOptions& options, const Caller& caller)
    : count_(count),
      options_(options),
      indices_("indices", count, options.indices.size(), options.offsets, caller),
      data_("data", count, options.data.size(), options.data_offsets, caller) {}

std::vector<ElementShape> MapElements::shapes() const {
  std::vector<ElementShape> shapes;
  const auto add_shape = [&](std::size_t element) {
    shapes.push_back(
        {static_cast<int>(indices_[element].size), static_cast<int>(data_[element].size), {}});
  };
  if (indices_.equal_rows() && data_.equal_rows()) {
    add_shape(0);
    shapes[0].elements.resize(count_);
    std::iota(shapes[0].elements.begin(), shapes[0].elements.end(), std::size_t{0});
    return shapes;
  }
  using Sizes = std::pair<std::size_t, std::size_t>;
  std::vector<std::uint32_t> shape_of(count_);
  const std::vector<std::size_t> first = classify<Sizes>(
      count_,
      [&](std::size_t e, Sizes& sizes) {
        sizes = {indices_[e].size, data_[e].size};
      },
      [&](std::size_t e) -> std::uint32_t& { return shape_of[e]; });
  for (const std::size_t e : first) add_shape(e);
  std::vector<std::size_t> counts(shapes.size());
  for (const std::uint32_t shape : shape_of) ++counts[shape];
  for (std::size_t k = 0; k < shapes.size(); ++k) shapes[k].elements.reserve(counts[k]);
  for (std::size_t e = 0; e < count_; ++e) shapes[shape_of[e]].elements.push_back(e);
  return shapes;
}

void MapElements::check_ranges(std::span<const AddressForm> read,
                               std::span<const std::size_t> elements, const Caller& caller) const {
  std::vector<AddressForm> forms;  // one for each column, array and shift
  std::set<std::tuple<std::uint32_t, std::int64_t, std::uint32_t>> seen;
  for (const AddressForm& f : read)
    if (!f.direct && seen.emplace(f.column, f.shift, f.blocks).second) forms.push_back(f);
  const auto is_out = [&](std::size_t e, const AddressForm& f) {
    const std::int64_t block = f.block(index(e, f.column));
    return block < 0 || block >= std::int64_t{f.blocks};
  };
  const auto any_out = [&](std::size_t e) {
    return std::ranges::any_of(forms, [&](const AddressForm& f) { return is_out(e, f); });
  };
  std::atomic<std::size_t> bad = elements.size();  // position of the first bad element
  for_pieces(elements.size(), kPieceOfElements, [&](std::size_t, std::size_t k, std::size_t end) {
    while (k < end && !any_out(elements[k])) ++k;
    std::size_t known = bad;
    while (k < end && k < known && !bad.compare_exchange_weak(known, k)) {
    }
  });
  if (bad == elements.size()) return;
  const std::size_t e = elements[bad];
  const AddressForm f =
      *std::ranges::find_if(forms, [&](const AddressForm& form) { return is_out(e, form); });
  Caller where = caller;
  where.number += e;
  where.fail(ErrorCode::InvalidArgument,
             "index " + std::to_string(f.column) + " of element " + std::to_string(e) +
                 " selects block " + std::to_string(f.block(index(e, f.column))) +
                 of_array({caller.problem, f.base, f.data}) + ", out of range (the array has " +
                 std::to_string(f.blocks) + ")");
}

}  // namespace topograd::detail
