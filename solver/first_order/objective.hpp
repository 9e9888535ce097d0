// Parts that the minimisers of scalar functions share: fixed coordinates, the best point on a
// device.
#pragma once

#include "../minimize_function.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

namespace topograd {

/// True if a coordinate is in a set that may be empty.
inline bool is_held(std::span<const std::uint8_t> held, std::size_t k) {
  return !held.empty() && held[k] != 0;
}

/// Access to the best point while it is on a device.
struct BestElsewhere {
  std::function<void()> read;  ///< copies the point to the minimisation's x; empty: x has it

  /// Sets `read` while it lives; `elsewhere` may be null.
  class Scope {
   public:
    Scope(BestElsewhere* elsewhere, std::function<void()> read) : elsewhere_(elsewhere) {
      if (elsewhere_ != nullptr) elsewhere_->read = std::move(read);
    }
    ~Scope() {
      if (elsewhere_ != nullptr) elsewhere_->read = nullptr;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    BestElsewhere* elsewhere_;
  };
};

}  // namespace topograd
