// Internal: operations of one thread that nobody placed, one after the other. They are placed
// together, by what followed the first of them the last time.
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

/// The operation that made the contents of a storage.
struct Maker {
  std::string_view operation;
  std::uint64_t chain = 0;             ///< that it is of; 0: none
  std::atomic<std::uint64_t> read{0};  ///< bytes of results that the host has read
};

/// Where contents are.
struct Whereabouts {
  bool on_host = true;
  std::size_t device = runtime::hybrid::kCpu;  ///< target that has them; kCpu: none
};

/// An operation of a chain, and what it took from outside.
struct ChainOp {
  struct Outside {
    std::weak_ptr<Storage> storage;
    std::uint64_t bytes = 0;
    bool made = false;  ///< by an operation before the chain, rather than on the host
  };
  runtime::hybrid::TaskShape shape;  ///< without bytes
  std::vector<Outside> outside;
  ir::Hash128 key;  ///< kernel and size
  std::shared_ptr<Maker> maker;
  std::uint64_t read_before = 0;  ///< bytes that the host read of it the time before

  /// A loop may read results of its last pass late.
  std::uint64_t read() const { return std::max<std::uint64_t>(maker->read, read_before); }
};

/// Finds where contents are now.
using Locate = std::function<Whereabouts(const Storage&)>;

/// A chain ends where a loop begins again: an operation of it comes with new operands from the
/// host, as it did before, or with the same ones. It also ends where the program has read something
/// and goes on with other operands, and when it is very long. What is known of it is kept by its
/// first operation and the chain before it. One thread.
class Chain {
 public:
  static Chain& of_thread();

  /// The next operation, of this shape. True where a chain is known from here on: it begins with
  /// this operation, or this is its second one and tells it from others that begin alike.
  bool next(const OpCall& call, const runtime::hybrid::TaskShape& shape);
  /// Who can run the operation, and from what size on.
  void described(const runtime::hybrid::TaskShape& shape);
  /// The rest of the chain as it went last time, from this operation on, each with the bytes that
  /// it would move now; as long as what happens is what happened then, else empty. Valid until the
  /// next call.
  std::span<const runtime::hybrid::TaskShape> expected(std::size_t targets, const Locate& locate);
  /// Bytes of this operation's results that the host will read, if it is known.
  std::optional<std::uint64_t> expected_read() const;
  /// Operations of the chain that is expected, 0 if none is.
  std::size_t expected_length() const { return plan_ ? plan_->ops.size() : 0; }
  /// What the CPU takes at most for all of them, about; 0 if none is expected.
  double expected_cpu_us() const { return plan_ ? plan_->cpu_us : 0; }

  /// Where all of the chain goes; nothing: each for itself.
  void place(std::optional<runtime::hybrid::Decision> placed) { placed_ = placed; }
  const std::optional<runtime::hybrid::Decision>& placed() const { return placed_; }
  /// The program has read a result.
  void was_read() { read_ = true; }
  /// The operation ran there: its results are made by it.
  void ran(const OpCall& call, std::size_t target);

 private:
  struct Plan {
    std::vector<ChainOp> ops;
    ir::Hash128 content;
    std::uint64_t repeats = 0;  ///< times that it has come again
    double cpu_us = 0;          ///< that the CPU takes at most, about
  };

  bool goes_on(const OpCall& call) const;
  std::optional<ir::Hash128> signature(const OpCall& call, const ir::Hash128& key) const;
  std::shared_ptr<const Plan> find(const ir::Hash128& key);
  void keep(const ir::Hash128& key, std::shared_ptr<const Plan> plan);
  void finish(std::size_t begin, std::size_t end);
  void start_anew();

  std::vector<ChainOp> ops_;
  std::unordered_map<ir::Hash128, std::size_t> places_;  // in ops_, by signature
  std::unordered_set<const Storage*> seen_;
  bool read_ = false;  // since the last operation
  std::uint64_t id_ = 0;
  std::shared_ptr<const Plan> plan_;
  std::optional<runtime::hybrid::Decision> placed_;
  std::size_t last_target_ = runtime::hybrid::kCpu;
  ir::Hash128 before_;  // content of the chain before this one
  // By the first operation; by the first two; by the first and the chain before, where the same
  // operation begins several.
  // Full, they are put aside, and what is used again comes back.
  using Plans = std::unordered_map<ir::Hash128, std::shared_ptr<const Plan>>;
  Plans plans_, older_plans_;
  std::vector<runtime::hybrid::TaskShape> shapes_;
  std::vector<std::uint64_t> resident_;
};

/// The host reads a storage.
class HostRead {
 public:
  HostRead();
  /// It had to come from a device.
  void moved(const Maker* maker, const Backend& from, std::uint64_t bytes) const;
  /// Tells the maker, if it is the program that reads; false for an operation on the CPU.
  static bool wanted(Maker& maker, std::uint64_t bytes);

 private:
  std::chrono::steady_clock::time_point begin_;
  double kernels_us_;  // whose times were known when it began
};

}  // namespace topograd::ops
