// Results of evaluations in progress.
#pragma once

#include <Eigen/Core>

#include <cstdint>
#include <memory>

namespace topograd {

struct AsyncState;

/// A future result; T is double or Eigen::VectorXd. Move-only; it may outlive the Evaluator that
/// returned it. Throws Error{InvalidArgument} if it has no result any more: after get() or a move.
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
  /// Waits and returns the result, once. Throws the error of the evaluation.
  T get();

 private:
  std::shared_ptr<AsyncState> state_;
};

/// Time gained by asynchronous evaluations.
struct AsyncFigures {
  std::uint64_t evaluations = 0;
  double in_flight_seconds = 0;  ///< sum of the times from start to result
  double waited_seconds = 0;     ///< part of that in which the caller waited in get()

  /// Share of the time in flight in which the caller did not wait.
  double overlapped_share() const {
    return in_flight_seconds > 0 ? 1 - waited_seconds / in_flight_seconds : 0;
  }
};

}  // namespace topograd
