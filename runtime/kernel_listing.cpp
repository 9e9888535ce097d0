// List of the kernels that the process has requested.
#include "kernel_listing.hpp"

#include "../ir/error.hpp"
#include "../ir/machine/platform.hpp"
#include "cache/content_hash.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

namespace topograd::runtime {
namespace {

class Listing {
 public:
  Listing() : folder_(platform::environment("TOPOGRAD_KERNELS").value_or("")) {
    active_ = !folder_.empty();
  }

  bool active() const { return active_.load(std::memory_order_relaxed); }

  void begin() {
    const std::lock_guard lock(mutex_);
    if (listing_)
      throw Error(ErrorCode::InvalidArgument, "ListKernels: expected one at a time, got a second");
    listing_ = active_ = true;
    listed_.clear();
    kernels_.clear();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    listing_ = false;
    active_ = !folder_.empty();
  }
  std::vector<ListedKernel> kernels() {
    const std::lock_guard lock(mutex_);
    return kernels_;
  }

  void note(std::string_view name, std::string_view glsl) {
    const Hash128 hash = hash_text(glsl);
    const std::lock_guard lock(mutex_);
    if (listing_ && listed_.insert(hash).second)
      kernels_.push_back({std::string(name), std::string(glsl)});
    if (!folder_.empty() && written_.insert(hash).second) write(name, glsl);
  }

 private:
  /// Errors are ignored: a folder that cannot be written must not stop a solve.
  void write(std::string_view name, std::string_view glsl) {
    std::error_code failed;
    std::filesystem::create_directories(folder_, failed);
    std::ofstream(std::filesystem::path(folder_) / (names_.next(name) + ".glsl"), std::ios::binary)
        << glsl;
  }

  const std::string folder_;
  std::atomic<bool> active_{false};
  std::mutex mutex_;  // guards the members below
  bool listing_ = false;
  std::set<Hash128> listed_, written_;
  std::vector<ListedKernel> kernels_;
  FileNames names_;
};

// Never destroyed: kernels may still be made while static objects are destroyed at exit.
Listing& listing() {
  static Listing& instance = *new Listing;
  return instance;
}

}  // namespace

ListKernels::ListKernels() { listing().begin(); }
ListKernels::~ListKernels() { listing().end(); }
std::vector<ListedKernel> ListKernels::kernels() const { return listing().kernels(); }

void note_kernel(std::string_view name, std::string_view glsl) {
  if (listing().active()) listing().note(name, glsl);
}

std::string FileNames::next(std::string_view name) {
  std::string out(name.empty() ? "kernel" : name);
  std::ranges::replace_if(
      out, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '-'; }, '_');
  const int number = ++count_[out];
  return number == 1 ? out : out + "-" + std::to_string(number);
}

}  // namespace topograd::runtime
