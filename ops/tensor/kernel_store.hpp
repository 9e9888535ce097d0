// Internal: kernels that were written once and are kept for the process.
#pragma once

#include "../backend/kernel_text.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace topograd::ops::detail {

/// The kernel under that key, which says everything that its text depends on. Any thread may call.
const KernelText& stored_kernel(const std::string& key, const std::function<KernelText()>& make);

/// A number as two words of push constants, NAME_low and NAME_high: of an f32 all is in the first.
std::array<std::uint32_t, 2> number_words(double number, bool wide);
/// What a shader reads it by.
std::string number_text(std::string_view name, bool wide);

}  // namespace topograd::ops::detail
