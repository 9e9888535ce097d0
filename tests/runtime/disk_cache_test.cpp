// The blob cache: stored blobs, and every kind of damage on disk.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "../../ir/machine/platform.hpp"
#include "../../runtime/cache/content_hash.hpp"
#include "../../runtime/cache/disk_cache.hpp"

namespace topograd::test {
namespace {

namespace fs = std::filesystem;
using runtime::DiskCache;
using runtime::DiskCacheOptions;
using runtime::Hash128;
using Bytes = std::vector<std::byte>;

constexpr Hash128 kKey{0x0123456789abcdef, 0xfedcba9876543210};

class DiskCacheTest : public testing::Test {
 protected:
  DiskCacheTest() {
    std::string pattern = (fs::temp_directory_path() / "topograd_cache_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~DiskCacheTest() override {
    std::error_code ignored;
    fs::permissions(root_, fs::perms::owner_all, ignored);
    fs::remove_all(root_, ignored);
  }

  DiskCacheOptions options() const {
    return {.folder = root_ + "/cache", .generator = "v1", .identity = "device a"};
  }

  std::string root_;
};

Bytes blob(std::size_t size, unsigned seed = 1) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + seed);
  return bytes;
}

Bytes read(const std::string& path) { return platform::read_file(path, 1 << 30).value_or(Bytes{}); }

void write(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

TEST(ContentHash, MatchesPublishedValues) {
  // Published by the algorithm's author and by Guava's tests; printed as two 64-bit words.
  const struct {
    const char* text;
    const char* hash;
  } rows[] = {{"", "00000000000000000000000000000000"},
              {"hello", "cbd8a7b341bd9b025b1e906a48ae1d19"},
              {"abc", "b4963f3f3fad78673ba2744126ca2d52"},
              {"The quick brown fox jumps over the lazy dog", "e34bbc7bbc071b6c7a433ca9c49a9347"}};
  for (const auto& row : rows)
    EXPECT_EQ(runtime::hex(runtime::hash_text(row.text)), row.hash) << row.text;
  EXPECT_NE(runtime::hash_text("a", {0, 1}), runtime::hash_text("a", {0, 2}));
}

TEST_F(DiskCacheTest, KeepsBlobsBetweenProcesses) {
  for (const std::size_t size : {0u, 1u, 15u, 16u, 100000u}) {
    const Hash128 key{size, 7};
    DiskCache writer(options());
    EXPECT_FALSE(writer.load("spirv", key));
    EXPECT_TRUE(writer.store("spirv", key, blob(size)));
    DiskCache reader(options());
    EXPECT_EQ(reader.load("spirv", key), blob(size)) << size;
    EXPECT_FALSE(reader.load("other", key)) << size;
    EXPECT_EQ(reader.counters().hits, 1u);
    EXPECT_EQ(reader.counters().misses, 1u);
    EXPECT_EQ(reader.counters().rejected, 0u);
    EXPECT_TRUE(writer.store("spirv", key, blob(size + 1, 9)));
    EXPECT_EQ(reader.load("spirv", key), blob(size + 1, 9)) << size;
  }
  struct stat status {};
  ASSERT_EQ(::stat(options().folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(DiskCacheTest, ListsWholeBlobsWhoeverWroteThem) {
  DiskCacheOptions others = options();
  others.identity = "device b";
  others.generator = "v2";
  DiskCache mine(options()), theirs(others);
  mine.store("spirv", {1, 1}, blob(5));
  theirs.store("spirv", {2, 2}, blob(6));
  theirs.store("spirv", {3, 3}, blob(7));
  theirs.store("other", {4, 4}, blob(8));
  Bytes damaged = read(theirs.path("spirv", {3, 3}));
  damaged.back() ^= std::byte{1};
  write(theirs.path("spirv", {3, 3}), damaged);
  write(theirs.path("spirv", {5, 5}), blob(9));
  std::vector<Bytes> found = mine.all("spirv");
  std::ranges::sort(found, {}, &Bytes::size);
  EXPECT_EQ(found, (std::vector<Bytes>{blob(5), blob(6)}));
  EXPECT_EQ(mine.count("spirv"), 4u);
}

TEST_F(DiskCacheTest, EveryTruncationIsAMiss) {
  DiskCache cache(options());
  cache.store("spirv", kKey, blob(40));
  const std::string path = cache.path("spirv", kKey);
  const Bytes whole = read(path);
  ASSERT_GT(whole.size(), 40u);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write(path, Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    EXPECT_FALSE(cache.load("spirv", kKey)) << size;
  }
  EXPECT_EQ(cache.counters().rejected, whole.size());
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  write(path, longer);
  EXPECT_FALSE(cache.load("spirv", kKey));
  write(path, whole);
  EXPECT_EQ(cache.load("spirv", kKey), blob(40));
}

TEST_F(DiskCacheTest, EveryFlippedBitIsAMiss) {
  DiskCache cache(options());
  cache.store("spirv", kKey, blob(40));
  const std::string path = cache.path("spirv", kKey);
  const Bytes whole = read(path);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Bytes damaged = whole;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    write(path, damaged);
    EXPECT_FALSE(cache.load("spirv", kKey)) << bit;
  }
  EXPECT_EQ(cache.counters().rejected, whole.size() * 8);
}

TEST_F(DiskCacheTest, OthersBlobsAreMisses) {
  DiskCache(options()).store("spirv", kKey, blob(40));
  DiskCacheOptions newer = options();
  newer.generator = "v2";
  DiskCacheOptions elsewhere = options();
  elsewhere.identity = "device b";
  for (const DiskCacheOptions& other : {newer, elsewhere}) {
    DiskCache cache(other);
    EXPECT_FALSE(cache.load("spirv", kKey));
    EXPECT_EQ(cache.counters().rejected, 1u);
  }
  // A blob under another's name is a miss.
  DiskCache cache(options());
  fs::copy_file(cache.path("spirv", kKey), cache.path("spirv", {1, 2}));
  EXPECT_FALSE(cache.load("spirv", {1, 2}));
  EXPECT_EQ(cache.load("spirv", kKey), blob(40));
}

TEST_F(DiskCacheTest, UnsafeFoldersAreNotUsed) {
  const std::string open_folder = root_ + "/open";
  fs::create_directory(open_folder);
  ASSERT_EQ(::chmod(open_folder.c_str(), 0777), 0);
  const std::string file = root_ + "/file";
  write(file, blob(3));
  const struct {
    std::string folder;
    std::string reason;
  } rows[] = {{open_folder, "is writable by everybody"},
              {file, "is not a folder"},
              {file + "/below", "cannot make folder"},
              {"/proc/nothing", "cannot make folder"}};
  for (const auto& row : rows) {
    DiskCache cache({.folder = row.folder});
    EXPECT_NE(cache.disabled().find(row.reason), std::string::npos)
        << row.folder << ": " << cache.disabled();
    EXPECT_FALSE(cache.store("spirv", kKey, blob(4)));
    EXPECT_FALSE(cache.load("spirv", kKey));
    EXPECT_EQ(cache.counters().write_failures, 1u);
    EXPECT_EQ(cache.counters().misses, 1u);
  }
  EXPECT_TRUE(fs::is_empty(open_folder));
}

TEST_F(DiskCacheTest, ForeignAndReadOnlyFoldersAreNotUsed) {
  DiskCache cache(options());
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(options().folder.c_str(), 12345, 12345), 0);
    EXPECT_NE(DiskCache(options()).disabled().find("belongs to another user"), std::string::npos);
  } else {
    ASSERT_EQ(::chmod(options().folder.c_str(), 0500), 0);
    EXPECT_NE(DiskCache(options()).disabled().find("is not writable"), std::string::npos);
  }
  // Removed while in use: only a counter changes.
  fs::remove_all(options().folder);
  EXPECT_FALSE(cache.store("spirv", kKey, blob(4)));
  EXPECT_EQ(cache.counters().write_failures, 1u);
  EXPECT_FALSE(cache.load("spirv", kKey));
}

TEST_F(DiskCacheTest, LinksAreNotFollowed) {
  DiskCache cache(options());
  cache.store("spirv", kKey, blob(40));
  fs::rename(cache.path("spirv", kKey), root_ + "/moved");
  fs::create_symlink(root_ + "/moved", cache.path("spirv", kKey));
  EXPECT_FALSE(cache.load("spirv", kKey));
  EXPECT_TRUE(cache.store("spirv", kKey, blob(41)));
  EXPECT_EQ(cache.load("spirv", kKey), blob(41));
}

TEST_F(DiskCacheTest, PipesAndDevicesAreMisses) {
  // Opening a pipe for reading waits for a writer; a device may have no end.
  DiskCache cache(options());
  const std::string path = cache.path("spirv", kKey);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(cache.load("spirv", kKey));
  EXPECT_TRUE(cache.all("spirv").empty());
  EXPECT_TRUE(cache.store("spirv", kKey, blob(41)));
  EXPECT_EQ(cache.load("spirv", kKey), blob(41));
  EXPECT_FALSE(platform::read_file("/dev/zero", 1000));
}

TEST_F(DiskCacheTest, TheLeastRecentlyUsedGoFirst) {
  DiskCacheOptions small = options();
  small.max_bytes = 10000;
  DiskCache cache(small);
  const auto age = [&](std::uint64_t key, int minutes) {
    fs::last_write_time(cache.path("spirv", {0, key}),
                        fs::file_time_type::clock::now() - std::chrono::minutes(minutes));
  };
  for (std::uint64_t key = 0; key < 9; ++key) {
    EXPECT_TRUE(cache.store("spirv", {0, key}, blob(1000)));
    age(key, 100 - static_cast<int>(key));
  }
  EXPECT_TRUE(cache.load("spirv", {0, 0}));  // used now, so not the oldest any more
  write(options().folder + "/left.1.2.tmp", blob(10));
  fs::last_write_time(options().folder + "/left.1.2.tmp",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_TRUE(cache.store("spirv", {0, 9}, blob(1000)));
  EXPECT_EQ(cache.counters().evictions, 4u);
  EXPECT_FALSE(fs::exists(options().folder + "/left.1.2.tmp"));
  for (std::uint64_t key = 0; key < 10; ++key) {
    EXPECT_EQ(cache.load("spirv", {0, key}).has_value(), key == 0 || key > 4) << key;
  }
  EXPECT_FALSE(cache.store("spirv", {1, 1}, blob(20000)));
}

// A cache may have thousands of files, and most processes only read some of them.
TEST_F(DiskCacheTest, OpeningDoesNotListTheFolder) {
  EXPECT_TRUE(DiskCache(options()).store("spirv", kKey, blob(100)));
  const std::string stale = options().folder + "/left.1.2.tmp";
  write(stale, blob(10));
  fs::last_write_time(stale, fs::file_time_type::clock::now() - std::chrono::hours(2));
  DiskCache cache(options());
  EXPECT_TRUE(cache.load("spirv", kKey));
  EXPECT_TRUE(fs::exists(stale));
  EXPECT_TRUE(cache.store("spirv", {0, 1}, blob(100)));
  EXPECT_FALSE(fs::exists(stale));
}

TEST_F(DiskCacheTest, WritersDoNotTearBlobs) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      DiskCache cache(options());
      for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(cache.store("spirv", kKey, blob(5000, t)));
        const auto got = cache.load("spirv", kKey);
        ASSERT_TRUE(got);
        ASSERT_EQ(got->size(), 5000u);
      }
      EXPECT_EQ(cache.counters().rejected, 0u);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(options().folder)) ++files;
  EXPECT_EQ(files, 1u);
}

TEST_F(DiskCacheTest, TheFolderComesFromTheEnvironment) {
  using platform::environment;
  using platform::set_environment;
  const std::string before = environment("TOPOGRAD_CACHE_DIR").value_or("");
  set_environment("TOPOGRAD_CACHE_DIR", root_ + "/named");
  EXPECT_EQ(DiskCache({}).folder(), root_ + "/named");
  set_environment("TOPOGRAD_CACHE_DIR", "");
  const std::string xdg = environment("XDG_CACHE_HOME").value_or("");
  set_environment("XDG_CACHE_HOME", root_ + "/xdg");
  EXPECT_EQ(DiskCache({}).folder(), root_ + "/xdg/topograd");
  EXPECT_TRUE(fs::is_directory(root_ + "/xdg/topograd"));
  set_environment("XDG_CACHE_HOME", "");
  const std::string home = environment("HOME").value_or("");
  set_environment("HOME", root_ + "/home");
  EXPECT_EQ(DiskCache({}).folder(), root_ + "/home/.cache/topograd");
  set_environment("HOME", home);
  set_environment("XDG_CACHE_HOME", xdg);
  set_environment("TOPOGRAD_CACHE_DIR", before);
}

}  // namespace
}  // namespace topograd::test
