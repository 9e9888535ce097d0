// Sources and dispatches of walks.
#include "device_walk.hpp"

#include "../../codegen/glsl/function.hpp"
#include "../../codegen/glsl/text.hpp"
#include "../../ir/enum_table.hpp"
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

using codegen::text;
using runtime::hybrid::DeviceArray;
using runtime::hybrid::DeviceProgram;

/// Largest buffer of a dispatch: devices must have 128 MiB.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
/// Numbers of a walk besides its x: initial cost, accepted and rejected steps, final cost, and the
/// number of its end in kEnds.
constexpr std::size_t kReported = 5;
constexpr std::array kEnds = {End::none, End::gradient, End::cost_change, End::iterations,
                              End::predicted_change};
/// Rules at the head of the numbers that components share.
constexpr std::size_t kRules = 8;
/// Components whose numbers a thread gathers at once.
constexpr std::size_t kGatheredAtOnce = 512;

/// Arrays of a kernel, in the order of their bindings.
enum class Buffer : std::uint8_t { start, data, numbers, limits, end, report };
TG_ENUM_NAMES(Buffer)

bool has_columns(const ComponentGroup& group) {
  return std::ranges::any_of(group.residuals, [](const ComponentRows& rows) {
    return std::ranges::any_of(rows.data,
                               [](const ComponentNumbers& n) { return n.places != nullptr; });
  });
}

/// All components of the group have the same bounds.
bool shares_limits(const LaneProgram& program) {
  return std::ranges::all_of(program.group().x,
                             [&](const Places& x) { return program.shares_bounds(x); });
}

std::vector<Buffer> buffers_of(const ComponentGroup& group) {
  std::vector<Buffer> out = {Buffer::start};
  if (has_columns(group)) out.push_back(Buffer::data);
  out.push_back(Buffer::numbers);
  if (group.bounded) out.push_back(Buffer::limits);
  out.insert(out.end(), {Buffer::end, Buffer::report});
  return out;
}

/// Residual blocks of one kernel over the same unknowns, whose numbers come from the same kinds of
/// places: a loop in the source.
struct RowRun {
  std::size_t first = 0, count = 0;
  std::size_t data = 0, numbers = 0;  ///< first of their columns and shared numbers
};

bool is_alike(const ComponentRows& a, const ComponentRows& b) {
  return a.kernel == b.kernel && a.unknowns == b.unknowns &&
         std::ranges::equal(a.data, b.data,
                            [](const ComponentNumbers& p, const ComponentNumbers& q) {
                              return (p.places == nullptr) == (q.places == nullptr);
                            });
}

std::size_t columns_of(const ComponentRows& rows) {
  return static_cast<std::size_t>(std::ranges::count_if(
      rows.data, [](const ComponentNumbers& n) { return n.places != nullptr; }));
}

std::vector<RowRun> runs_of(const ComponentGroup& group) {
  std::vector<RowRun> runs;
  std::size_t data = 0, numbers = kRules;
  for (std::size_t j = 0; j < group.residuals.size(); ++j) {
    const ComponentRows& rows = group.residuals[j];
    if (runs.empty() || !is_alike(group.residuals[runs.back().first], rows))
      runs.push_back({.first = j, .data = data, .numbers = numbers});
    ++runs.back().count;
    data += columns_of(rows);
    numbers += rows.data.size() - columns_of(rows);
  }
  return runs;
}

/// Position of (i, j), i <= j, in the rows of an upper triangle.
std::string upper(const char* n, const char* i, const char* j) {
  return text(i, "*", n, "-", i, "*(", i, "+1u)/2u+", j);
}

