// The part of one rank, and calls to the parts of all ranks, with their history.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../ir/machine/state_record.hpp"
#include "../runtime/engine/engine.hpp"
#include "../runtime/model/model.hpp"
#include "../solver/options.hpp"
#include "communicator.hpp"
#include "halo.hpp"
#include "local_model.hpp"
#include "shares.hpp"

namespace topograd::distributed {

/// The choice of the device on which a rank evaluates.
struct RankDevice {
  enum class Use {
    cpu,
    where_it_pays,  ///< on the device if all ranks have one, and enough residuals
    device          ///< asked for
  };
  Use use = Use::cpu;
  std::string name;       ///< as EngineOptions::device
  SolverOptions options;  ///< of the device
};

/// Ranks of one machine take its devices in turn, in the order of their UUIDs.
///
/// Throws Error{NoDevice}, or what the device lacks, if Backend::vulkan is asked for and there is
/// none.
RankDevice choose_device(const Communicator& ranks, const SolverOptions& options);

/// The engine of a rank's part, and what kept it from its device.
struct RankEngine {
  std::unique_ptr<runtime::Engine> engine;
  std::string problem;           ///< empty: nothing did
  bool some_on_devices = false;  ///< of the engines of all ranks
};

/// The engine of a part. A rank whose device fails to open or to hold the part evaluates on its
/// CPU, and says so in ModelPart::mixed if others do not. Collective.
///
///   options  of a CPU's engine, with its part
///   of       the same part
///
/// Throws the device's error if it is asked for and fails on all ranks.
RankEngine make_rank_engine(const Communicator& ranks, const runtime::Model& part,
                            const runtime::EngineOptions& options, runtime::ModelPart& of,
                            const RankDevice& device);

/// Figures of one rank, for reports.
struct RankReport {
  std::uint64_t blocks = 0, ghosts = 0;   ///< parameter blocks owned, and copies of others'
  std::uint64_t residuals = 0;            ///< residual blocks evaluated
  std::uint64_t residuals_again = 0;      ///< of these, also evaluated by the rank that counts them
  std::uint64_t bytes_per_iteration = 0;  ///< received in an iteration of CG
  std::uint64_t messages_per_iteration = 0;  ///< received in one for ghosts
  std::uint64_t exchanges = 0;               ///< of ghosts, in the solve
  std::uint64_t sums = 0;                    ///< gathers of numbers of chunks, in the solve
  double waited_seconds = 0;                 ///< in exchanges
  std::string device;                        ///< that evaluates
};

/// Thrown on all ranks alike if devices of some ranks have failed. No std::exception, so that no
/// handler of errors takes it for one.
struct LostDevices {
  std::string here;  ///< the failure of this rank's device; empty: it serves
};

/// Calls f(); ends all ranks if it throws a std::exception.
template <class F>
auto together(const Communicator& ranks, const F& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    ranks.fail("out of memory");
  } catch (const std::exception& error) {
    ranks.fail(error.what());
  }
}

/// The part of a model that one rank evaluates, on an engine of its CPU or device. Functions that
/// join are called by all ranks together, and fill vectors of the whole model on all of them. They
/// throw LostDevices if devices fail; another exception in one of them ends all ranks.
class RankPart final : public ir::PartOfLists {
 public:
  using Fill = std::function<void(std::span<double>)>;
  using Product = std::function<void(std::span<const double>, std::span<double>)>;

  ///   ranks    outlives the part
  ///   model    the whole; with shares, what this rank has of it
  ///   options  of the part's engine; `part` is set here
  ///   shares   null: every rank has the whole model
  RankPart(const Communicator& ranks, const runtime::Model& model, runtime::EngineOptions options,
           PartitionMethod method, const RankDevice& device, const Shares* shares = nullptr);

  runtime::Engine& engine() const { return *engine_; }
  runtime::DampedSteps& steps() const { return *engine_->abilities().steps; }
  const Communicator& ranks() const { return ranks_; }
  /// Unknowns of the part, with ghosts.
  std::size_t scalars_here() const { return here_.size(); }
  RankReport report() const;
  /// The sum over all engines that the part has had.
  runtime::EngineStats stats() const {
    runtime::EngineStats all = engine_->stats();
    all += earlier_;
    return all;
  }

  /// True if some ranks are on devices.
  bool has_devices() const { return has_devices_; }
  /// Calls f(), which uses the engine, on all ranks. Throws LostDevices if devices fail in it;
  /// another exception ends all ranks. Collective.
  template <class F>
  void on_engine(const F& f) const {
    const std::string failure = together(ranks_, [&] { return device_failure_in(f); });
    if (has_devices_ && ranks_.any(!failure.empty())) throw LostDevices{failure};
  }
  /// Ranks that lost their devices get engines on their CPUs, at no point. Collective.
  void leave_devices(const LostDevices& lost);
  const Traffic& traffic() const { return halo_->traffic(); }

