// Numbers and dispatches of walks.
#include "device_walk.hpp"

#include "../../ir/error.hpp"
#include "../../runtime/cpu/tiles/pool.hpp"
#include "../../runtime/engine/column_scaling.hpp"
#include "../../runtime/hybrid/backend.hpp"
#include "../session/device_engine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace topograd {
namespace {

using runtime::hybrid::DeviceArray;
using runtime::hybrid::DeviceProgram;

/// Largest buffer of a dispatch: devices must have 128 MiB.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
/// By the number of the end that a walk reports.
constexpr std::array kEnds = {End::none, End::gradient, End::cost_change, End::iterations,
                              End::predicted_change};
/// Components whose numbers a thread gathers at once.
constexpr std::size_t kLeastGathered = 64, kMostGathered = 512;

}  // namespace

WalkDevice walk_device(const DeviceFacts& facts, const SolverOptions& options) {
  WalkDevice out{.name = facts.name, .shared_bytes = facts.shared_memory_bytes};
  if (options.precision == Precision::f64 && facts.float64 && !facts.emulated_float64)
    out.precision = Precision::f64;
  return out;
}

DeviceWalk::DeviceWalk(const SolverOptions& options, WalkDevice device)
    : device_(std::move(device)) {
  require_self_check(options);
  backend_ = make_device_backend(options);
}
DeviceWalk::~DeviceWalk() = default;

namespace {

/// The rules, then the numbers that all components share.
template <class T>
std::vector<T> shared_numbers(const ComponentGroup& group, const SolverOptions& o) {
  constexpr double kRounding = 4 * static_cast<double>(std::numeric_limits<T>::epsilon());
  constexpr double kLeastRadius = 1e-30;  // in f32, too
  const double least = o.jacobi_scaling && o.scale_free ? runtime::kLeastDiagonalOfSmall : 0;
  const double rules[kWalkRules] = {o.initial_trust_region_radius,
                                    o.max_trust_region_radius,
                                    std::max(o.function_tolerance, kRounding),
                                    o.gradient_tolerance,
                                    std::max(o.min_lm_diagonal, least),
                                    o.max_lm_diagonal,
                                    o.min_relative_decrease,
                                    std::max(o.min_trust_region_radius, kLeastRadius)};
  std::vector<T> numbers;
  for (const double rule : rules) numbers.push_back(static_cast<T>(rule));
  for (const ComponentRows& rows : group.residuals)
    for (const ComponentNumbers& n : rows.data)
      if (n.positions == nullptr) numbers.push_back(static_cast<T>(*n.from));
  return numbers;
}

std::vector<const ComponentNumbers*> columns_of(const ComponentGroup& group) {
  std::vector<const ComponentNumbers*> columns;
  for (const ComponentRows& rows : group.residuals)
    for (const ComponentNumbers& n : rows.data)
      if (n.positions != nullptr) columns.push_back(&n);
  return columns;
}

/// Calls f(first, last) for ranges of a dispatch's components, on all threads.
template <class F>
void for_parts(runtime::cpu::Pool& pool, std::size_t count, const F& f) {
  const auto threads = static_cast<std::size_t>(pool.threads());
  pool.for_ranges(count, std::clamp(count / (4 * threads), kLeastGathered, kMostGathered), f);
}

/// The first numbers of memory that only grows.
template <class T>
std::span<T> first_of(std::vector<T>& memory, std::size_t count) {
  if (memory.size() < count) memory.resize(count);
  return std::span(memory).first(count);
}

/// to[k] = from[positions.at(first + k)], for k in [begin, end).
template <class T>
void gather(const double* from, const Positions& positions, std::size_t first, std::size_t begin,
            std::size_t end, T* to) {
  if (positions.list.empty()) {
    const double* at = from + positions.first + (first + begin) * positions.step;
    for (std::size_t k = begin; k < end; ++k, at += positions.step) to[k] = static_cast<T>(*at);
  } else {
    for (std::size_t k = begin; k < end; ++k)
      to[k] = static_cast<T>(from[positions.list[first + k]]);
  }
}

/// Lower, then upper bounds of components [first, first + count), by scalar; those of one component
/// if all have the same.
template <class T>
void find_limits(const LaneProgram& program, std::size_t first, std::size_t count,
                 runtime::cpu::Pool& pool, std::vector<T>& limits) {
  const ComponentGroup& group = program.group();
  if (!group.bounded) return;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::size_t scalars = group.scalars, each = shares_limits(program) ? 1 : count;
  limits.resize(2 * scalars * each);
  for_parts(pool, each, [&](std::size_t begin, std::size_t end) {
    for (std::size_t s = 0; s < scalars; ++s) {
      for (std::size_t k = begin; k < end; ++k) {
        const std::size_t scalar = group.x[s].at(first + k);
        limits[s * each + k] =
            static_cast<T>(program.has_lower() ? program.lower(scalar) : -kInfinity);
        limits[(scalars + s) * each + k] =
            static_cast<T>(program.has_upper() ? program.upper(scalar) : kInfinity);
      }
    }
  });
}

/// Results of one dispatch, by column.
template <class T>
void take(std::span<const T> end, std::span<const T> report, std::size_t first,
          runtime::cpu::Pool& pool, Walks& walks) {
  const std::size_t count = report.size() / kWalkReport, scalars = end.size() / count;
  for_parts(pool, count, [&](std::size_t part, std::size_t last) {
    for (std::size_t k = part; k < last; ++k) {
      const std::size_t c = first + k;
      walks.initial_cost[c] = static_cast<double>(report[k]);
      walks.accepted[c] = static_cast<std::int32_t>(report[count + k]);
      walks.rejected[c] = static_cast<std::int32_t>(report[2 * count + k]);
      walks.final_cost[c] = static_cast<double>(report[3 * count + k]);
      walks.end[c] = kEnds.at(static_cast<std::size_t>(report[4 * count + k]));
      for (std::size_t s = 0; s < scalars; ++s)
        walks.x[c * scalars + s] = static_cast<double>(end[s * count + k]);
    }
  });
}

}  // namespace