/// The calls that add a run's rows to the sums.
std::string run_source(const LaneProgram& program, const RowRun& run) {
  const ComponentGroup& group = program.group();
  const ComponentRows& rows = group.residuals[run.first];
  const LaneKernel& kernel = program.kernel(rows.kernel);
  const std::size_t columns = columns_of(rows), numbers = rows.data.size() - columns;
  std::string arguments;
  const auto add = [&](const std::string& argument) {
    arguments += (arguments.empty() ? "" : ", ") + argument;
  };
  std::size_t column = 0, number = 0;
  for (const ComponentNumbers& n : rows.data) {
    if (n.places != nullptr) {
      add(text("data[(", run.data + column++, "u + j * ", columns, "u) * items + k]"));
    } else {
      add(text("numbers[", run.numbers + number++, "u + j * ", numbers, "u]"));
    }
  }
  for (const std::uint32_t scalar : rows.unknowns) add(text("x[", scalar, "]"));
  std::vector<std::uint32_t> places = {0};
  std::vector<std::uint32_t> scalars;
  for (const std::uint32_t p : kernel.free())
    scalars.push_back(program.free_number(rows.unknowns[p]));
  for (const std::uint32_t s : scalars) places.push_back(1 + s);
  for (std::size_t a = 0; a < scalars.size(); ++a)
    for (std::size_t b = a; b < scalars.size(); ++b)
      places.push_back(program.entry(scalars[a], scalars[b]));
  const std::uint32_t leaves = kernel.added().leaves.data;
  for (std::uint32_t d = kernel.first_sum(); d < leaves; ++d)
    add(text("sums[", places[d - kernel.first_sum()], "]"));
  for (const std::uint32_t s : kernel.sums()) add(text("sums[", places[s], "]"));
  return text("  for (uint j = 0u; j < ", run.count, "u; ++j)\n    rows", rows.kernel, "(",
              arguments, ");\n");
}

constexpr const char* kWalk = R"(
bool is_finite(T v) { return abs(v) < {INFINITY}; }

/// The step d in the units of x, damped by 1 / radius. False if the system is not positive definite,
/// or promises no decrease.
bool find_step(uint k, in T x[S], in T sums[M], in T s[N], T radius, out T d[N], out T expected) {
  T y[N], L[N * (N + 1u) / 2u];
  // (S JᵀJ S + λ D) y = −S g by Cholesky's factor by rows, with reciprocals on its diagonal.
  bool definite = true;
  for (uint i = 0u; i < N; ++i) {
    y[i] = is_held(k, x, sums, i) ? T(0) : s[i];
    for (uint j = 0u; j <= i; ++j) {
      T sum = y[i] * y[j] * sums[entry(j, i)];
      if (i == j) sum += clamp(sum, numbers[4], numbers[5]) / radius;
      for (uint m = 0u; m < j; ++m) sum -= L[lower(i, m)] * L[lower(j, m)];
      if (i == j) {
        definite = definite && sum > T(0) && is_finite(sum);
        L[lower(i, i)] = T(1) / sqrt(sum);
      } else {
        L[lower(i, j)] = sum * L[lower(j, j)];
      }
    }
  }
  for (uint i = 0u; i < N; ++i) {
    d[i] = -y[i] * sums[1u + i];
    for (uint m = 0u; m < i; ++m) d[i] -= L[lower(i, m)] * d[m];
    d[i] *= L[lower(i, i)];
  }
  for (uint i = N; i-- > 0u;) {
    for (uint m = i + 1u; m < N; ++m) d[i] -= L[lower(m, i)] * d[m];
    d[i] *= L[lower(i, i)];
  }
  T slope = T(0), square = T(0);
  for (uint i = 0u; i < N; ++i) {
    d[i] *= y[i];
    slope += sums[1u + i] * d[i];
  }
  for (uint i = 0u; i < N; ++i) {
    T product = sums[entry(i, i)] * d[i];
    for (uint j = i + 1u; j < N; ++j) product += T(2) * sums[entry(i, j)] * d[j];
    square += d[i] * product;
  }
  expected = -slope - square / T(2);
  return definite && expected > T(0);
}

/// max |g_i| / ‖J_i‖ over what no bound holds.
T size_of_gradient(uint k, in T x[S], in T sums[M]) {
  T largest = T(0);
  for (uint i = 0u; i < N; ++i) {
    T h = sums[entry(i, i)];
    if (h > T(0) && !is_held(k, x, sums, i)) largest = max(largest, abs(sums[1u + i]) / sqrt(h));
  }
  return largest;
}

