// Results of evaluations that were begun and not waited for.
#pragma once

#include <Eigen/Core>

#include <cstdint>
#include <memory>

namespace topograd {

struct AsyncState;

/// A result that is on its way: T is double or Eigen::VectorXd. Move-only; it may outlive the
/// Evaluator that gave it. Throws Error{InvalidArgument} where there is none any more: after get(),
/// and where it was moved from.
template <class T>
class Async {
 public:
  explicit Async(std::shared_ptr<AsyncState> state);
  Async(Async&&) noexcept;
  Async& operator=(Async&&) noexcept;
  Async(const Async&) = delete;
  Async& operator=(const Async&) = delete;
  ~Async();

  bool ready() const;  ///< does not wait
  /// Waits and gives the result, once. Throws what the evaluation threw.
  T get();

 private:
  std::shared_ptr<AsyncState> state_;
};

/// What asynchronous evaluations gained.
struct AsyncFigures {
  std::uint64_t evaluations = 0;
  double in_flight_seconds = 0;  ///< from their beginning to their results, summed
  double waited_seconds = 0;     ///< of that, what the caller spent waiting in get()

  /// Share of the time in flight in which the caller could do something else.
  double overlapped_share() const {
    return in_flight_seconds > 0 ? 1 - waited_seconds / in_flight_seconds : 0;
  }
};

}  // namespace topograd
