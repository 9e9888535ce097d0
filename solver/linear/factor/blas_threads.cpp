// OpenBLAS is looked up among the loaded libraries: no header is needed, another BLAS works too.
#include "blas_threads.hpp"

#include "../../../ir/machine/platform.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

namespace topograd {
namespace {

constexpr double kWorthThreads = 1e9;  // operations per factorisation
constexpr int kMostThreads = 8;        // more are slower on fronts of this size
constexpr int kFewCores = 4;           // all of them are used

struct OpenBlas {
  int (*get)() = reinterpret_cast<int (*)()>(platform::loaded_symbol("openblas_get_num_threads"));
  void (*set)(int) =
      reinterpret_cast<void (*)(int)>(platform::loaded_symbol("openblas_set_num_threads"));
  bool ok() const { return get != nullptr && set != nullptr; }
};

const OpenBlas& open_blas() {
  static const OpenBlas kLibrary;
  return kLibrary;
}

std::mutex limits_mutex;
int live_limits = 0;
int threads_before = 0;

}  // namespace

int blas_threads(double flops, int cores) {
  if (flops < kWorthThreads) return 1;
  return cores <= kFewCores ? cores : std::min(cores / 2, kMostThreads);
}

BlasThreadLimit::BlasThreadLimit(int threads) {
  if (!open_blas().ok()) return;
  const std::lock_guard lock(limits_mutex);
  const int now = open_blas().get();
  if (live_limits++ == 0) threads_before = now;
  if (threads < now) open_blas().set(std::max(threads, 1));
}

BlasThreadLimit::~BlasThreadLimit() {
  if (!open_blas().ok()) return;
  const std::lock_guard lock(limits_mutex);
  if (--live_limits == 0) open_blas().set(threads_before);
}

void require_blas_buffer() {
  constexpr std::uint64_t kBuffer = std::uint64_t{128} << 20;
  constexpr std::uint64_t kThreads = std::uint64_t{64} << 20;  // stacks, of CHOLMOD's threads too
  static std::atomic<bool> had{false};
  if (had || !open_blas().ok()) return;
  if (!platform::has_address_space(kBuffer + kThreads)) throw std::bad_alloc();
  had = true;
}

int openblas_threads() { return open_blas().ok() ? open_blas().get() : 0; }

}  // namespace topograd
