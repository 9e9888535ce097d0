// Internal: guard zones around allocations, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace topograd::ops {

inline constexpr std::uint32_t kGuardWord = 0xfeedc0deu;

/// `check` returns the errors in one allocation's zones and releases the allocation.
void keep_guarded(std::function<std::string()> check);

/// A line for a zone that contains anything else than the word; empty otherwise.
std::string describe_zone(const std::string& what, std::span<const std::byte> zone);

}  // namespace topograd::ops
