// Damages files and checks the next start.
#include "corruption.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../ir/machine/stopwatch.hpp"
#include "../../../runtime/cache/disk_cache.hpp"
#include "../../../runtime/hybrid/stored_knowledge.hpp"
#include "../../../solver/interrupts.hpp"
#include "known_answers.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

namespace topograd::check {
namespace {

namespace fs = std::filesystem;
namespace hybrid = runtime::hybrid;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kHeaderBytes = 96;  // and a little: bytes that are tested one by one
constexpr std::size_t kPositions = 64;    // positions in the rest

/// One kind of file, with functions that write it and start with it.
struct Subject {
  std::string name;
  std::string path;
  std::function<void()> write;
  /// The contents read, or nothing; increments the count if the file existed but was unusable.
  std::function<std::optional<Bytes>(std::uint64_t& rejected)> read;
};

constexpr runtime::Hash128 kKey{0x1234, 0x5678};

Bytes blob(unsigned seed, std::size_t size = 4096) {
  Bytes bytes(size);
  for (std::size_t k = 0; k < size; ++k) bytes[k] = static_cast<std::byte>(k * 31 + seed);
  return bytes;
}

runtime::DiskCacheOptions cache_options(const std::string& folder) {
  return {.folder = folder, .generator = "check 1", .identity = "device a"};
}

hybrid::Knowledge knowledge(double us) {
  hybrid::Knowledge out;
  for (std::uint64_t k = 0; k < 8; ++k)
    out.kernels.push_back({{1, k}, "check", {{"cpu", {{10, 1024, us, 0.1, 9}}}}});
  return out;
}

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Subject cache_subject(const std::string& folder) {
  const auto options = cache_options(folder);
  return {.name = "cache",
          .path = runtime::DiskCache(options).path("check", kKey),
          .write = [options] { runtime::DiskCache(options).store("check", kKey, blob(1)); },
          .read =
              [options](std::uint64_t& rejected) {
                runtime::DiskCache cache(options);
                auto read = cache.load("check", kKey);
                rejected += cache.counters().rejected;
                return read;
              }};
}

Subject model_subject(const std::string& folder) {
  return {.name = "model",
          .path = hybrid::KnowledgeFile(folder).path(),
          .write = [folder] { hybrid::KnowledgeFile(folder).store(knowledge(5)); },
          .read = [folder](std::uint64_t& rejected) -> std::optional<Bytes> {
            hybrid::KnowledgeFile file(folder);
            const auto read = file.load();
            rejected += file.rejected();
            if (!read) return std::nullopt;
            return bytes_of(to_json(*read));
          }};
}

class CorruptionCheck {
 public:
  explicit CorruptionCheck(const CorruptionOptions& options)
      : options_(options),
        cache_(options.backend != Backend::cpu),
        model_(options.backend != Backend::vulkan) {
    if (!(options.seconds >= 0) || !std::isfinite(options.seconds))
      throw Error(ErrorCode::InvalidArgument,
                  "check corruption: seconds must be >= 0, got " + std::to_string(options.seconds));
  }

  CorruptionReport run() {
    const auto begin = std::chrono::steady_clock::now();
    do {
      round();
      ++report_.rounds;
    } while (seconds_since(begin) < options_.seconds && !Interrupts::came());
    return std::move(report_);
  }

 private:
  void round() {
    const Folder folder("corruption");
    const std::string cache = (folder.path() / "c").string();
    if (model_) damage(model_subject((folder.path() / "m").string()));
    if (cache_) {
      damage(cache_subject(cache));
      other_owners(cache);
      two_writers((folder.path() / "two").string());
    }
    useless_folders(folder.path());
    if (model_) full_disk(model_subject((folder.path() / "full-m").string()));
    if (cache_) full_disk(cache_subject((folder.path() / "full-c").string()));
  }

  void fail(std::uint64_t& count, const std::string& what) {
    ++count;
    if (report_.failures.size() < 20) report_.failures.push_back(what);
  }

  /// Checks a start that must find nothing and count that.
  void expect_cold(const std::string& what, bool counted,
                   const std::function<std::optional<Bytes>(std::uint64_t&)>& read) {
    ++report_.injections;
    try {
      std::uint64_t rejected = 0;
      if (read(rejected)) return fail(report_.wrong, what + ": taken");
      if (counted && rejected == 0) return fail(report_.uncounted, what + ": not counted");
      ++report_.cold_starts;
    } catch (const std::exception& error) {
      fail(report_.errors, what + ": " + error.what());
    }
  }

  void damage(const Subject& subject) {
    subject.write();
    const auto whole = platform::read_file(subject.path, 1 << 24);
    std::uint64_t none = 0;
    if (!whole || !subject.read(none)) return fail(report_.errors, subject.name + ": not written");
    const std::size_t step = (whole->size() - kHeaderBytes) / kPositions + 1;
    const auto bit = static_cast<std::byte>(1u << report_.rounds % 8);
    const std::size_t later = report_.rounds % step;  // where positions behind the header begin
    for (std::size_t at = 0; at < whole->size(); at += at + 1 == kHeaderBytes ? 1 + later
                                                       : at < kHeaderBytes    ? 1
                                                                              : step) {
      Bytes flipped = *whole;
      flipped[at] ^= bit;
      put(subject, flipped, "byte " + std::to_string(at) + " flipped");
      put(subject, Bytes(whole->begin(), whole->begin() + static_cast<std::ptrdiff_t>(at)),
          "cut off at " + std::to_string(at));
    }
    Bytes longer = *whole;
    longer.push_back(std::byte{0});
    put(subject, longer, "a byte longer");
    put(subject, bytes_of("{}"), "something else");
    platform::replace_file(subject.path, *whole);
    if (!subject.read(none)) fail(report_.errors, subject.name + ": not read when whole again");
  }

