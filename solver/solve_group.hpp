// Processes that make one solve together.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace topograd {

namespace runtime {
class Engine;
struct EngineOptions;
struct Model;
}  // namespace runtime

struct ProblemModel;

/// Makes the engine that evaluates in the place of the interpreter, such as one that has a part of
/// the model and knows the others. The model outlives the engine.
using MakeEngine = std::function<std::unique_ptr<runtime::Engine>(const runtime::Model& model,
                                                                  const runtime::EngineOptions&)>;

/// The other processes of a solve. All of them make the same calls in the same order and, because
/// they decide the same way, the same steps. What they cannot know alike goes through the first
/// process: clocks and files.
class SolveGroup {
 public:
  virtual ~SolveGroup() = default;

  /// The result of `make` on the first process, which alone calls it; on all of them. An Error that
  /// it throws is thrown on all.
  virtual std::string from_first(const std::function<std::string()>& make) = 0;
  /// True on all processes if it is true on one.
  virtual bool any(bool here) = 0;
  /// Replaces a file by bytes that all processes have alike, of which each writes a part. Returns
  /// the reason why that failed, or "", on all of them.
  virtual std::string write(const std::string& path, std::span<const std::byte> bytes) = 0;
  /// Called while an error is handled, before anything else is asked of the engine. Returns if all
  /// processes have the same error; ends all of them if this one is alone with it, because the
  /// others wait for this one.
  ///
  ///   reason  text of the error
  virtual void failed(const std::string& reason) = 0;

  /// False if engines of some processes cannot move blocks on manifolds, so that the host of each
  /// makes such steps. The same on all processes.
  virtual bool moves_blocks() const { return true; }
  /// True if each process has a share of the residuals (solver/model/model.hpp). The same on
  /// all processes.
  virtual bool has_shares() const { return false; }
  /// Makes the model of a process's share one of all processes: it gets all of their topologies, in
  /// one order, and `shares`. Its batches stay those of this process.
  virtual void share(ProblemModel& /*model*/) {}
};

}  // namespace topograd