  /// Numbers for all unknowns: `fill` gives those of this part.
  void join(std::span<double> whole, const Fill& fill);
  /// The same for f(p).
  void join_product(std::span<const double> p, std::span<double> out, const Product& f);
  /// Numbers of all rows: `fill` gives those of this part's residuals in a vector of all rows.
  void join_rows(std::span<double> out, const Fill& fill);
  /// Numbers of all instances of a term, `size` for each: `fill` gives those of term `here` of this
  /// part, if it has one. Ranks without instances do not know the size, and may give any.
  void join_instances(std::size_t term, std::span<double> values, std::size_t size,
                      const std::function<void(std::size_t here, std::span<double>)>& fill);
  /// Ascending numbers of instances of a term: `list` gives those of term `here` of this part.
  std::vector<std::uint32_t> join_lists(
      std::size_t term, const std::function<std::vector<std::uint32_t>(std::size_t here)>& list);
  /// The numbers of this part among those of all unknowns; they last until the next call.
  std::span<const double> narrowed(std::span<const double> whole);

  /// This part's term for a term of the whole model; null if it has no instances of it.
  const runtime::Term* term(std::size_t whole) const;

  // Lists by unknown in a state (ir::PartOfLists).
  std::size_t size() const override { return scalars_; }
  void widen(std::span<const double> here, std::span<double> whole) override;
  void narrow(std::span<const double> whole, std::span<double> here) override;

 private:
  std::size_t term_here(std::size_t term) const;
  /// The text of a failure of this rank's device in f(); empty if there was none.
  std::string device_failure_in(const std::function<void()>& f) const;

  const Communicator& ranks_;
  std::uint64_t scalars_;  // of the whole model
  LocalModel local_;
  std::unique_ptr<Halo> halo_;
  runtime::EngineOptions options_;            // of an engine on the CPU
  std::shared_ptr<runtime::ModelPart> link_;  // of the engine to those of the others
  std::unique_ptr<runtime::Engine> engine_;
  runtime::EngineStats earlier_;  // of an engine before
  bool has_devices_ = false;
  std::string device_;                   // and what kept the rank from another one
  std::vector<double> here_, narrowed_;  // reused
};

/// Knows the point on the host, the scaling of columns, and what was called since the point.
class StepHistory {
 public:
  /// Another solve scales columns anew.
  void begin_solve() { scaling_.clear(); }
  void set_point(std::span<const double> x);
  /// The trial point has become the point.
  void accept(std::vector<double> trial);
  void linearize();
  /// Forgets the last step: another one comes.
  void begin_step();
  void step(const runtime::StepRequest& request) { request_ = request; }
  void step(std::span<const double> delta) { delta_.assign(delta.begin(), delta.end()); }
  void rescale(double length) { length_ = length; }

  /// Reads the scaling from the engine after the first step of a solve, or if it was restored.
  void keep_scaling(runtime::DampedSteps& steps);
  bool has_scaling() const { return !scaling_.empty(); }
  /// The numbers of the part at the point; empty before the first one.
  std::span<const double> point() const { return point_; }

  /// Makes the calls on an engine, each by call(f), which calls f() and may throw.
  using Call = std::function<void(const std::function<void()>& f)>;
  void replay(runtime::Engine& engine, const Call& call) const;

 private:
  void replay_scaling(runtime::DampedSteps& steps) const;
  void replay_point(runtime::Engine& engine, const Call& call) const;

  std::vector<std::byte> scaling_;  // a StateRecord of the steps
  std::vector<double> before_,
      point_;  // the point before: its step is known at the next linearize()
  bool moved_ = false, linear_ = false;
  // The last step from the point.
  std::optional<runtime::StepRequest> request_;
  std::vector<double> delta_;
  std::optional<double> length_;
};

/// A rank whose device fails in a call moves to its CPU. Then all ranks make the calls of the
/// history again, and the call that failed.
class RankCalls {
 public:
  /// The first call, with no history; null until another part comes.
  void use(std::unique_ptr<RankPart> part) {
    part_ = std::move(part);
    history_ = {};
  }
  RankPart& part() const { return *part_; }

  /// Returns f(part). Collective.
  template <class F>
  auto operator()(const F& f) {
    for (;;) {
      try {
        return f(*part_);
      } catch (const LostDevices& lost) {
        recover(lost);
      }
    }
  }
  /// Calls f(part) by RankPart::on_engine(). Collective.
  template <class F>
  void on_engine(const F& f) {
    (*this)([&](RankPart& part) { part.on_engine([&] { f(part); }); });
  }
  /// Calls f(history) if a device may fail.
  template <class F>
  void note(const F& f) {
    if (part_->has_devices()) f(history_);
  }
  const StepHistory& history() const { return history_; }

 private:
  void recover(LostDevices lost);

  std::unique_ptr<RankPart> part_;
  StepHistory history_;
};

}  // namespace topograd::distributed