  void put(const Subject& subject, const Bytes& bytes, const std::string& what) {
    platform::replace_file(subject.path, bytes);
    expect_cold(subject.name + ", " + what, true, subject.read);
  }

  /// Complete files of another version, device or kind.
  void other_owners(const std::string& folder) {
    const auto read = [&](const runtime::DiskCacheOptions& options) {
      return [options](std::uint64_t& rejected) {
        runtime::DiskCache cache(options);
        auto found = cache.load("check", kKey);
        rejected += cache.counters().rejected;
        return found;
      };
    };
    auto options = cache_options(folder);
    options.generator = "check 2";
    expect_cold("cache, other version", true, read(options));
    options = cache_options(folder);
    options.identity = "device b";
    expect_cold("cache, other device", true, read(options));
    const auto renamed = cache_options(folder);
    runtime::DiskCache cache(renamed);
    std::error_code ignored;
    fs::copy_file(cache.path("check", kKey), cache.path("other", kKey), ignored);
    expect_cold("cache, other kind", true, [&](std::uint64_t& rejected) {
      auto found = cache.load("other", kKey);
      rejected += cache.counters().rejected;
      return found;
    });
  }

  void useless_folders(const fs::path& root) {
    const fs::path file = root / "file", open = root / "open";
    platform::replace_file(file.string(), blob(1));
    std::error_code ignored;
    fs::create_directory(open, ignored);
    fs::permissions(open, fs::perms::all, ignored);
    for (const fs::path& folder : {file, open, file / "below"}) {
      const std::string what = folder.filename().string();
      if (cache_) {
        expect_cold("cache in " + what, false, [&](std::uint64_t&) -> std::optional<Bytes> {
          runtime::DiskCache cache(cache_options(folder.string()));
          if (cache.store("check", kKey, blob(1))) return Bytes{};
          return cache.load("check", kKey);
        });
      }
      if (!model_) continue;
      expect_cold("model in " + what, false, [&](std::uint64_t&) -> std::optional<Bytes> {
        hybrid::KnowledgeFile model(folder.string());
        if (model.store(knowledge(5)) || model.load()) return Bytes{};
        return std::nullopt;
      });
    }
  }

  /// The first file of a folder is not created; an existing file stays unchanged.
  void full_disk(const Subject& subject) {
    for (const std::uint64_t room : {0, 1, 16, 90, 200}) {
      const std::string what = subject.name + ", full after " + std::to_string(room) + " bytes";
      std::string found = write_within(subject, room);
      ++report_.injections;
      if (found == "cold")
        ++report_.cold_starts;
      else
        fail(report_.wrong, what + ": " + found);

      subject.write();
      found = write_within(subject, room);
      ++report_.writes_on_full_disk;
      if (found != "whole") fail(report_.wrong, what + ", over another: " + found);
      std::error_code ignored;
      fs::remove_all(fs::path(subject.path).parent_path(), ignored);
    }
  }

  /// The contents that a start finds after a process was limited to `room` bytes per file.
  static std::string write_within(const Subject& subject, std::uint64_t room) {
    std::string found = "the process said nothing";
    const auto work = [&](const std::function<void(const std::string&)>& say) {
      if (!platform::limit_file_size(room)) return say("the system sets no such limit");
      subject.write();
      std::uint64_t rejected = 0;
      const bool there = subject.read(rejected).has_value();
      say(rejected > 0 ? "a part of it" : there ? "whole" : "cold");
    };
    const auto hear = [&](const std::string& line) { found = line; };
    const platform::ChildEnd end = platform::run_child(work, hear, 60);
    if (!end.well()) return "the process failed";
    const fs::path folder = fs::path(subject.path).parent_path();
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, ignored))
      if (entry.is_regular_file() && entry.path() != subject.path)
        return "left " + entry.path().filename().string();
    return found;
  }

  /// Two writers with their own blobs, through objects that share only the folder.
  void two_writers(const std::string& folder) {
    constexpr int kWrites = 200;
    const auto writer = [&](unsigned seed) {
      runtime::DiskCache cache(cache_options(folder));
      for (int k = 0; k < kWrites; ++k) cache.store("check", kKey, blob(seed, 4096 * seed));
    };
    runtime::DiskCache(cache_options(folder)).store("check", kKey, blob(1));
    std::thread one(writer, 1), two(writer, 2);
    runtime::DiskCache reader(cache_options(folder));
    for (int k = 0; k < kWrites; ++k) {
      const auto read = reader.load("check", kKey);
      ++report_.reads_beside_writers;
      if (!read || (*read != blob(1) && *read != blob(2, 8192)))
        fail(report_.wrong, "cache, beside two writers");
    }
    one.join();
    two.join();
  }

  const CorruptionOptions options_;
  const bool cache_, model_;
  CorruptionReport report_;
};

}  // namespace

CorruptionReport check_corruption(const CorruptionOptions& options) {
  return CorruptionCheck(options).run();
}

}  // namespace topograd::check
