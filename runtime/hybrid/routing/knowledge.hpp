// The data that a scheduler has learned: times of transfers, and rows that train first guesses.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "decision.hpp"
#include "first_guess.hpp"
#include "history.hpp"

namespace topograd::runtime::hybrid {

/// Predicts what a task takes beside its kernel. Tasks that are waited for and queued operations
/// (TaskShape::queued) have separate accounts: the submission of an operation is a part of its
/// kernel's time. Not thread-safe.
class TransferTimes {
 public:
  /// Histories by name: "upload", "submit" and "read_back", and for queued operations
  /// "operations_upload" and "operations_read_back"; sizes are bytes.
  using Rows = std::map<std::string, std::vector<History::Row>>;

  /// A transfer without bytes is not known and takes no time.
  struct Predicted {
    Estimate upload, read_back;
    double submit_us = 0;
  };
  /// Predicts a task on this target.
  ///
  ///   up    bytes uploaded for it
  ///   sent  bytes uploaded by earlier tasks since the last reading
  Predicted predict(const TaskShape& task, std::uint64_t up, std::uint64_t sent) const;
  /// Predicts the time to read the task's bytes_away from this target.
  Estimate predict_fetch(const TaskShape& task) const;

  void record(const TaskShape& task, const Outcome& outcome, const HybridOptions& options);
  /// Records that results of queued operations were read, as in Scheduler::record_read_back().
  void record_read_back(std::uint64_t sent, std::uint64_t bytes, double us,
                        const HybridOptions& options);

  Rows rows() const;
  /// Adds rows as priors (History::merge()); other names are ignored.
  void merge(const Rows& rows);

 private:
  struct Account {
    History upload, submit, read_back;
  };
  /// A history by its name in Rows.
  struct Part {
    const char* name;
    Account TransferTimes::*account;
    History Account::*history;
  };
  static const Part kParts[5];

  Account tasks_, operations_;
};

/// Learned data, to be saved, transferred to other machines and reported. Targets are named.
struct Knowledge {
  struct Kernel {
    Hash128 hash;
    std::string operation;
    std::map<std::string, std::vector<History::Row>> targets;
    std::uint64_t used = 0;  ///< order of last use in this process; 0 = unused; not saved
  };
  std::vector<Kernel> kernels;
  std::map<std::string, TransferTimes::Rows> transfers;
  std::map<std::string, double> thresholds;  ///< items, by operation
  std::map<std::string, std::vector<TrainingRow>> training;
  /// Drivers of the targets on which it was measured; a missing entry matches any driver.
  std::map<std::string, std::string> drivers;
};

/// One line per kernel and power of two of its size, by target: target, kernel, operation, size,
/// operations, bytes, parallelism, reuse, pattern, family, us; strings in quotes; these names are
/// the header.
std::string training_csv(const Knowledge& knowledge);

/// The same as an array of objects.
std::string training_json(const Knowledge& knowledge);

}  // namespace topograd::runtime::hybrid
