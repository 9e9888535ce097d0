// Header checks, atomic replacement and eviction of the blob cache.
#include "disk_cache.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "../../ir/machine/platform.hpp"

namespace topograd::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "TGCACHE\n";
constexpr std::uint64_t kFormat = 1;
constexpr std::string_view kSuffix = ".tgcache";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr auto kStaleTemporary = std::chrono::hours(1);
// Largest blob that is read: bounds the allocation if the stored size is damaged.
constexpr std::uint64_t kMaxBlobBytes = std::uint64_t{1} << 30;

void append(std::vector<std::byte>& out, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void append(std::vector<std::byte>& out, Hash128 hash) {
  append(out, hash.high);
  append(out, hash.low);
}

// The header of a blob: a reader compares every field before it uses the blob.
std::vector<std::byte> header(const DiskCacheOptions& options, std::string_view kind, Hash128 key,
                              std::span<const std::byte> blob) {
  std::vector<std::byte> out;
  std::ranges::transform(kMagic, std::back_inserter(out),
                         [](char c) { return static_cast<std::byte>(c); });
  append(out, kFormat);
  append(out, sizeof(void*));
  append(out, hash_text(options.generator));
  append(out, hash_text(options.identity));
  append(out, hash_text(kind, key));
  append(out, blob.size());
  append(out, hash_bytes(blob));
  return out;
}

// Magic, three 64-bit fields and four hashes, as header() writes them.
constexpr std::size_t kHeaderBytes = kMagic.size() + 3 * 8 + 4 * 16;
constexpr std::size_t kOfBlobBytes = 8 + 16;  // the last two fields: size and hash of the blob

struct Entry {
  fs::path path;
  fs::file_time_type used;
  std::uint64_t size = 0;
};

// The cache's files, least recently used first. Removes temporary files that were never renamed.
std::vector<Entry> entries(const std::string& folder) {
  std::vector<Entry> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const fs::file_time_type used = fs::last_write_time(it->path(), ignored);
    if (ignored) continue;
    const std::string extension = it->path().extension().string();
    if (extension == kTemporarySuffix && fs::file_time_type::clock::now() - used > kStaleTemporary)
      fs::remove(it->path(), ignored);
    if (extension != kSuffix) continue;
    const std::uint64_t size = fs::file_size(it->path(), ignored);
    if (!ignored) found.push_back({it->path(), used, size});
  }
  std::ranges::sort(found, {}, &Entry::used);
  return found;
}

std::uint64_t total(const std::vector<Entry>& list) {
  std::uint64_t bytes = 0;
  for (const Entry& entry : list) bytes += entry.size;
  return bytes;
}

std::string default_folder() {
  if (auto path = platform::environment("TOPOGRAD_CACHE_DIR")) return *path;
  if (auto path = platform::cache_home()) return *path + "/topograd";
  return {};
}

}  // namespace

DiskCache::DiskCache(DiskCacheOptions options) : options_(std::move(options)) {
  if (options_.folder.empty()) options_.folder = default_folder();
  disabled_ = options_.folder.empty()
                  ? "no cache folder: set TOPOGRAD_CACHE_DIR, XDG_CACHE_HOME or HOME"
                  : platform::private_folder(options_.folder);
}

std::string DiskCache::path(std::string_view kind, Hash128 key) const {
  return options_.folder + "/" + std::string(kind) + "-" + hex(key) + std::string(kSuffix);
}

std::optional<std::vector<std::byte>> DiskCache::load(std::string_view kind, Hash128 key) {
  const std::lock_guard lock(mutex_);
  const std::string file = path(kind, key);
  auto bytes = disabled_.empty() ? platform::read_file(file, kMaxBlobBytes) : std::nullopt;
  if (!bytes) {
    ++counters_.misses;
    return std::nullopt;
  }
  const auto blob = std::span(*bytes).subspan(std::min(bytes->size(), kHeaderBytes));
  const auto expected = header(options_, kind, key, blob);
  if (bytes->size() < kHeaderBytes ||
      !std::equal(expected.begin(), expected.end(), bytes->begin())) {
    ++counters_.misses;
    ++counters_.rejected;
    return std::nullopt;
  }
  ++counters_.hits;
  std::error_code ignored;
  fs::last_write_time(file, fs::file_time_type::clock::now(), ignored);
  bytes->erase(bytes->begin(), bytes->begin() + static_cast<std::ptrdiff_t>(kHeaderBytes));
  return bytes;
}

bool DiskCache::store(std::string_view kind, Hash128 key, std::span<const std::byte> blob) {
  const std::lock_guard lock(mutex_);
  std::vector<std::byte> bytes = header(options_, kind, key, blob);
  bytes.insert(bytes.end(), blob.begin(), blob.end());
  if (!disabled_.empty() || bytes.size() > std::min(kMaxBlobBytes, options_.max_bytes) ||
      !platform::replace_file(path(kind, key), bytes)) {
    ++counters_.write_failures;
    return false;
  }
  ++counters_.writes;
  bytes_ = bytes_ ? *bytes_ + bytes.size() : total(entries(options_.folder));
  if (*bytes_ > options_.max_bytes) evict();
  return true;
}

// Shrinks to three quarters of the bound, so that a full cache is not listed at every write.
void DiskCache::evict() {
  const std::vector<Entry> list = entries(options_.folder);
  std::uint64_t bytes = total(list);
  bytes_ = bytes;
  if (bytes <= options_.max_bytes) return;
  for (const Entry& entry : list) {
    if (bytes <= options_.max_bytes / 4 * 3) break;
    std::error_code error;
    if (fs::remove(entry.path, error)) ++counters_.evictions;
    if (!error) bytes -= std::min(bytes, entry.size);
  }
  bytes_ = bytes;
}

std::vector<std::string> DiskCache::files(std::string_view kind) const {
  std::vector<std::string> found;
  const std::string prefix = std::string(kind) + "-";
  for (const Entry& entry : disabled_.empty() ? entries(options_.folder) : std::vector<Entry>()) {
    if (entry.path.filename().string().starts_with(prefix)) found.push_back(entry.path.string());
  }
  return found;
}

std::size_t DiskCache::count(std::string_view kind) const { return files(kind).size(); }

std::vector<std::vector<std::byte>> DiskCache::all(std::string_view kind) const {
  std::vector<std::vector<std::byte>> found;
  for (const std::string& file : files(kind)) {
    auto bytes = platform::read_file(file, kMaxBlobBytes);
    if (!bytes || bytes->size() < kHeaderBytes) continue;
    const auto blob = std::span(*bytes).subspan(kHeaderBytes);
    const auto expected = header({}, kind, {}, blob);
    const auto written = std::span(*bytes).subspan(kHeaderBytes - kOfBlobBytes, kOfBlobBytes);
    if (std::ranges::equal(written, std::span(expected).last(kOfBlobBytes)))
      found.emplace_back(blob.begin(), blob.end());
  }
  return found;
}

DiskCacheCounters DiskCache::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace topograd::runtime
