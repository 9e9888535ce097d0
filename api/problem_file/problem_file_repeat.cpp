// "repeat": a problem file that describes one of many problems.
#include "problem_file_description.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace topograd::problem_file {
namespace {

/// Numbers and instances that a file may have without lists of that length.
constexpr std::size_t kMostRepeated = std::size_t{1} << 24;

class Repeater {
 public:
  Repeater(const Document& document, Description& description)
      : document_(document), d_(description), copies_(description.repeat) {}

  void run() {
    if (!d_.constraints.empty())
      fail(document_, "/repeat", "expected a problem without constraints");
    for (BlockDescription& block : d_.residuals) repeat_block(block);
    std::size_t scalars = 0;
    for (const ArrayDescription& array : d_.parameters) scalars += array.values.size();
    require_few(scalars, "/parameters");
    for (ArrayDescription& array : d_.parameters) repeat_array(array);
  }

 private:
  void require_few(std::size_t of_one, const std::string& pointer) const {
    if (of_one <= kMostRepeated / copies_) return;
    fail(document_, "/repeat",
         "expected at most " + std::to_string(kMostRepeated / of_one) + " problems, as each has " +
             std::to_string(of_one) + " numbers and instances in " + pointer + ", got " +
             std::to_string(copies_));
  }

  const ArrayDescription* find(const std::vector<ArrayDescription>& arrays,
                               const Binding& binding) const {
    const auto found = std::ranges::find(arrays, binding.array, &ArrayDescription::name);
    return found == arrays.end() ? nullptr : &*found;
  }

  /// Entries of a binding; 0: one for any number of instances.
  static std::size_t entries(const Binding& binding, const ArrayDescription* array) {
    if (!binding.index.empty()) return binding.index.size();
    if (!binding.numbers.empty()) return binding.one_for_all ? 0 : binding.numbers.size();
    if (array == nullptr || binding.block || array->blocks() == 1) return 0;
    return array->blocks();
  }

  /// Instances of the block in one problem. Lists have one entry for each of them, or for each in
  /// all problems.
  std::size_t count_of(const BlockDescription& block, const std::vector<std::size_t>& lists) const {
    if (block.count) return *block.count;
    if (lists.empty()) return 1;
    const auto [least, most] = std::ranges::minmax(lists);
    if (least != most) return least;
    if (most % copies_ == 0) return most / copies_;
    fail(document_, block.pointer,
         "expected lists of a multiple of " + std::to_string(copies_) +
             " entries, as \"repeat\" says, got " + std::to_string(most));
  }

  void repeat_block(BlockDescription& block) {
    std::vector<std::size_t> lists, of_parameters;
    for (const Binding& b : block.parameters)
      if (const std::size_t n = entries(b, find(d_.parameters, b)); n > 0)
        of_parameters.push_back(n);
    const auto add = [&](const Binding& b) {
      if (const std::size_t n = entries(b, find(d_.data, b)); n > 0) lists.push_back(n);
    };
    for (const Binding& b : block.data) add(b);
    if (block.weight) add(*block.weight);
    // Unknowns are those of one problem.
    const std::size_t count = of_parameters.empty() ? count_of(block, lists) : of_parameters[0];
    const bool told_apart =
        std::ranges::any_of(lists, [&](std::size_t n) { return n == count * copies_; });
    if (!told_apart)
      require_few(count * (1 + block.parameters.size() + block.data.size()), block.pointer);
    for (Binding& b : block.parameters) repeat_unknowns(b, count);
    for (Binding& b : block.data) repeat_numbers(b, count);
    if (block.weight) repeat_numbers(*block.weight, count);
    block.count = static_cast<std::uint32_t>(count * copies_);
  }

  void repeat_unknowns(Binding& binding, std::size_t count) const {
    const ArrayDescription* const array = find(d_.parameters, binding);
    if (array == nullptr) return;  // named when the problem is built
    const std::size_t blocks = array->blocks(), n = entries(binding, array);
    if (n > 0 && n != count)
      fail(document_, binding.pointer,
           "expected " + std::to_string(count) + " entries of one problem, got " +
               std::to_string(n));
    std::vector<std::uint32_t> index;
    index.reserve(count * copies_);
    for (std::size_t c = 0; c < copies_; ++c) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t block = !binding.index.empty() ? binding.index[i]
                                  : n == 0               ? binding.block.value_or(0)
                                                         : i;
        if (block >= blocks)
          fail(document_, binding.pointer + "/index",
               "expected a block of " + array->name + " below " + std::to_string(blocks) +
                   ", got " + std::to_string(block));
        index.push_back(static_cast<std::uint32_t>(c * blocks + block));
      }
    }
    binding.index = std::move(index);
    binding.block.reset();
  }

  /// Lists of one problem are repeated; those of all stay.
  void repeat_numbers(Binding& binding, std::size_t count) const {
    const ArrayDescription* const array = find(d_.data, binding);
    const std::size_t n = entries(binding, array);
    if (n == 0 || n == count * copies_) return;
    if (n != count)
      fail(document_, binding.pointer,
           "expected " + std::to_string(count) + " entries of one problem, or " +
               std::to_string(count * copies_) + " of all, got " + std::to_string(n));
    if (!binding.numbers.empty()) {
      tile(binding.numbers);
      return;
    }
    if (binding.index.empty())
      for (std::size_t i = 0; i < count; ++i)
        binding.index.push_back(static_cast<std::uint32_t>(i));
    tile(binding.index);
  }

  template <class T>
  void tile(std::vector<T>& list) const {
    const std::size_t n = list.size();
    list.reserve(n * copies_);
    for (std::size_t k = n; k < n * copies_; ++k) list.push_back(list[k - n]);
  }

  void repeat_array(ArrayDescription& array) const {
    const auto blocks = static_cast<std::uint32_t>(array.blocks());
    const std::size_t fixed = array.constant.size();
    for (std::uint32_t c = 1; c < copies_; ++c)
      for (std::size_t k = 0; k < fixed; ++k)
        array.constant.push_back(array.constant[k] + c * blocks);
    tile(array.values);
    tile(array.lower);
    tile(array.upper);
  }

  const Document& document_;
  Description& d_;
  std::size_t copies_;
};

}  // namespace

void repeat(const Document& document, Description& description) {
  if (description.repeat > 1) Repeater(document, description).run();
}

}  // namespace topograd::problem_file
