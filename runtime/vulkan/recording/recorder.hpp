// Command lists of one engine: recorded once, submitted many times, and dropped when what they were
// recorded from changes. Their kernels are compiled before, if possible on other threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../device/command_stream.hpp"
#include "../../device/device.hpp"
#include "../../device/kernels/kernel_cache.hpp"
#include "../../engine/engine.hpp"
#include "../../plan/plan.hpp"
#include "context.hpp"

namespace topograd::runtime::vulkan {

/// A source of derived values, which are dropped when it changes. Outlives them.
class Source {
 public:
  Source() = default;
  /// A part of `whole`: changes with it, too.
  explicit Source(Source& whole) { whole.parts_.push_back(this); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  void changed() {
    for (Source* part : parts_) part->changed();
    for (Value* value : values_) value->drop();
  }

 private:
  template <class T>
  friend class Derived;
  struct Value {
    virtual void drop() = 0;

   protected:
    ~Value() = default;
  };

  std::vector<Source*> parts_;
  std::vector<Value*> values_;
};

/// A T() from when `source` has changed until somebody fills it again.
template <class T>
class Derived final : private Source::Value {
 public:
  explicit Derived(Source& source) : source_(source) { source_.values_.push_back(this); }
  ~Derived() { std::erase(source_.values_, static_cast<Source::Value*>(this)); }
  Derived(const Derived&) = delete;
  Derived& operator=(const Derived&) = delete;

  T& operator*() { return value_; }
  const T& operator*() const { return value_; }
  T* operator->() { return &value_; }
  const T* operator->() const { return &value_; }

 private:
  void drop() override { value_ = T(); }

  Source& source_;
  T value_{};
};

struct Recorded {
  CommandList list;
  std::uint64_t kernels = 0;  ///< dispatches of residual kernels
};

/// Kernels of a kind of evaluation on their way.
struct Preparation {
  enum class Stage { none, compiling, rehearsing, done } stage = Stage::none;
  std::vector<std::shared_ptr<KernelJob>> jobs;
  Submission rehearsal;
};

/// To be used by one thread at a time.
class Recorder {
 public:
  using Record = std::function<void(CommandList&)>;

  /// Context outlives this.
  explicit Recorder(Context& context) : context_(context) {}

  // Sources of recorded lists and of derived results.
  Source structure;           ///< terms and vectors: which there are, and how long they are
  Source columns{structure};  ///< buffers of the columns of terms
  Source kernels{columns};    ///< which kernels of terms serve

  /// The kernels that `record` uses, begun: it records to a list that declares.
  static std::vector<std::shared_ptr<KernelJob>> declare(const Record& record);
  /// Makes the kernels that `record` uses: all of them begin before this thread takes those that no
  /// other has begun.
  static void make(const Record& record);
  /// Goes on making kernels as far as it can without waiting; true once they are there. A device
  /// that compiles a kernel where it first runs runs what `record` records, once.
  bool advance(Preparation& preparation, const Record& record);

  /// Records a list whose kernels were declared, and counts those of residuals.
  Recorded make_list(std::string_view name, const Record& record);
  struct List {
    Recorded& to;
    std::string_view name;
    Record record;
  };
  /// Makes the kernels of all lists, then records each of them.
  void make_lists(const std::vector<List>& lists);
  /// One submission of all of them; last() is its end.
  void submit(std::span<const Recorded* const> recorded);
  void submit(const Recorded& recorded);
  const Submission& last() const { return last_; }

  /// The list of that name: recorded once for the kernels that serve, which are made before.
  const Recorded& evaluation(const std::string& name, const Record& record);
  void evaluate(const std::string& name, const Record& record) { submit(evaluation(name, record)); }
  bool has_evaluations() const { return !evaluations_->empty(); }
  bool has_evaluation(const std::string& name) const { return evaluations_->contains(name); }

  /// Runs a list with two timestamps `warm_ups` + `samples` times; medians.
  Timing time_list(const Recorded& recorded, int warm_ups, int samples);
  /// Runs it until a device that may have idled is at its clocks.
  void warm_up(const Recorded& recorded);

  /// Counters of the engine.
  EngineStats stats() const;
  /// Dispatches of residual kernels that were submitted.
  std::uint64_t dispatches() const { return dispatches_; }
  /// Counts dispatches that the device decided to run.
  void count(std::uint64_t dispatches) { dispatches_ += dispatches; }

 private:
  Context& context_;
  Derived<std::map<std::string, Recorded>> evaluations_{kernels};
  Submission last_;
  std::uint64_t dispatches_ = 0;
  std::chrono::steady_clock::time_point last_timed_;  // end of the last timing
};

/// The use of a pass that adds to the unknowns of an array; those of kScalars are of any.
inline Hazards::Use sums_of(std::uint32_t array) {
  if (array == kScalars) return {.end = kScalars, .written = true};
  return {.begin = array, .end = std::uint64_t{array} + 1, .written = true};
}

}  // namespace topograd::runtime::vulkan
