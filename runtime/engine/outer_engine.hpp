// An engine around another one, which may be replaced by one that holds the same point.
#pragma once

#include "../rows/rows.hpp"
#include "engine.hpp"

#include <memory>
#include <string>

namespace topograd::runtime {

/// Runs where the inner engine runs. What it evaluates in its own way, and which abilities it
/// passes on, derived classes say.
class OuterEngine : public Engine {
 public:
  ///   inner  outlives it, or the next move_to()
  explicit OuterEngine(Engine& inner) : inner_(&inner) {}

  /// Continues on another engine of the same model that holds the same point.
  void move_to(Engine& inner) { inner_ = &inner; }

  Backend backend() const final { return inner_->backend(); }
  std::string device() const final { return inner_->device(); }
  EngineStats stats() const final { return inner_->stats(); }
  std::unique_ptr<RowRunner> row_runner() const final { return inner_->row_runner(); }

 protected:
  Engine& inner() const { return *inner_; }

 private:
  Engine* inner_;
};

}  // namespace topograd::runtime
