// Lists of tasks, tasks that run on both sides at once, and warm-up.
#include "task_runner.hpp"

#include "task_arena.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace topograd::runtime::hybrid {
namespace {

// A smaller share is not worth a second side.
constexpr double kLeastShare = 0.05;

/// Appends `more` to `program`. Returns false if they do not fit.
bool append(DeviceProgram& program, DeviceProgram&& more) {
  if (!program.itemwise || !more.itemwise || program.glsl != more.glsl ||
      program.constants != more.constants || program.arrays.size() != more.arrays.size())
    return false;
  for (std::size_t k = 0; k < program.arrays.size(); ++k) {
    DeviceArray& array = program.arrays[k];
    // An array kept under one key is now a part of another array.
    array.key = 0;
    for (const auto& piece : more.arrays[k].read) array.read.push_back(piece);
    for (const auto& piece : more.arrays[k].written) array.written.push_back(piece);
  }
  program.items += more.items;
  return true;
}

/// All tasks as one program, or nothing.
std::optional<DeviceProgram> merged(std::span<Task* const> tasks) {
  std::optional<DeviceProgram> all;
  for (Task* task : tasks) {
    std::optional<DeviceProgram> one = task->program({0, task->shape().size});
    if (!one || !one->itemwise) return std::nullopt;
    if (!all) {
      all = std::move(one);
    } else if (!append(*all, std::move(*one))) {
      return std::nullopt;
    }
  }
  return all;
}

TaskShape sum_of(std::span<Task* const> tasks) {
  TaskShape sum = tasks[0]->shape();
  sum.resident = {};
  for (const Task* task : tasks.subspan(1)) {
    const TaskShape shape = task->shape();
    sum.size += shape.size;
    sum.bytes_in += shape.bytes_in;
    sum.bytes_out += shape.bytes_out;
    sum.bytes_held += shape.bytes_held;
    sum.targets &= shape.targets;
  }
  return sum;
}

TaskShape part_of(TaskShape shape, Items items) {
  const double share = static_cast<double>(items.count()) / static_cast<double>(shape.size);
  const auto scaled = [&](std::uint64_t bytes) {
    return static_cast<std::uint64_t>(share * static_cast<double>(bytes));
  };
  shape.size = items.count();
  shape.bytes_in = scaled(shape.bytes_in);
  shape.bytes_out = scaled(shape.bytes_out);
  shape.bytes_held = scaled(shape.bytes_held);
  return shape;
}

/// Throws Error{InvalidArgument} if a task of the list is null.
void require_tasks(const char* call, std::span<Task* const> tasks) {
  const auto none = std::ranges::find(tasks, nullptr);
  if (none == tasks.end()) return;
  throw Error(ErrorCode::InvalidArgument, std::string(call) + ": task " +
                                              std::to_string(none - tasks.begin()) +
                                              " of the list is null");
}

}  // namespace

/// Groups tasks by kernel, in the order of each kernel's first task. Overridden tasks stay alone.
std::vector<TaskRunner::Group> TaskRunner::groups(std::span<Task* const> tasks) const {
  std::vector<Group> groups;
  std::map<std::pair<Hash128, Override>, std::size_t> known;
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    const TaskShape shape = tasks[k]->shape();
    const auto [place, is_new] = known.try_emplace({shape.kernel, shape.where}, groups.size());
    if (is_new || !options_.coalesce || shape.where == Override::cpu || shape.deadline_us > 0) {
      place->second = groups.size();
      groups.emplace_back();
    }
    groups[place->second].tasks.push_back(tasks[k]);
    groups[place->second].places.push_back(k);
  }
  return groups;
}

