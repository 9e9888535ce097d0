// Threads of the CPU side, and default implementations of tasks.
#include "task.hpp"

#include "../cpu/tiles/pool.hpp"
#include "backend.hpp"

#include <utility>

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

}  // namespace topograd::runtime::hybrid
