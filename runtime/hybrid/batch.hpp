// Batches: any callable over the caller's own values, as tasks of the hybrid executor.
#pragma once

#include "../cache/content_hash.hpp"
#include "executor.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace topograd::runtime::hybrid {

/// How the items of a batch run on the CPU.
enum class BatchMode { sequential, parallel };

struct BatchOptions {
  /// Name for thresholds and statistics. The types of values and callable also separate histories.
  std::string operation = "batch";
  BatchMode mode = BatchMode::parallel;
  std::uint64_t threads = 0;  ///< of `parallel`; 0 = the executor's
  Override where = Override::none;
  Features features = {};
  std::uint64_t bytes_in = 0, bytes_out = 0;  ///< bytes to and from a device
};

template <class Result>
struct BatchResult {
  std::uint64_t id = 0;
  Result value;
  /// Statistics of the batch; times.kernel is that of this item if the CPU ran it.
  ExecutionStats stats;
};

/// Values with ids. run() returns a result for each, in the order of add().
///
/// The callable is called once per value, on several threads unless the mode is sequential, and
/// must not keep state between calls. Results are default-constructible and movable.
template <class T>
class Batch {
 public:
  Batch() = default;
  explicit Batch(BatchOptions options) : options_(std::move(options)) {}

  void reserve(std::size_t count) { values_.reserve(count), ids_.reserve(count); }
  /// Adds a value.
  ///
  ///   cost  work of this item relative to others, > 0 and finite. The threads of the CPU get
  ///   pieces
  ///         of equal cost, and the executor learns times by the cost of a batch.
  ///
  /// Throws Error{InvalidArgument} for another cost.
  void add(std::uint64_t id, T value, double cost = 1) {
    if (!(cost > 0) || !std::isfinite(cost)) {
      throw Error(ErrorCode::InvalidArgument, "Batch::add: expected a cost > 0, got " +
                                                  std::to_string(cost) + ", for id " +
                                                  std::to_string(id));
    }
    ids_.push_back(id);
    values_.push_back(std::move(value));
    // Costs before that of each item; none while all are 1.
    if (cost != 1 && costs_.empty())
      for (std::size_t k = 0; k + 1 < size(); ++k) costs_.push_back(static_cast<double>(k));
    if (cost != 1 || !costs_.empty()) costs_.push_back(cost_);
    cost_ += cost;
  }
  std::size_t size() const { return ids_.size(); }
  /// Sum of the costs of all items.
  double cost() const { return cost_; }

  /// Returns the positions, from 0 to size(), that divide the items into at most `pieces` of about
  /// equal cost: those that run() gives to threads.
  std::vector<std::size_t> cuts(std::size_t pieces) const {
    std::vector<std::size_t> out = {0};
    for (std::size_t k = 1; k < pieces; ++k) {
      const double share = static_cast<double>(k) / static_cast<double>(pieces);
      std::size_t cut = static_cast<std::size_t>(share * static_cast<double>(size()));
      if (!costs_.empty()) {
        const auto at = std::ranges::lower_bound(costs_, share * cost_);
        cut = static_cast<std::size_t>(at - costs_.begin());
      }
      if (cut > out.back()) out.push_back(cut);
    }
    out.push_back(size());
    return out;
  }

  /// Runs f(const T&) -> Result. Throws the first error of f; f may then have run for some values.
  template <class F, class Result = std::invoke_result_t<F&, const T&>>
  std::vector<BatchResult<Result>> run(Executor& executor, F f) const {
    return run_on(executor, std::move(f),
                  std::function<RunReport(DeviceBackend&, std::span<const T>, std::span<Result>)>(),
                  options_.where);
  }

  /// The same with an implementation for devices: device(backend, values, results) sets the results
  /// of all values, and throws like DeviceBackend::run().
  template <class F, class Result = std::invoke_result_t<F&, const T&>>
  std::vector<BatchResult<Result>> run(
      Executor& executor, F f,
      std::function<RunReport(DeviceBackend&, std::span<const T>,
                              std::span<std::type_identity_t<Result>>)>
          device) const {
    return run_on(executor, std::move(f), std::move(device), options_.where);
  }