void DeviceWalk::dispatch(DeviceProgram& program, int most_steps) {
  const std::uint32_t words[] = {0, static_cast<std::uint32_t>(most_steps)};
  const auto bytes = std::as_bytes(std::span(words));
  program.constants.assign(bytes.begin(), bytes.end());
  const runtime::hybrid::RunReport ran = backend_->run(program);
  ++counts_.dispatches;
  counts_.bytes_up += ran.bytes_up;
  counts_.bytes_down += ran.bytes_down;
  counts_.kernel_seconds += 1e-6 * ran.times.kernel;
}

template <class T>
void DeviceWalk::run_as(const LaneProgram& program, const WalkKernel& kernel,
                        std::span<const double> x, runtime::cpu::Pool& pool, Memory<T>& memory,
                        Walks& walks) {
  const ComponentGroup& group = program.group();
  std::vector<T> numbers = shared_numbers<T>(group, program.options());
  numbers.insert(numbers.end(), kernel.tables.begin(), kernel.tables.end());
  const std::vector<const ComponentNumbers*> columns = columns_of(group);
  const std::size_t scalars = group.scalars;
  const std::size_t widest = std::max({columns.size(), 2 * scalars, kWalkReport});
  const std::size_t most = std::max<std::size_t>(1, kMostBytes / (sizeof(T) * widest));
  for (std::size_t first = 0; first < group.count; first += most) {
    const std::size_t count = std::min(most, group.count - first);
    const std::span<T> start = first_of(memory.start, scalars * count);
    const std::span<T> data = first_of(memory.data, columns.size() * count);
    find_limits(program, first, count, pool, memory.limits);
    for_parts(pool, count, [&](std::size_t part, std::size_t last) {
      for (std::size_t s = 0; s < scalars; ++s)
        gather(x.data(), group.x[s], first, part, last, start.data() + s * count);
      for (std::size_t c = 0; c < columns.size(); ++c)
        gather(columns[c]->from, *columns[c]->positions, first, part, last,
               data.data() + c * count);
    });
    DeviceProgram task{
        .name = "components", .glsl = kernel.source, .items = count * kernel.invocations};
    const std::span<T> end = first_of(memory.end, scalars * count);
    const std::span<T> report = first_of(memory.report, kWalkReport * count);
    const std::span<T> arrays[] = {start, data, numbers, memory.limits, end, report};
    for (const WalkBuffer buffer : buffers_of_walk(group)) {
      const std::span<T> array = arrays[static_cast<std::size_t>(buffer)];
      if (buffer >= WalkBuffer::end) {
        task.arrays.push_back({.written = {std::as_writable_bytes(array)}});
      } else {
        task.arrays.push_back({.read = {std::as_bytes(array)}});
      }
    }
    dispatch(task, program.options().max_iterations);
    take<T>(end, report, first, pool, walks);
  }
}

void DeviceWalk::run(const LaneProgram& program, const WalkKernel& kernel,
                     std::span<const double> x, runtime::cpu::Pool& pool, Walks& walks) {
  const ComponentGroup& group = program.group();
  walks.precision = device_.precision;
  walks.x.resize(group.count * group.scalars);
  walks.initial_cost.resize(group.count);
  walks.final_cost.resize(group.count);
  walks.end.resize(group.count);
  walks.accepted.resize(group.count);
  walks.rejected.resize(group.count);
  if (device_.precision == Precision::f64) {
    run_as(program, kernel, x, pool, f64_, walks);
  } else {
    run_as(program, kernel, x, pool, f32_, walks);
  }
}

}  // namespace topograd
