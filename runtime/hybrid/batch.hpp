// Batches: any callable over the caller's own values, as tasks of the hybrid executor.
#pragma once

#include "../cache/content_hash.hpp"
#include "executor.hpp"

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
  Features features;
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
  void add(std::uint64_t id, T value) {
    ids_.push_back(id);
    values_.push_back(std::move(value));
  }
  std::size_t size() const { return ids_.size(); }

  /// Runs f(const T&) -> Result. Throws the first error of f; f may then have run for some values.
  template <class F, class Result = std::invoke_result_t<F&, const T&>>
  std::vector<BatchResult<Result>> run(Executor& executor, F f) const {
    return run_on(
        executor, std::move(f),
        std::function<RunReport(DeviceBackend&, std::span<const T>, std::span<Result>)>());
  }

  /// The same with an implementation for devices: device(backend, values, results) sets the results
  /// of all values, and throws like DeviceBackend::run().
  template <class F, class Result = std::invoke_result_t<F&, const T&>>
  std::vector<BatchResult<Result>> run(
      Executor& executor, F f,
      std::function<RunReport(DeviceBackend&, std::span<const T>,
                              std::span<std::type_identity_t<Result>>)>
          device) const {
    return run_on(executor, std::move(f), std::move(device));
  }

 private:
  template <class F, class Result, class DeviceF>
  class Work final : public Task {
   public:
    Work(const Batch& batch, F f, DeviceF device, const Executor& executor)
        : batch_(batch), f_(std::move(f)), device_(std::move(device)), executor_(executor) {
      results.resize(batch.size());
      item_us.resize(batch.size());
    }

    TaskShape shape() const override {
      const BatchOptions& o = batch_.options_;
      const Hash128 name_and_value = hash_text(typeid(T).name(), hash_text(o.operation));
      return {.kernel = hash_text(typeid(F).name(), name_and_value),
              .operation = o.operation,
              .size = batch_.size(),
              .bytes_in = o.bytes_in,
              .bytes_out = o.bytes_out,
              .targets = device_ ? kEveryTarget : 1,
              .features = o.features,
              .where = o.where};
    }
    std::uint64_t threads() const override {
      return batch_.options_.mode == BatchMode::sequential ? 1 : batch_.options_.threads;
    }
    void run_on_cpu(const CpuThreads& threads, Items items) override {
      const std::size_t first = items.begin;
      // Many pieces per thread, because values may differ in work.
      const std::size_t grain = items.count() / (32 * static_cast<std::size_t>(threads.count()));
      threads.for_ranges(items.count(), grain, [&](std::size_t begin, std::size_t end) {
        for (std::size_t k = first + begin; k < first + end; ++k) {
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
  };

  template <class F, class DeviceF>
  auto run_on(Executor& executor, F f, DeviceF device) const {
    using Result = std::invoke_result_t<F&, const T&>;
    Work<F, Result, DeviceF> work(*this, std::move(f), std::move(device), executor);
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
};

}  // namespace topograd::runtime::hybrid
