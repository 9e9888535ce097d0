// Times of an Evaluator's calls, until they are worth telling.
#pragma once

#include "../../runtime/engine/engine.hpp"

#include <map>
#include <optional>
#include <vector>

namespace topograd {

/// Collects by kind: evaluations of one kind are alike, those of two are not. The first of a kind
/// brings kernels, tables and buffers, and does not count. Not safe for several threads.
class EvaluationTimes {
 public:
  /// The median, when there are enough for one: of the first few, then of more at a time.
  ///
  ///   us           of one evaluation with everything around it
  ///   compiled_ms  that kernels have taken so far: times during which that grows are left out
  std::optional<double> add(runtime::Pass pass, double us, double compiled_ms);
  /// Another engine comes.
  void clear() { kinds_.clear(); }

 private:
  struct Kind {
    double compiled_ms = -1;  // before anything ran
    std::size_t wanted = kFew;
    std::vector<double> us;
  };
  static constexpr std::size_t kFew = 3, kMany = 32;

  std::map<runtime::Pass, Kind> kinds_;
};

}  // namespace topograd
