// Guard zones of tests' allocations, and their check.
#include "guard_zones.hpp"

#include "storage.hpp"

#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

namespace topograd::ops {
namespace {

std::atomic<std::uint64_t> zone_bytes{0};

struct Kept {
  std::mutex mutex;
  std::vector<std::function<std::string()>> checks;
};
Kept& kept() {
  static Kept& instance = *new Kept;
  return instance;
}

}  // namespace

void set_guard_zones(std::uint64_t bytes) { zone_bytes = (bytes + 255) / 256 * 256; }
std::uint64_t guard_zone_bytes() { return zone_bytes; }

void keep_guarded(std::function<std::string()> check) {
  const std::lock_guard lock(kept().mutex);
  kept().checks.push_back(std::move(check));
}

std::string describe_zone(const std::string& what, std::span<const std::byte> zone) {
  for (std::size_t k = 0; k + 4 <= zone.size(); k += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, zone.data() + k, 4);
    if (word != kGuardWord) return what + ": byte " + std::to_string(k) + " was written";
  }
  return {};
}

std::vector<std::string> check_guard_zones() {
  std::vector<std::function<std::string()>> checks;
  {
    const std::lock_guard lock(kept().mutex);
    checks = std::exchange(kept().checks, {});
  }
  std::vector<std::string> found;
  for (const auto& check : checks) {
    if (std::string line = check(); !line.empty()) found.push_back(std::move(line));
  }
  return found;
}

}  // namespace topograd::ops
