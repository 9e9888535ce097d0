// Internal: a store of generated kernels for the whole process.
#pragma once

#include "../backend/kernel_text.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace topograd::ops::detail {

/// The kernel for a key that has all parameters of its source. Thread-safe.
const KernelText& stored_kernel(const std::string& key, const std::function<KernelText()>& make);

/// A number as two words of push constants, NAME_low and NAME_high; an f32 uses only the first.
std::array<std::uint32_t, 2> number_words(double number, bool wide);
/// Source that reads the number in a shader.
std::string number_text(std::string_view name, bool wide);

}  // namespace topograd::ops::detail