void main() {
  uint k = first + gl_GlobalInvocationID.x;
  if (k >= items) return;
  T x[S], t[S], sums[M], trial[M], d[N], s[N];
  for (uint i = 0u; i < S; ++i) x[i] = t[i] = start[i * items + k];
  for (uint i = 0u; i < N; ++i) s[i] = T(0);
  T cost = T(0), initial = {INFINITY}, expected = T(0), radius = numbers[0], shrink = T(2);
  uint accepted = 0u, rejected = 0u, invalid = 0u;
  uint by = 0u;  // the rule that ended it
  bool begun = false, ends = false;
  while (!ends) {
    evaluate(k, t, trial);
    T after = trial[0] / T(2), change = cost - after, gain = change / expected;
    bool values = true;
    for (uint i = 0u; i < M; ++i) values = values && is_finite(trial[i]);
    bool takes = values && (!begun || gain > numbers[6]);
    if (!begun) {
      ends = !values;
      if (values) initial = after;
    } else if (takes) {
      T bend = T(2) * gain - T(1);
      radius = min(numbers[1], radius / max(T(1) / T(3), T(1) - bend * bend * bend));
      shrink = T(2);
      ++accepted;
      ends = change <= numbers[2] * cost;
      if (ends) by = 2u;
    } else {
      radius /= shrink;
      shrink *= T(2);
      ++rejected;
      ends = expected <= numbers[2] * cost;
      if (ends) by = 4u;
      ends = ends || !(radius > numbers[7]);
    }
    if (takes) {
      cost = after;
      for (uint i = 0u; i < S; ++i) x[i] = t[i];
      for (uint i = 0u; i < M; ++i) sums[i] = trial[i];
      // Scales stay as they were first not 0.
      for (uint i = 0u; i < N; ++i)
        if (!(s[i] > T(0)) && sums[entry(i, i)] > T(0)) s[i] = T(1) / sqrt(sums[entry(i, i)]);
      if (size_of_gradient(k, x, sums) <= numbers[3] * sqrt(T(2) * cost)) {
        ends = true;
        by = 1u;
      }
    }
    begun = true;
    bool steps = false;
    while (!ends && !steps) {
      ends = accepted + rejected >= most;
      if (ends) by = 3u;
      if (ends) break;
      steps = find_step(k, x, sums, s, radius, d, expected);
      invalid = steps ? 0u : invalid + 1u;
      if (steps) break;
      radius /= T(2);
      ++rejected;
      ends = invalid > 5u;
    }
    if (steps) move(k, x, d, t);
  }
  for (uint i = 0u; i < S; ++i) end[i * items + k] = x[i];
  report[k] = initial;
  report[items + k] = T(accepted);
  report[2u * items + k] = T(rejected);
  report[3u * items + k] = cost;
  report[4u * items + k] = T(by);
}
)";

}  // namespace

std::string obstacle_of_walk(const ComponentGroup& group) {
  if (group.on_manifolds) return "components on manifolds";
  if (group.columns > kLargestWalk)
    return "components of more than " + std::to_string(kLargestWalk) + " unknowns";
  return {};
}

