// Internal: bytes around allocations that nobody may write, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace topograd::ops {

inline constexpr std::uint32_t kGuardWord = 0xfeedc0deu;

/// `check` gives what is wrong with one allocation's zones and lets go of it.
void keep_guarded(std::function<std::string()> check);

/// A line for a zone that holds anything else than the word, else nothing.
std::string describe_zone(const std::string& what, std::span<const std::byte> zone);

}  // namespace topograd::ops