  /// Runs the batch on the CPU and on a device. Returns the ids of the values for which
  /// same(result of the CPU, result of the device) is false.
  ///
  /// Throws the errors of both sides, and Error{NoDevice} without a device.
  template <class F, class Result = std::invoke_result_t<F&, const T&>,
            class Same = std::equal_to<>>
  std::vector<std::uint64_t> check(Executor& executor, F f,
                                   std::function<RunReport(DeviceBackend&, std::span<const T>,
                                                           std::span<std::type_identity_t<Result>>)>
                                       device,
                                   Same same = {}) const {
    const auto here = run_on(executor, f, device, Override::cpu);
    const auto there = run_on(executor, f, device, Override::device);
    std::vector<std::uint64_t> differ;
    for (std::size_t k = 0; k < size(); ++k)
      if (!same(here[k].value, there[k].value)) differ.push_back(ids_[k]);
    return differ;
  }

 private:
  template <class F, class Result, class DeviceF>
  class Work final : public Task {
   public:
    Work(const Batch& batch, F f, DeviceF device, const Executor& executor, Override where)
        : batch_(batch),
          f_(std::move(f)),
          device_(std::move(device)),
          executor_(executor),
          where_(where) {
      results.resize(batch.size());
      item_us.resize(batch.size());
    }

    TaskShape shape() const override {
      const BatchOptions& o = batch_.options_;
      const Hash128 name_and_value = hash_text(typeid(T).name(), hash_text(o.operation));
      return {.kernel = hash_text(typeid(F).name(), name_and_value),
              .operation = o.operation,
              .size = batch_.size(),
              .cost = batch_.cost(),
              .bytes_in = o.bytes_in,
              .bytes_out = o.bytes_out,
              .targets = device_ ? kEveryTarget : 1,
              .features = o.features,
              .where = where_};
    }
    std::uint64_t threads() const override {
      return batch_.options_.mode == BatchMode::sequential ? 1 : batch_.options_.threads;
    }
    void run_on_cpu(const CpuThreads& threads, Items) override {
      // Many pieces per thread, because costs are estimates.
      const std::size_t pieces = 32 * static_cast<std::size_t>(threads.count());
      const std::vector<std::size_t> cuts = batch_.cuts(std::min(pieces, batch_.size()));
      threads.for_ranges(cuts.size() - 1, 1, [&](std::size_t begin, std::size_t end) {
        for (std::size_t k = cuts[begin]; k < cuts[end]; ++k) {
          const double start = executor_.scheduler().now();
          results[k].value = f_(batch_.values_[k]);
          item_us[k] = 1e6 * (executor_.scheduler().now() - start);
        }
      });
    }
    RunReport run_on_device(DeviceBackend& backend, Items) override {
      // Separate from the results, so that a failure changes nothing; no vector, as that packs
      // bool.
      const auto values = std::make_unique<Result[]>(batch_.size());
      const RunReport report =
          device_(backend, batch_.values_, std::span<Result>(values.get(), batch_.size()));
      for (std::size_t k = 0; k < batch_.size(); ++k) results[k].value = std::move(values[k]);
      return report;
    }

    std::vector<BatchResult<Result>> results;
    std::vector<double> item_us;

   private:
    const Batch& batch_;
    F f_;
    DeviceF device_;
    const Executor& executor_;
    const Override where_;
  };

  template <class F, class DeviceF>
  auto run_on(Executor& executor, F f, DeviceF device, Override where) const {
    using Result = std::invoke_result_t<F&, const T&>;
    Work<F, Result, DeviceF> work(*this, std::move(f), std::move(device), executor, where);
    const ExecutionStats stats = executor.execute(work);
    for (std::size_t k = 0; k < size(); ++k) {
      work.results[k].id = ids_[k];
      work.results[k].stats = stats;
      if (stats.on_cpu) work.results[k].stats.times = {.kernel = work.item_us[k]};
    }
    return std::move(work.results);
  }

  BatchOptions options_;
  std::vector<std::uint64_t> ids_;
  std::vector<T> values_;
  std::vector<double> costs_;  // of the items before each; empty if all are 1
  double cost_ = 0;
};

}  // namespace topograd::runtime::hybrid
