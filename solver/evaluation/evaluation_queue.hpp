// Evaluations of a problem that the caller does not wait for.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "evaluated_problem.hpp"
#include "model_vectors.hpp"

#include <memory>

namespace topograd {

/// Begins evaluations on the problem's engine, or on the pool where the engine cannot.
class EvaluationQueue {
 public:
  /// The problem outlives what was begun, and ends its session before this ends.
  explicit EvaluationQueue(EvaluatedProblem& problem)
      : problem_(problem), vectors_(problem.model()) {}

  ///   p  the direction of a product; else any numbers
  std::shared_ptr<AsyncState> begin(runtime::Pass pass, Numbers x, Numbers p);
  const AsyncFigures& figures() const { return *figures_; }

 private:
  void start(const std::shared_ptr<AsyncState>& state);
  void complete(AsyncState& state);

  EvaluatedProblem& problem_;
  ModelVectors vectors_;
  std::shared_ptr<AsyncFigures> figures_ = std::make_shared<AsyncFigures>();
};

}  // namespace topograd
