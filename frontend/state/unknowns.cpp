// The arrays of a problem's unknowns, their gaps, flags, bounds and manifolds.
#include "unknowns.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>

#include "../../ir/error.hpp"

namespace topograd::detail {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

std::uint32_t scalars_of(const ParameterArray& array) { return array.blocks * array.width; }
bool is_gap(const ParameterArray& array) { return array.values == nullptr; }

/// Throws an error that names the first blocks of the array at `values` and of the array at `other`
/// that share memory.
[[noreturn]] void refuse_shared_memory(const std::vector<ParameterArray>& arrays,
                                       const double* values, std::uint32_t width,
                                       const double* other) {
  const auto array = std::ranges::find(arrays, other, &ParameterArray::values);
  const double* shared = std::max(values, other, std::less<>());
  throw Error(ErrorCode::InvalidArgument,
              "add_parameters: block " + std::to_string((shared - values) / width) +
                  " of the new array shares memory with block " +
                  std::to_string((shared - other) / array->width) + " of parameter " +
                  (array->name.empty() ? "array " + std::to_string(array - arrays.begin())
                                       : "\"" + array->name + "\""));
}

/// Writes `flag` for the chosen coordinates of a block; returns the change of the number of ones.
std::ptrdiff_t mark(std::span<std::uint8_t> block, std::uint32_t coordinates, std::uint8_t flag) {
  std::ptrdiff_t change = 0;
  for (std::size_t k = 0; k < block.size(); ++k) {
    const bool chosen = coordinates == ~0u || (k < 32 && (coordinates >> k & 1u) != 0);
    if (!chosen) continue;
    change += flag - block[k];
    block[k] = flag;
  }
  return change;
}

void set_bound(std::vector<double>& bounds, std::size_t scalars, std::size_t scalar, double value,
               double open) {
  if (bounds.empty() && value == open) return;
  if (bounds.empty()) bounds.assign(scalars, open);
  bounds[scalar] = value;
}

}  // namespace

std::size_t Unknowns::array_number(std::uint32_t scalar) const {
  const auto after = std::upper_bound(
      arrays_.begin(), arrays_.end(), scalar,
      [](std::uint32_t index, const ParameterArray& array) { return index < array.offset; });
  return static_cast<std::size_t>(after - arrays_.begin()) - 1;
}

std::string Unknowns::of_parameters(std::uint32_t scalar) const {
  if (scalar >= scalars_) return "";
  const std::string& name = arrays_[array_number(scalar)].name;
  return name.empty() ? "" : " of parameter \"" + name + "\"";
}

bool Unknowns::is_removed(std::uint32_t scalar) const {
  return scalar >= scalars_ || (gaps_ > 0 && is_gap(arrays_[array_number(scalar)]));
}

std::uint32_t Unknowns::add(std::span<double> values, std::uint32_t width, std::string_view name) {
  if (const double* other = memory_.add(values.data(), values.size()))
    refuse_shared_memory(arrays_, values.data(), width, other);
  const auto count = static_cast<std::uint32_t>(values.size());
  for (std::size_t k = 0; gaps_ > 0 && k < arrays_.size(); ++k) {
    if (!is_gap(arrays_[k]) || arrays_[k].width != width || scalars_of(arrays_[k]) < count)
      continue;
    if (scalars_of(arrays_[k]) > count) {
      split(k, count / width);
    } else {
      --gaps_;
    }
    arrays_[k].values = values.data();
    arrays_[k].name = name;
    reset_scalars(k);
    return arrays_[k].offset;
  }
  arrays_.push_back({scalars_, count / width, width, values.data(), std::string(name)});
  scalars_ += count;
  if (!constants_.empty()) constants_.resize(scalars_, 0);
  if (!lower_.empty()) lower_.resize(scalars_, -kUnbounded);
  if (!upper_.empty()) upper_.resize(scalars_, kUnbounded);
  return arrays_.back().offset;
}

void Unknowns::remove(std::size_t number) {
  memory_.remove(arrays_[number].values);
  lenders_.erase(arrays_[number].values);
  arrays_[number].values = nullptr;
  arrays_[number].name.clear();
  removed_any_ = true;
  ++gaps_;
  reset_scalars(number);
  join_gaps(number);
  cut_end();
}

/// Resets flags, bounds and manifolds of the scalars of arrays[number], for a new array or a gap.
void Unknowns::reset_scalars(std::size_t number) {
  const ParameterArray& array = arrays_[number];
  const std::size_t first = array.offset, count = scalars_of(array);
  const auto fill = [&](auto& of, auto value) {
    if (!of.empty()) std::fill_n(of.begin() + static_cast<std::ptrdiff_t>(first), count, value);
  };
  if (is_gap(array) && constants_.empty()) constants_.assign(scalars_, 0);
  const auto ones = [&] {
    if (constants_.empty()) return std::ptrdiff_t{0};
    const auto begin = constants_.begin() + static_cast<std::ptrdiff_t>(first);
    return std::count(begin, begin + static_cast<std::ptrdiff_t>(count), 1);
  };
  const std::ptrdiff_t before = ones();
  fill(constants_, static_cast<std::uint8_t>(is_gap(array) ? 1 : 0));
  constant_count_ =
      static_cast<std::size_t>(static_cast<std::ptrdiff_t>(constant_count_) + ones() - before);
  if (constant_count_ == 0) constants_.clear();
  fill(lower_, -kUnbounded);
  fill(upper_, kUnbounded);
  if (number < manifold_numbers_.size()) manifold_numbers_[number].clear();
  ++version_;
}

