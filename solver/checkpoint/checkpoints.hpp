// Checkpoints of a running solve: their files, facts both solves share, and the one it resumes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../../ir/machine/state_record.hpp"
#include "../model/model.hpp"
#include "../option_table.hpp"
#include "../options.hpp"
#include "../solve_group.hpp"
#include "../summary.hpp"

namespace topograd {

/// Facts in the order in which differences are reported.
struct SolveFacts {
  struct Fact {
    std::string what;   ///< "method", "numbers of residuals \"edge\""
    std::string value;  ///< for people, or 32 digits of a hash
    bool is_hash = false;
  };
  std::vector<Fact> facts;

  void transfer(ir::StateRecord& record);
};

/// The backend that makes the steps, and how it solves for them.
struct SolveBackend {
  std::string backend, linear_solver;
};

/// Version of the library, sizes, topologies and data of the problem, and the options that steps
/// depend on. Limits, tolerances, threads and the device may differ.
///
///   x  (scalars); the values of fixed ones are data
///
/// Cost: reads all columns of all batches once.
SolveFacts facts_of(const ProblemModel& model, const SolverOptions& options,
                    const SolveBackend& where, std::span<const double> x);

/// The options that steps depend on, alone.
SolveFacts facts_of(const SolverOptions& options, OptionScope scope);

/// The difference as a sentence: "precision is f64 here, f32 in the checkpoint"; empty if there is
/// none.
std::string difference(const SolveFacts& here, const SolveFacts& there);

/// The state as a file:
///
///   bytes 0–7    "TGCHECK\n"
///   bytes 8–15   version of this format, 1
///   bytes 16–23  number of bytes after the header
///   bytes 24–39  hash of these bytes (runtime/cache/content_hash.hpp)
///   bytes 40–    the state
///
/// Numbers are in little endian.
std::vector<std::byte> seal_checkpoint(std::span<const std::byte> state);
/// The state of a file, to be restored. Throws Error{Parse} if the bytes are not what
/// seal_checkpoint() has made.
ir::StateRecord open_checkpoint(std::span<const std::byte> file);

/// Replaces the file as a whole (platform::write_durable_file()). Returns the reason why it failed,
/// or "".
std::string write_checkpoint(const std::string& path, std::span<const std::byte> state);
/// The bytes of a file. Throws Error{File} that names it.
std::string read_checkpoint_file(const std::string& path);
/// As open_checkpoint() of the file's bytes; errors name the file.
ir::StateRecord open_checkpoint(const std::string& path, const std::string& bytes);

/// Saves or restores what the summary of a solve that goes on continues: history, costs, counts of
/// steps, times of its phases. Throws Error{Parse} for counts that cannot be.
void transfer_summary(ir::StateRecord& record, Summary& summary);

/// Writes the state of one solve to SolverOptions::checkpoint, and has the state of the solve that
/// SolverOptions::resume continues. A method of minimisation saves and restores its state by one
/// function that names it (ir/machine/state_record.hpp).
///
/// A file is written at the first look(), when the solve has finished, and in between after
/// accepted steps. In a group of processes the first one reads and writes, and its clock counts;
/// all make the same calls, and errors are thrown on all.
class Checkpoints {
 public:
  using Transfer = std::function<void(ir::StateRecord& record)>;

  /// All outlive it; no group: this process alone.
  Checkpoints(const SolverOptions& options, Summary& summary, SolveGroup* group = nullptr);

  /// Call before the first step on an engine. The first call reads the file to resume: it sets the
  /// summary's history and counts, and x. Returns true if it did.
  ///
  ///   facts  of this solve
  ///   x      (scalars)
  ///
  /// Throws Error{File} if the file cannot be read, Error{Parse} if it is damaged, and
  /// Error{InvalidArgument}, which says what differs, if it is of another solve.
  bool identify(SolveFacts facts, std::span<double> x);

  /// Saves and restores this, too: state of what runs the method, which is not the method's. It is
  /// called until the method ends. Call before the method begins.
  void keep(Transfer around) { around_ = std::move(around); }

  /// True until the state of the resumed solve has been restored.
  bool restores() const { return resumed_.has_value(); }
  /// Restores the method's state. Returns true if the solve has ended there and its tolerances are
  /// still the same. Throws Error{Parse} if the state is not the method's.
  bool restore(const Transfer& transfer);

  /// Call before each step and at the end: writes a checkpoint if one is due.
  ///
  ///   finished  nothing follows
  ///   transfer  saves the method's state
  ///   point     writes the current point; called after it
  ///
  /// Throws Error{File} if the first one cannot be written; later failures are warnings of the
  /// summary. Cost: none if nothing is due.
  void look(bool finished, const Transfer& transfer,
            const std::function<void(std::span<double>)>& point);

 private:
  using Clock = std::chrono::steady_clock;

  bool is_due(bool finished) const;
  /// The state before the point.
  std::vector<std::byte> head(bool finished);
  /// The result of f on the group's first process.
  std::string at_first(const std::function<std::string()>& f) const;

  const SolverOptions& options_;
  Summary& summary_;
  SolveGroup* group_;
  SolveFacts facts_;
  std::vector<double> x_;  // of checkpoints
  Transfer around_;        // may be empty
  std::optional<ir::StateRecord> resumed_;
  bool identified_ = false;
  bool finished_there_ = false;
  int written_ = 0;
  Clock::time_point last_ = Clock::now();
};

}  // namespace topograd