std::string walk_source(const LaneProgram& program, Precision precision) {
  const ComponentGroup& group = program.group();
  std::vector<std::string> names;
  std::vector<codegen::NamedProgram> programs;
  for (std::size_t k = 0; k < group.kernels.size(); ++k) names.push_back(text("rows", k));
  for (std::size_t k = 0; k < group.kernels.size(); ++k)
    programs.push_back({names[k], &program.kernel(k).added()});
  std::string free_of, limits, held = "false";
  for (std::uint32_t c = 0; c < group.scalars; ++c)
    if (group.column[c] != ComponentGroup::kFixed)
      free_of += text(free_of.empty() ? "" : ", ", c, "u");
  if (group.bounded) {
    const bool shared = shares_limits(program);
    const std::string low = shared ? "limits[p]" : "limits[p * items + k]";
    const std::string high = shared ? "limits[S + p]" : "limits[(S + p) * items + k]";
    limits = "    t[p] = min(max(t[p], " + low + "), " + high + ");\n";
    held = "(x[p] <= " + low + " && sums[1u + i] > T(0)) ||\n         (x[p] >= " + high +
           " && sums[1u + i] < T(0))";
  }
  std::string out =
      text("#version 450\n\n// The walk of each component of a group: ", group.columns,
           " unknowns, ", group.rows, " residuals.\nlayout(local_size_x = 64) in;\n\n#define T ",
           codegen::scalar_type(precision), "\nconst uint N = ", group.columns,
           "u, S = ", group.scalars, "u, M = ", program.sums(),
           "u;\n\nlayout(push_constant) uniform Push {\n  uint first;\n  uint items;\n  uint "
           "zero_bits;\n  uint most;  // steps\n};\n");
  std::size_t binding = 0;
  for (const Buffer buffer : buffers_of(group))
    out += text("layout(std430, binding = ", binding++, ") ",
                buffer >= Buffer::end ? "writeonly" : "readonly", " buffer Buffer_", name(buffer),
                " { T ", name(buffer), "[]; };\n");
  out += text("\nconst uint scalar_of[N] = uint[N](", free_of,
              ");\nuint entry(uint i, uint j) { return 1u + N + ", upper("N", "i", "j"),
              "; }  // i <= j\n"
              "uint lower(uint i, uint j) { return i * (i + 1u) / 2u + j; }  // j <= i\n\n") +
         codegen::write_functions(programs, precision) +
         "\n/// Twice the cost, the gradient, the upper triangle of JᵀJ by rows.\n"
         "void evaluate(uint k, in T x[S], out T sums[M]) {\n"
         "  for (uint i = 0u; i < M; ++i) sums[i] = T(0);\n";
  for (const RowRun& run : runs_of(group)) out += run_source(program, run);
  out += text(
      "}\n\nvoid move(uint k, in T x[S], in T d[N], out T t[S]) {\n"
      "  for (uint i = 0u; i < S; ++i) t[i] = x[i];\n  for (uint i = 0u; i < N; ++i) {\n"
      "    uint p = scalar_of[i];\n    t[p] += d[i];\n",
      limits,
      "  }\n}\n\n/// A bound holds free coordinate i.\n"
      "bool is_held(uint k, in T x[S], in T sums[M], uint i) {\n  uint p = scalar_of[i];\n  "
      "return ",
      held, ";\n}\n");
  const char* infinity = precision == Precision::f64 ? "packDouble2x32(uvec2(0u, 0x7ff00000u))"
                                                     : "uintBitsToFloat(0x7f800000u)";
  return out + codegen::substitute(kWalk, {{"INFINITY", infinity}});
}

DeviceWalk::DeviceWalk(const SolverOptions& options)
    : precision_(options.precision == Precision::f64 ? Precision::f64 : Precision::f32) {
  const DeviceFacts facts = probe_device(options);
  if (!facts.usable) throw Error(facts.code, "backend vulkan: " + facts.problem);
  if (precision_ == Precision::f64 && !facts.float64)
    throw Error(ErrorCode::Unsupported,
                "backend vulkan: components expect a device with float64, got " + facts.name +
                    "; use precision mixed");
  require_self_check(options);
  backend_ = make_device_backend(options);
  device_ = facts.name;
}
DeviceWalk::~DeviceWalk() = default;