/// Moves the blocks of arrays[number] after the first `blocks` ones to a new array after it.
void Unknowns::split(std::size_t number, std::uint32_t blocks) {
  ParameterArray& whole = arrays_[number];
  const ParameterArray rest{whole.offset + blocks * whole.width, whole.blocks - blocks, whole.width,
                            nullptr, ""};
  whole.blocks = blocks;
  const auto after = static_cast<std::ptrdiff_t>(number) + 1;
  arrays_.insert(arrays_.begin() + after, rest);
  if (number < manifold_numbers_.size())
    manifold_numbers_.insert(manifold_numbers_.begin() + after, std::vector<std::uint32_t>());
}

void Unknowns::erase(std::size_t number) {
  const auto at = static_cast<std::ptrdiff_t>(number);
  arrays_.erase(arrays_.begin() + at);
  if (number < manifold_numbers_.size()) manifold_numbers_.erase(manifold_numbers_.begin() + at);
}

/// Joins neighbouring gaps of one width.
void Unknowns::join_gaps(std::size_t number) {
  const auto join = [&](std::size_t left) {
    if (left + 1 >= arrays_.size()) return;
    ParameterArray &a = arrays_[left], &b = arrays_[left + 1];
    if (!is_gap(a) || !is_gap(b) || a.width != b.width) return;
    a.blocks += b.blocks;
    erase(left + 1);
    --gaps_;
  };
  join(number);
  if (number > 0) join(number - 1);
}

/// Removes gaps at the end of x.
void Unknowns::cut_end() {
  while (!arrays_.empty() && is_gap(arrays_.back())) {
    const std::size_t count = scalars_of(arrays_.back());
    scalars_ -= static_cast<std::uint32_t>(count);
    if (!constants_.empty()) constants_.resize(scalars_);
    constant_count_ -= count;
    if (constant_count_ == 0) constants_.clear();
    if (!lower_.empty()) lower_.resize(scalars_);
    if (!upper_.empty()) upper_.resize(scalars_);
    erase(arrays_.size() - 1);
    --gaps_;
  }
}

void Unknowns::watch(std::uint32_t offset, const Lender& lender) {
  lenders_[arrays_[array_number(offset)].values] = lender;
}

void Unknowns::check_lenders() const {
  for (const auto& [values, lender] : lenders_) {
    const auto array = std::ranges::find(arrays_, values, &ParameterArray::values);
    const std::span<const double> now = lender.numbers(lender.container);
    if (now.data() == values && now.size() == scalars_of(*array)) continue;
    const std::string which = array->name.empty()
                                  ? "array " + std::to_string(array - arrays_.begin())
                                  : "\"" + array->name + "\"";
    throw Error(ErrorCode::InvalidArgument,
                "parameter " + which +
                    ": the container that add_parameters was given has changed since: it had " +
                    std::to_string(scalars_of(*array)) + " numbers and has " +
                    std::to_string(now.size()) +
                    (now.data() == values ? " at the same place" : " at another place") +
                    "; a Problem keeps the pointer: fill containers before add_parameters, or "
                    "remove the array, change the container and add it again");
  }
}

void Unknowns::mark_constant(std::size_t first, std::uint32_t width, std::uint32_t coordinates,
                             bool constant) {
  if (constants_.empty()) {
    if (!constant) return;
    constants_.assign(scalars_, 0);
  }
  const std::ptrdiff_t change =
      mark(std::span(constants_).subspan(first, width), coordinates, constant ? 1 : 0);
  constant_count_ = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(constant_count_) + change);
  if (constant_count_ == 0) constants_.clear();
  ++version_;
}

void Unknowns::set_lower(std::size_t scalar, double value) {
  set_bound(lower_, scalars_, scalar, value, -kUnbounded);
  ++version_;
}

void Unknowns::set_upper(std::size_t scalar, double value) {
  set_bound(upper_, scalars_, scalar, value, kUnbounded);
  ++version_;
}

void Unknowns::set_manifold(std::size_t array, std::size_t first, std::size_t count,
                            Manifold manifold) {
  manifold_numbers_.resize(arrays_.size());
  std::vector<std::uint32_t>& numbers = manifold_numbers_[array];
  numbers.resize(arrays_[array].blocks, 0);
  std::uint32_t number = 0;
  if (manifold.model()) {
    const auto at = std::ranges::find_if(
        manifolds_, [&](const Manifold& m) { return m.model() == manifold.model(); });
    number = static_cast<std::uint32_t>(at - manifolds_.begin()) + 1;
    if (at == manifolds_.end()) manifolds_.push_back(std::move(manifold));
  }
  std::fill_n(numbers.begin() + static_cast<std::ptrdiff_t>(first), count, number);
  ++version_;
}

const Manifold* Unknowns::manifold(std::size_t array, std::size_t block) const {
  if (array >= manifold_numbers_.size()) return nullptr;
  const std::vector<std::uint32_t>& numbers = manifold_numbers_[array];
  if (block >= numbers.size() || numbers[block] == 0) return nullptr;
  return &manifolds_[numbers[block] - 1];
}

const double* MemoryRanges::add(const double* values, std::size_t count) {
  const std::less<> before;  // also orders pointers into different arrays
  const double* end = values + count;
  const bool is_last = ends_.empty() || before(std::prev(ends_.end())->first, values);
  const auto after = is_last ? ends_.end() : ends_.upper_bound(values);
  if (after != ends_.end() && before(after->first, end)) return after->first;
  if (after != ends_.begin()) {
    const auto& [first, last] = *std::prev(after);
    if (before(values, last)) return first;
  }
  ends_.emplace_hint(after, values, end);
  return nullptr;
}

}  // namespace topograd::detail