std::vector<ExecutionStats> TaskRunner::execute(std::span<Task* const> tasks) {
  require_tasks("execute", tasks);
  std::vector<ExecutionStats> stats(tasks.size());
  std::exception_ptr first;
  for (const Group& group : groups(tasks)) {
    try {
      run_group(group, stats);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  return stats;
}

void TaskRunner::run_group(const Group& group, std::span<ExecutionStats> out) {
  std::optional<DeviceProgram> program;
  if (group.tasks.size() > 1) program = merged(group.tasks);
  if (!program) {
    for (std::size_t k = 0; k < group.tasks.size(); ++k)
      out[group.places[k]] = execute(*group.tasks[k]);
    return;
  }
  const TaskShape shape = sum_of(group.tasks);
  const Decision decision = scheduler_.decide(shape);
  if (decision.target == kCpu) {
    scheduler_.cancel(decision);
    for (std::size_t k = 0; k < group.tasks.size(); ++k) {
      const TaskShape one = group.tasks[k]->shape();
      Decision own = decision;
      own.reserved_us = 0;
      recorder_.decided(one.operation, own);
      out[group.places[k]] = run(*group.tasks[k], one, own, {0, one.size});
      recorder_.observe(one.operation, one.size, out[group.places[k]]);
    }
    return;
  }
  recorder_.decided(shape.operation, decision);
  ExecutionStats stats;
  const std::optional<Error> error = try_device(
      shape, decision, [&](DeviceBackend& device) { return device.run(*program); }, stats);
  if (error && forced_side(shape, options_) == Side::device) throw *error;
  if (error) fell_back(shape, decision, *error);
  if (!error) recorder_.coalesced(group.tasks.size());
  stats.coalesced = group.tasks.size();
  for (std::size_t k = 0; k < group.tasks.size(); ++k) {
    ExecutionStats& one = out[group.places[k]];
    const TaskShape own = group.tasks[k]->shape();
    one = error ? run_on_cpu(*group.tasks[k], own, {0, own.size}, nullptr) : stats;
    if (error) one.fallback = error->what();
    one.decision = decision;
    recorder_.observe(own.operation, own.size, one);
  }
}

bool TaskRunner::wants_split(Task& task, const TaskShape& shape, const Decision& decision) const {
  if (options_.split_size == 0 || shape.size < options_.split_size || !task.splittable())
    return false;
  if (decision.reason != Reason::faster && decision.reason != Reason::slower) return false;
  const double cpu = decision.on_cpu.terms.total(), device = decision.on_device.terms.total();
  return std::min(cpu, device) >= kLeastShare * (cpu + device);
}

ExecutionStats TaskRunner::run_split(Task& task, const TaskShape& shape, const Decision& decision) {
  scheduler_.cancel(decision);
  const double cpu = decision.on_cpu.terms.total(), device = decision.on_device.terms.total();
  const double share = device / (cpu + device);
  const auto cut = static_cast<std::uint64_t>(share * static_cast<double>(shape.size));
  const Items here{0, cut}, there{cut, shape.size};
  Decision apart = decision;
  apart.target = decision.device;
  apart.reserved_us = 0;

  ExecutionStats stats;
  std::optional<Error> error;
  const auto on_device = [&] {
    error = try_device(
        part_of(shape, there), apart,
        [&](DeviceBackend& backend) { return task.run_on_device(backend, there); }, stats);
  };
  arena_->both(on_device, [&] { run_on_cpu(task, part_of(shape, here), here, nullptr); });
  if (error) {
    fell_back(shape, apart, *error);
    stats = run_on_cpu(task, part_of(shape, there), there, nullptr);
    stats.fallback = error->what();
  } else {
    stats.cpu_share = share;
  }
  recorder_.split();
  stats.decision = decision;
  return stats;
}

void TaskRunner::warm_up_on(Task& task, std::size_t target, int samples) {
  const TaskShape shape = task.shape();
  const Items all{0, shape.size};
  const Decision decision{.target = target, .device = target, .reason = Reason::forced};
  for (int k = 0; k <= samples; ++k) {
    if (target == kCpu) {
      run_on_cpu(task, shape, all, nullptr);
      continue;
    }
    ExecutionStats stats;
    const auto work = [&](DeviceBackend& device) {
      if (k == 0) {
        if (const auto program = task.program(all)) device.prepare(*program);
      }
      return task.run_on_device(device, all);
    };
    if (const auto error = try_device(shape, decision, work, stats)) {
      recorder_.log(LogLevel::warning,
                    "warm_up: " + devices_.name_of(target) + ": " + error->what());
      return;
    }
  }
}

void TaskRunner::warm_up(std::span<Task* const> tasks, int samples) {
  require_tasks("warm_up", tasks);
  for (Task* task : tasks) {
    const std::uint64_t targets = task->shape().targets;
    const std::size_t last = devices_.all().size();
    for (std::size_t target = 0; target <= last; ++target) {
      if ((targets >> target & 1) != 0 && scheduler_.admits(target))
        warm_up_on(*task, target, samples);
    }
  }
}

}  // namespace topograd::runtime::hybrid