namespace {

/// The rules, then the numbers that all components share.
template <class T>
std::vector<T> shared_numbers(const ComponentGroup& group, const SolverOptions& o) {
  constexpr double kRounding = 4 * static_cast<double>(std::numeric_limits<T>::epsilon());
  constexpr double kLeastRadius = 1e-30;  // in f32, too
  const double least = o.jacobi_scaling && o.scale_free ? runtime::kLeastDiagonalOfSmall : 0;
  const double rules[kRules] = {o.initial_trust_region_radius,
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
      if (n.places == nullptr) numbers.push_back(static_cast<T>(*n.from));
  return numbers;
}

std::vector<const ComponentNumbers*> columns_of(const ComponentGroup& group) {
  std::vector<const ComponentNumbers*> columns;
  for (const ComponentRows& rows : group.residuals)
    for (const ComponentNumbers& n : rows.data)
      if (n.places != nullptr) columns.push_back(&n);
  return columns;
}

/// Calls f(first, last) for ranges of a dispatch's components, on all threads.
template <class F>
void for_parts(runtime::cpu::Pool& pool, std::size_t count, const F& f) {
  pool.for_ranges(count, kGatheredAtOnce, f);
}

/// to[k] = from[places of component first + k], for k in [begin, end).
template <class T>
void gather(const double* from, const Places& places, std::size_t first, std::size_t begin,
            std::size_t end, T* to) {
  if (places.list.empty()) {
    const double* at = from + places.first + (first + begin) * places.step;
    for (std::size_t k = begin; k < end; ++k, at += places.step) to[k] = static_cast<T>(*at);
  } else {
    for (std::size_t k = begin; k < end; ++k) to[k] = static_cast<T>(from[places.list[first + k]]);
  }
}

/// Lower, then upper bounds of components [first, first + count), by scalar; those of one component
/// if all have the same.
template <class T>
void find_limits(const LaneProgram& program, std::size_t first, std::size_t count,
                 runtime::cpu::Pool& pool, std::vector<T>& limits) {
  const ComponentGroup& group = program.group();
  if (!group.bounded) return limits.clear();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::size_t scalars = group.scalars, each = shares_limits(program) ? 1 : count;
  limits.resize(2 * scalars * each);
  for_parts(pool, each, [&](std::size_t begin, std::size_t end) {
    for (std::size_t s = 0; s < scalars; ++s) {
      for (std::size_t k = begin; k < end; ++k) {
        const std::size_t place = group.x[s].at(first + k);
        limits[s * each + k] =
            static_cast<T>(program.has_lower() ? program.lower(place) : -kInfinity);
        limits[(scalars + s) * each + k] =
            static_cast<T>(program.has_upper() ? program.upper(place) : kInfinity);
      }
    }
  });
}

/// Results of one dispatch, by column.
template <class T>
void take(std::span<const T> end, std::span<const T> report, std::size_t first,
          runtime::cpu::Pool& pool, Walks& walks) {
  const std::size_t count = report.size() / kReported, scalars = end.size() / count;
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
void DeviceWalk::run_as(const LaneProgram& program, const std::string& source,
                        std::span<const double> x, runtime::cpu::Pool& pool, Memory<T>& memory,
                        Walks& walks) {
  const ComponentGroup& group = program.group();
  auto& [start, data, limits, end, report] = memory;
  std::vector<T> numbers = shared_numbers<T>(group, program.options());
  const std::vector<const ComponentNumbers*> columns = columns_of(group);
  const std::size_t scalars = group.scalars;
  const std::size_t widest = std::max({columns.size(), 2 * scalars, kReported});
  const std::size_t most = std::max<std::size_t>(1, kMostBytes / (sizeof(T) * widest));
  for (std::size_t first = 0; first < group.count; first += most) {
    const std::size_t count = std::min(most, group.count - first);
    start.resize(scalars * count);
    data.resize(columns.size() * count);
    end.resize(start.size());
    report.resize(kReported * count);
    find_limits(program, first, count, pool, limits);
    for_parts(pool, count, [&](std::size_t part, std::size_t last) {
      for (std::size_t s = 0; s < scalars; ++s)
        gather(x.data(), group.x[s], first, part, last, start.data() + s * count);
      for (std::size_t c = 0; c < columns.size(); ++c)
        gather(columns[c]->from, *columns[c]->places, first, part, last, data.data() + c * count);
    });
    DeviceProgram task{.name = "components", .glsl = source, .items = count};
    std::vector<T>* const arrays[] = {&start, &data, &numbers, &limits, &end, &report};
    for (const Buffer buffer : buffers_of(group)) {
      std::vector<T>& array = *arrays[static_cast<std::size_t>(buffer)];
      if (buffer >= Buffer::end) {
        task.arrays.push_back({.written = {std::as_writable_bytes(std::span(array))}});
      } else {
        task.arrays.push_back({.read = {std::as_bytes(std::span(array))}});
      }
    }
    dispatch(task, program.options().max_iterations);
    take<T>(end, report, first, pool, walks);
  }
}

void DeviceWalk::run(const LaneProgram& program, const std::string& source,
                     std::span<const double> x, runtime::cpu::Pool& pool, Walks& walks) {
  const ComponentGroup& group = program.group();
  walks.x.resize(group.count * group.scalars);
  walks.initial_cost.resize(group.count);
  walks.final_cost.resize(group.count);
  walks.end.resize(group.count);
  walks.accepted.resize(group.count);
  walks.rejected.resize(group.count);
  if (precision_ == Precision::f64) {
    run_as(program, source, x, pool, f64_, walks);
  } else {
    run_as(program, source, x, pool, f32_, walks);
  }
}

}  // namespace topograd
