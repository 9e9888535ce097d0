// Work of a part's device between two exchanges with the other parts.
#pragma once

#include <exception>
#include <utility>

namespace topograd::runtime::vulkan {

/// Keeps an exception until the end of a collective call. The other parts wait in exchanges, so a
/// part whose device fails goes on to take part in them: it skips the work that is left, and its
/// numbers are NaN (ChunkSums).
class PartWork {
 public:
  /// Calls f(), unless work of this call has failed.
  template <class F>
  void run(const F& f) {
    if (failure_) return;
    try {
      f();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  bool failed() const { return failure_ != nullptr; }
  /// Ends a collective call: throws what was kept.
  void finish() {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  std::exception_ptr failure_;
};

}  // namespace topograd::runtime::vulkan
