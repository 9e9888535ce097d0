// Files of the blob cache: only valid blobs are hits.
#include "target.hpp"

#include "../support/paths.hpp"

#include "../../runtime/cache/disk_cache.hpp"

#include <algorithm>
#include <fstream>
#include <span>
#include <string>

namespace topograd::fuzz {
namespace {

constexpr runtime::Hash128 kKey = {.high = 1, .low = 2};

class Cache {
 public:
  Cache() : cache_({.folder = folder_.path(), .generator = "fuzz", .identity = "any"}) {}

  std::string path() const { return cache_.path("blob", kKey); }
  void write(std::string_view bytes) const {
    std::ofstream(path(), std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  auto load() { return cache_.load("blob", kKey); }
  void store(std::span<const std::byte> blob) {
    require(cache_.store("blob", kKey, blob), "a blob that cannot be stored");
  }

 private:
  test::TemporaryDir folder_;
  runtime::DiskCache cache_;
};

}  // namespace

void disk_cache(std::string_view input) {
  static Cache cache;
  cache.write(input);
  if (const auto blob = cache.load()) {
    cache.store(*blob);
    require(test::read_file(cache.path()) == input, "a hit that the cache does not write");
  }
  const auto bytes = std::as_bytes(std::span(input));
  cache.store(bytes);
  const auto blob = cache.load();
  require(blob && std::ranges::equal(*blob, bytes), "a blob that does not come back");
}

}  // namespace topograd::fuzz
