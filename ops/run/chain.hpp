// Internal: consecutive operations of one thread without a fixed backend. They are placed together,
// according to what followed the first of them the last time.
#pragma once

#include "run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace topograd::ops {

/// The operation that computed the contents of a storage.
struct Maker {
  std::string_view operation;
  std::uint64_t chain = 0;             ///< chain of the operation; 0: none
  std::atomic<std::uint64_t> read{0};  ///< bytes of results that the host has read
};

/// The location of contents.
struct Whereabouts {
  bool on_host = true;
  std::size_t device = runtime::hybrid::kCpu;  ///< target that has a copy; kCpu: none
};

/// An operation of a chain, with its operands from outside of the chain.
struct ChainOp {
  struct Outside {
    std::weak_ptr<Storage> storage;
    std::uint64_t bytes = 0;
    bool made = false;  ///< computed by an earlier operation, not by the host
  };
  runtime::hybrid::TaskShape shape;  ///< without byte counts
  std::vector<Outside> outside;
  ir::Hash128 key;  ///< kernel and size
  std::shared_ptr<Maker> maker;
  std::uint64_t read_before = 0;  ///< bytes of it that the host read the last time

  /// At least `read_before`, because a loop may read the results of its last pass late.
  std::uint64_t read() const { return std::max<std::uint64_t>(maker->read, read_before); }
};

/// Finds the present location of contents.
using Locate = std::function<Whereabouts(const Storage&)>;

/// A chain ends where a loop starts again: an operation of the chain comes again with new operands
/// from the host, as before, or with the same ones. It also ends when the program has read a result
/// and continues with other operands, and when it is very long. A chain is stored by its first
/// operation and the chain before it. Not thread-safe.
class Chain {
 public:
  static Chain& of_thread();

  /// Adds the next operation, with its shape. Returns true if a known chain begins here: with this
  /// operation, or if this second operation distinguishes it from chains that begin alike.
  bool next(const OpCall& call, const runtime::hybrid::TaskShape& shape);
  /// Sets the targets that can run the operation, and their minimum sizes.
  void described(const runtime::hybrid::TaskShape& shape);
  /// The rest of the chain as in the last pass, from this operation on, each with the bytes that it
  /// would move now; empty if the present pass differs from the last. Valid until the next call.
  std::span<const runtime::hybrid::TaskShape> expected(std::size_t targets, const Locate& locate);
  /// Bytes of this operation's results that the host will read, if known.
  std::optional<std::uint64_t> expected_read() const;
  /// Number of operations of the expected chain, 0 if none is expected.
  std::size_t expected_length() const { return plan_ ? plan_->ops.size() : 0; }
  /// Approximate upper bound of the CPU time of all of them; 0 if no chain is expected.
  double expected_cpu_us() const { return plan_ ? plan_->cpu_us : 0; }

  /// Sets the decision for the whole chain; empty: each operation decides.
  void place(std::optional<runtime::hybrid::Decision> placed) { placed_ = placed; }
  const std::optional<runtime::hybrid::Decision>& placed() const { return placed_; }
  /// The program has read a result.
  void was_read() { read_ = true; }
  /// Records that the operation ran on `target`, and as maker of its results.
  void ran(const OpCall& call, std::size_t target);

 private:
  struct Plan {
    std::vector<ChainOp> ops;
    ir::Hash128 content;
    std::uint64_t repeats = 0;  ///< number of repetitions
    double cpu_us = 0;          ///< approximate upper bound of the CPU time
  };

  bool goes_on(const OpCall& call) const;
  std::optional<ir::Hash128> signature(const OpCall& call, const ir::Hash128& key) const;
  std::shared_ptr<const Plan> find(const ir::Hash128& key);
  void keep(const ir::Hash128& key, std::shared_ptr<const Plan> plan);
  void finish(std::size_t begin, std::size_t end);
  void start_anew();

  std::vector<ChainOp> ops_;
  std::unordered_map<ir::Hash128, std::size_t> op_of_signature_;  // index in ops_, by signature
  std::unordered_set<const Storage*> seen_;
  bool read_ = false;  // since the last operation
  std::uint64_t id_ = 0;
  std::shared_ptr<const Plan> plan_;
  std::optional<runtime::hybrid::Decision> placed_;
  std::size_t last_target_ = runtime::hybrid::kCpu;
  ir::Hash128 before_;  // contents of the chain before this one
  // Keyed by the first operation; by the first two; by the first and the chain before, if the same
  // operation begins several chains. Full tables are set aside, and entries that are used again
  // return.
  using Plans = std::unordered_map<ir::Hash128, std::shared_ptr<const Plan>>;
  Plans plans_, older_plans_;
  std::vector<runtime::hybrid::TaskShape> shapes_;
  std::vector<std::uint64_t> resident_;
};

/// A read of a storage by the host.
class HostRead {
 public:
  HostRead();
  /// Records that the contents had to come from a device.
  void moved(const Maker* maker, const OpBackend& from, std::uint64_t bytes) const;
  /// Records the read if the program reads; returns false for an operation on the CPU.
  static bool wanted(Maker& maker, std::uint64_t bytes);

 private:
  std::chrono::steady_clock::time_point begin_;
  double kernels_us_;  // kernel times known when the read began
};

}  // namespace topograd::ops
