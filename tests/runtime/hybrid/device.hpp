// A device for tests of the hybrid executor: programs are C++ functions, failures are scripted.
#pragma once

#include "../../../runtime/hybrid/executor.hpp"

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace topograd::test {

/// Runs "add" as out = a + b over floats. The test controls failures through a state shared with
/// the backend.
class FakeDevice final : public runtime::hybrid::DeviceBackend {
 public:
  struct State {
    std::atomic<int> runs{0}, prepared{0}, reopened{0};
    std::atomic<std::uint64_t> items{0};
    std::atomic<int> failures{0};  ///< of the next runs
    ErrorCode error = ErrorCode::DeviceLost;
    std::atomic<bool> reopens{true};
    double us = 5;                             ///< per run
    std::optional<std::size_t> wrong_at = {};  ///< element of a sum that is wrong
    float wrong_by = 0;
    bool half_written = true;  ///< a failing run leaves invalid data only in its own memory
  };

  FakeDevice(std::shared_ptr<State> state, std::string name = "fake", std::string driver = "test")
      : state_(std::move(state)), name_(std::move(name)), driver_(std::move(driver)) {}

  runtime::hybrid::Capabilities capabilities() const override {
    return {.name = name_, .kind = "discrete", .driver = driver_, .memory_bytes = 1u << 30};
  }
  runtime::hybrid::RunReport run(const runtime::hybrid::DeviceProgram& program) override {
    ++state_->runs;
    if (state_->failures > 0) {
      --state_->failures;
      throw Error(state_->error, "injected " + std::string(topograd::name(state_->error)));
    }
    state_->items += program.items;
    std::vector<float> a = joined(program.arrays[0]), b = joined(program.arrays[1]);
    std::vector<float> sum(a.size());
    for (std::size_t k = 0; k < a.size(); ++k) sum[k] = a[k] + b[k];
    if (state_->wrong_at) sum.at(*state_->wrong_at) += state_->wrong_by;
    const auto* from = reinterpret_cast<const std::byte*>(sum.data());
    for (const auto& piece : program.arrays[2].written) {
      std::memcpy(piece.data(), from, piece.size());
      from += piece.size();
    }
    return {.times = {.kernel = state_->us}, .bytes_up = 8 * a.size(), .bytes_down = 4 * a.size()};
  }
  void prepare(const runtime::hybrid::DeviceProgram&) override { ++state_->prepared; }
  void reopen() override {
    ++state_->reopened;
    if (!state_->reopens) throw Error(ErrorCode::NoDevice, "still gone");
  }

 private:
  static std::vector<float> joined(const runtime::hybrid::DeviceArray& array) {
    std::vector<float> values;
    for (const auto& piece : array.read) {
      const auto* first = reinterpret_cast<const float*>(piece.data());
      values.insert(values.end(), first, first + piece.size() / sizeof(float));
    }
    return values;
  }

  std::shared_ptr<State> state_;
  std::string name_, driver_;
};

/// out = a + b, with independent items.
class AddTask final : public runtime::hybrid::Task {
 public:
  explicit AddTask(std::size_t size, float offset = 0) : a(size), b(size), out(size, -1) {
    for (std::size_t k = 0; k < size; ++k) {
      a[k] = offset + static_cast<float>(k);
      b[k] = 0.5f * static_cast<float>(k);
    }
  }

  runtime::hybrid::TaskShape shape() const override {
    return {.kernel = {1, 2},
            .operation = "add",
            .size = a.size(),
            .bytes_in = 8 * a.size(),
            .bytes_out = 4 * a.size(),
            .where = where};
  }
  bool splittable() const override { return true; }
  void run_on_cpu(const runtime::hybrid::CpuThreads& threads,
                  runtime::hybrid::Items items) override {
    on_cpu += items.count();
    threads.for_ranges(items.count(), 256, [&](std::size_t begin, std::size_t end) {
      for (std::size_t k = items.begin + begin; k < items.begin + end; ++k) out[k] = a[k] + b[k];
      ++ranges_;
    });
    // Orders the ranges before what follows, for the thread sanitizer: it does not see that TBB
    // does, and of an access that lies far back it no longer has the stack that is suppressed.
    ranges_.load();
    if (after_cpu) after_cpu();
  }
  std::optional<runtime::hybrid::DeviceProgram> program(runtime::hybrid::Items items) override {
    const auto bytes = [&](auto& v) {
      return std::span(v.data() + items.begin, static_cast<std::size_t>(items.count()));
    };
    runtime::hybrid::DeviceProgram program{
        .name = "add", .glsl = "add", .items = items.count(), .itemwise = true};
    program.arrays.push_back({.read = {std::as_bytes(bytes(a))}});
    program.arrays.push_back({.read = {std::as_bytes(bytes(b))}});
    for (runtime::hybrid::DeviceArray& array : program.arrays)
      array.element = runtime::hybrid::Element::f32;
    program.arrays.push_back({.written = {std::as_writable_bytes(bytes(out))},
                              .element = runtime::hybrid::Element::f32});
    return program;
  }

  bool right() const {
    for (std::size_t k = 0; k < a.size(); ++k)
      if (out[k] != a[k] + b[k]) return false;
    return true;
  }

  std::vector<float> a, b, out;
  runtime::hybrid::Override where = runtime::hybrid::Override::none;
  std::atomic<std::uint64_t> on_cpu{0};
  std::function<void()> after_cpu;

 private:
  std::atomic<std::uint64_t> ranges_{0};
};

}  // namespace topograd::test
