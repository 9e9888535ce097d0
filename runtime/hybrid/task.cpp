// Threads of the CPU side, and default implementations of tasks.
#include "task.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "../cpu/tiles/pool.hpp"
#include "backend.hpp"
#include "task_runner.hpp"

namespace topograd::runtime::hybrid {
namespace {

thread_local const RunsTask* innermost = nullptr;

}  // namespace

RunsTask::RunsTask(const Executor& executor)
    : executor_(executor), outer_(std::exchange(innermost, this)) {}
RunsTask::~RunsTask() { innermost = outer_; }

bool RunsTask::here(const Executor& executor) {
  for (const RunsTask* one = innermost; one != nullptr; one = one->outer_)
    if (&one->executor_ == &executor) return true;
  return false;
}

struct CpuThreads::State {
  mutable cpu::Pool pool;
};

CpuThreads::CpuThreads(std::uint64_t threads)
    : state_(new State{cpu::Pool(static_cast<int>(threads))}) {}
CpuThreads::~CpuThreads() = default;

int CpuThreads::count() const { return state_->pool.threads(); }

void CpuThreads::for_ranges(std::size_t count, std::size_t grain,
                            const std::function<void(std::size_t, std::size_t)>& f) const {
  // Submissions by the ranges count as from inside the task.
  const RunsTask* const task = innermost;
  state_->pool.for_ranges(count, std::max<std::size_t>(grain, 1),
                          [&](std::size_t begin, std::size_t end) {
                            const RunsTask* const before = std::exchange(innermost, task);
                            try {
                              f(begin, end);
                            } catch (...) {
                              innermost = before;
                              throw;
                            }
                            innermost = before;
                          });
}

std::uint64_t DeviceArray::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& piece : read) sum += piece.size();
  for (const auto& piece : written) sum += piece.size();
  return sum;
}

std::vector<TaskResult> Task::checked_results() {
  std::vector<TaskResult> out;
  const std::optional<DeviceProgram> made = program({0, shape().size});
  if (!made) return out;
  for (std::size_t k = 0; k < made->arrays.size(); ++k) {
    const DeviceArray& array = made->arrays[k];
    if (!array.written.empty())
      out.push_back({"array " + std::to_string(k), array.element, array.written});
  }
  return out;
}

RunReport Task::run_on_device(DeviceBackend& device, Items items) {
  const std::optional<DeviceProgram> made = program(items);
  if (!made) {
    throw Error(ErrorCode::Unsupported,
                std::string(shape().operation) + ": this task has no implementation for devices");
  }
  return device.run(*made);
}

namespace {

// Results hold this before each run: what only one side writes differs.
constexpr std::byte kUnwritten{0xa5};

template <class Byte>
std::vector<std::byte> joined(const std::vector<std::span<Byte>>& pieces) {
  std::vector<std::byte> out;
  for (const std::span<Byte> piece : pieces) out.insert(out.end(), piece.begin(), piece.end());
  return out;
}

void fill(const std::vector<TaskResult>& results) {
  for (const TaskResult& result : results)
    for (const std::span<std::byte> piece : result.pieces) std::ranges::fill(piece, kUnwritten);
}

/// The contents of results; puts them back unless it is told to keep the new ones.
class Saved {
 public:
  explicit Saved(const std::vector<TaskResult>& results) : results_(results) {
    for (const TaskResult& result : results) contents_.push_back(joined(result.pieces));
  }
  ~Saved() {
    for (std::size_t k = 0; k < contents_.size(); ++k) {
      const std::byte* from = contents_[k].data();
      for (const std::span<std::byte> piece : results_[k].pieces) {
        if (!piece.empty()) std::memcpy(piece.data(), from, piece.size());
        from += piece.size();
      }
    }
  }
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;
  void keep_new() { contents_.clear(); }

 private:
  const std::vector<TaskResult>& results_;
  std::vector<std::vector<std::byte>> contents_;
};

[[noreturn]] void refuse(ErrorCode code, const TaskShape& shape, const std::string& message) {
  throw Error(code, "check: task \"" + std::string(shape.operation) + "\": " + message);
}

}  // namespace

bool TaskCheck::agrees() const {
  return std::ranges::all_of(results, [](const Comparison& one) { return one.different == 0; });
}

std::string TaskCheck::text() const {
  std::string out;
  for (const Comparison& one : results) out += one.text() + "\n";
  return out;
}

std::string values_of(Task& task, std::size_t most) {
  std::string out;
  const auto add = [&](const std::string& name, Element element,
                       const std::vector<std::byte>& bytes) {
    out += name + ": " + values_text(element, bytes, most) + "\n";
  };
  const std::optional<DeviceProgram> made = task.program({0, task.shape().size});
  for (std::size_t k = 0; made && k < made->arrays.size(); ++k) {
    const DeviceArray& array = made->arrays[k];
    if (!array.read.empty())
      add("array " + std::to_string(k) + " in", array.element, joined(array.read));
  }
  for (const TaskResult& result : task.checked_results())
    add(result.name + " out", result.element, joined(result.pieces));
  return out;
}

std::size_t TaskRunner::target_to_check(const TaskShape& shape, const std::string& device) const {
  const auto can_run = [&](std::size_t target) { return (shape.targets >> target & 1) != 0; };
  if (!device.empty()) {
    const std::size_t named = devices_.find(device);
    if (named != kCpu && can_run(named)) return named;
    refuse(ErrorCode::NoDevice, shape, "expected a device that can run it, got \"" + device + "\"");
  }
  const std::vector<ExecutorDevice*> all = devices_.all();
  std::size_t found = kCpu;
  for (std::size_t target = all.size(); target > 0; --target) {
    if (!can_run(target) || !all[target - 1]->available()) continue;
    const bool better = scheduler_.admits(target) || found == kCpu || !scheduler_.admits(found);
    if (better) found = target;
  }
  if (found == kCpu) refuse(ErrorCode::NoDevice, shape, "no device can run it");
  return found;
}

TaskCheck TaskRunner::check(Task& task, const CheckOptions& options) {
  const TaskShape shape = task.shape();
  const std::size_t target = target_to_check(shape, options.device);
  if ((shape.targets & 1) == 0)
    refuse(ErrorCode::Unsupported, shape, "expected an implementation for the CPU");
  const std::vector<TaskResult> results = task.checked_results();
  if (results.empty())
    refuse(ErrorCode::Unsupported, shape,
           "expected checked_results(), or a program that writes arrays");

  Saved before(results);
  const Items all{0, shape.size};
  ExecutionStats stats;
  fill(results);
  const std::optional<Error> error = try_device(
      shape, {.target = target, .device = target, .reason = Reason::forced},
      [&](DeviceBackend& device) { return task.run_on_device(device, all); }, stats);
  if (error) throw Error(*error);
  TaskCheck out{.device = stats.device, .on_cpu = {}, .on_device = stats.times, .results = {}};
  std::vector<std::vector<std::byte>> there;
  for (const TaskResult& result : results) there.push_back(joined(result.pieces));
  fill(results);
  out.on_cpu = run_on_cpu(task, shape, all, nullptr).times;
  before.keep_new();
  for (std::size_t k = 0; k < results.size(); ++k) {
    out.results.push_back(compare(results[k].name, results[k].element, joined(results[k].pieces),
                                  there[k], options.relative));
  }
  return out;
}

}  // namespace topograd::runtime::hybrid
