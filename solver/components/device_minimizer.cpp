// Minimisation of components on a device: source, numbers and dispatches of the kernels.
#include "device_minimizer.hpp"

#include "../../codegen/glsl/program.hpp"
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
#include <optional>
#include <utility>

namespace topograd {

TG_ENUM_NAMES(MinimizerBuffer)

namespace {

using codegen::text;

/// Invocations of a workgroup that minimises one component.
constexpr std::uint32_t kLanes = 64;
/// Up to so many unknowns of one invocation loops are unrolled and the factor has numbers of its
/// own, so that all of them are in registers: a quarter to a third of the time on an H200.
constexpr std::uint32_t kLargestUnrolled = 8;
/// Shared memory for rows of the Jacobian: enough for some rows at once, and little beside the
/// sums.
constexpr std::size_t kRowBytes = 8192;

bool has_columns(const ComponentGroup& group) {
  return std::ranges::any_of(group.residuals, [](const ComponentRows& rows) {
    return std::ranges::any_of(rows.data,
                               [](const ComponentNumbers& n) { return n.positions != nullptr; });
  });
}

bool takes_alike(const ComponentRows& a, const ComponentRows& b) {
  return a.kernel == b.kernel &&
         std::ranges::equal(a.data, b.data,
                            [](const ComponentNumbers& p, const ComponentNumbers& q) {
                              return (p.positions == nullptr) == (q.positions == nullptr);
                            });
}

std::size_t columns_of(const ComponentRows& rows) {
  return static_cast<std::size_t>(std::ranges::count_if(
      rows.data, [](const ComponentNumbers& n) { return n.positions != nullptr; }));
}

/// Residual blocks of one kernel over the same unknowns, whose numbers come from the same kinds of
/// arrays.
struct RowRun {
  std::size_t first = 0, count = 0;
  std::size_t data = 0, numbers = 0;  ///< first of their columns and shared numbers
};

std::vector<RowRun> runs_of(const ComponentGroup& group) {
  std::vector<RowRun> runs;
  std::size_t data = 0, numbers = kMinimizerRules;
  for (std::size_t j = 0; j < group.residuals.size(); ++j) {
    const ComponentRows& rows = group.residuals[j];
    const bool joins = !runs.empty() && takes_alike(group.residuals[runs.back().first], rows) &&
                       group.residuals[runs.back().first].unknowns == rows.unknowns;
    if (!joins) runs.push_back({.first = j, .data = data, .numbers = numbers});
    ++runs.back().count;
    data += columns_of(rows);
    numbers += rows.data.size() - columns_of(rows);
  }
  return runs;
}

/// Numbers that the components share, without tables.
std::size_t shared_numbers_of(const ComponentGroup& group) {
  std::size_t numbers = kMinimizerRules;
  for (const ComponentRows& rows : group.residuals) numbers += rows.data.size() - columns_of(rows);
  return numbers;
}

/// Arguments of a call: "a, b, c".
class Arguments {
 public:
  void add(const std::string& argument) { out_ += (out_.empty() ? "" : ", ") + argument; }
  /// The numbers of block j of a run, whose columns and shared numbers begin at these expressions.
  void add_data(const ComponentRows& rows, const std::string& data, const std::string& numbers) {
    const std::size_t columns = columns_of(rows), shared = rows.data.size() - columns;
    std::size_t column = 0, number = 0;
    for (const ComponentNumbers& n : rows.data) {
      if (n.positions != nullptr) {
        add(text("data[(", data, " + ", column++, "u + j * ", columns, "u) * count + k]"));
      } else {
        add(text("numbers[", numbers, " + ", number++, "u + j * ", shared, "u]"));
      }
    }
  }
  const std::string& text_of() const { return out_; }

 private:
  std::string out_;
};

/// Name of the function of a kernel's part.
std::string part_name(const LaneProgram& program, std::size_t kernel, std::size_t part) {
  const std::string name = text("rows", kernel);
  return program.kernel(kernel).parts().size() > 1 ? text(name, "_", part) : name;
}

/// The source of a slot of a block, a column of the group's data or a number that all components
/// share, and its index among those of the block.
struct SlotIndex {
  bool is_column = false;
  std::size_t index = 0;
};

std::vector<SlotIndex> index_slots(const ComponentRows& rows) {
  std::vector<SlotIndex> out;
  std::size_t columns = 0, numbers = 0;
  for (const ComponentNumbers& n : rows.data)
    out.push_back(n.positions != nullptr ? SlotIndex{true, columns++}
                                         : SlotIndex{false, numbers++});
  return out;
}

/// How much further each step of a loop reads; nothing if that differs.
std::optional<std::int64_t> stride_of(const std::vector<SlotIndex>& slots,
                                      const autodiff::RolledProgram::Datum& datum,
                                      std::uint32_t steps) {
  const auto index = [&](std::uint32_t k) {
    return static_cast<std::int64_t>(slots[datum.at(k)].index);
  };
  const std::int64_t stride = steps > 1 ? index(1) - index(0) : 0;
  for (std::uint32_t k = 1; k < steps; ++k)
    if (slots[datum.at(k)].is_column != slots[datum.first].is_column ||
        index(k) - index(k - 1) != stride)
      return std::nullopt;
  return stride;
}

/// Calls a part of the kernel of block j in a run.
class PartCall {
 public:
  PartCall(const LaneProgram& program, const RowRun& run, std::size_t part)
      : program_(program),
        run_(run),
        rows_(program.group().residuals[run.first]),
        part_(program.kernel(rows_.kernel).parts()[part]),
        name_(part_name(program, rows_.kernel, part)),
        slots_(index_slots(rows_)) {}

  /// The calls of all steps: by a loop, if each reads equally much further.
  std::string source() const {
    std::vector<std::int64_t> strides;
    for (const autodiff::RolledProgram::Datum& datum : part_.data) {
      const std::optional<std::int64_t> stride = stride_of(slots_, datum, part_.steps);
      if (!stride) return unrolled();
      strides.push_back(*stride);
    }
    Arguments arguments;
    for (std::size_t d = 0; d < strides.size(); ++d)
      add_datum(arguments, part_.data[d].first, strides[d]);
    std::string call = text("    ", name_, "(", rest(std::move(arguments)), ");\n");
    if (part_.steps == 1) return call;
    return text("    for (uint step = 0u; step < ", part_.steps, "u; ++step)\n  ", call);
  }

 private:
  std::string unrolled() const {
    std::string out;
    for (std::uint32_t k = 0; k < part_.steps; ++k) {
      Arguments arguments;
      for (const autodiff::RolledProgram::Datum& datum : part_.data)
        add_datum(arguments, datum.at(k), 0);
      out += text("    ", name_, "(", rest(std::move(arguments)), ");\n");
    }
    return out;
  }

  void add_datum(Arguments& arguments, std::size_t slot, std::int64_t stride) const {
    const auto [is_column, index] = slots_[slot];
    const std::size_t columns = columns_of(rows_), shared = rows_.data.size() - columns;
    const std::string moved = stride == 0   ? ""
                              : stride == 1 ? " + step"
                                            : text(" + step * ", std::to_string(stride), "u");
    if (is_column) {
      arguments.add(text("data[(", run_.data, "u + ", index, "u", moved, " + j * ", columns,
                         "u) * count + k]"));
    } else {
      arguments.add(
          text("numbers[", run_.numbers, "u + ", index, "u", moved, " + j * ", shared, "u]"));
    }
  }

  /// Adds the arguments besides data: uniforms, parameters, sums.
  std::string rest(Arguments arguments) const {
    const ComponentGroup& group = program_.group();
    const std::size_t data = group.kernels[rows_.kernel].term->topology->program.leaves.data;
    for (std::uint32_t slot = part_.first_uniform; slot < part_.first_parameter; ++slot)
      add_datum(arguments, data + slot - part_.first_uniform, 0);
    for (const std::uint32_t scalar : rows_.unknowns) arguments.add(text("t[", scalar, "]"));
    const std::vector<std::uint32_t> sums = program_.sums_of(rows_);
    const auto add_target = [&](const LanePart::Target& target) {
      arguments.add(target.carried ? text("carried[", target.number, "]")
                                   : text("trial[", sums[target.number], "]"));
    };
    for (const LanePart::Target& target : part_.targets) add_target(target);
    for (const LanePart::Target& target : part_.outputs) add_target(target);
    return arguments.text_of();
  }

  const LaneProgram& program_;
  const RowRun& run_;
  const ComponentRows& rows_;
  const LanePart& part_;
  const std::string name_;
  const std::vector<SlotIndex> slots_;
};

/// The calls that add a run's rows to the sums.
std::string run_source(const LaneProgram& program, const RowRun& run) {
  const std::size_t kernel = program.group().residuals[run.first].kernel;
  const std::size_t parts = program.kernel(kernel).parts().size();
  std::string calls;
  for (std::size_t p = 0; p < parts; ++p) calls += PartCall(program, run, p).source();
  return text("  for (uint j = 0u; j < ", run.count, "u; ++j) {\n", calls, "  }\n");
}

/// Shared memory of a workgroup that minimises a component.
struct SharedMemory {
  SharedMemory(const ComponentGroup& group, Precision precision) {
    const std::size_t n = group.columns, s = group.scalars, m = 1 + n + n * (n + 1) / 2;
    number = precision == Precision::f64 ? 8 : 4;
    fixed = (2 * s + 4 * n + 2 * m) * number + 4;
    for (const ComponentKernel& kernel : group.kernels) {
      const auto free = static_cast<std::size_t>(
          std::ranges::count_if(kernel.free, [](std::uint8_t f) { return f != 0; }));
      each.push_back(1 + kernel.term->topology->program.outputs.size() * (1 + free));
    }
  }
  /// Numbers for rows: those of one block at least.
  std::size_t rows(std::uint32_t bytes) const {
    const std::size_t one = *std::ranges::max_element(each);
    const std::size_t room = bytes > fixed ? (bytes - fixed) / number : 0;
    return std::max(one, std::min(room, kRowBytes / number));
  }
  bool fits(std::uint32_t bytes) const { return fixed + rows(bytes) * number <= bytes; }

  std::size_t number = 0;         ///< bytes of a number
  std::size_t fixed = 0;          ///< bytes besides rows
  std::vector<std::size_t> each;  ///< numbers of a block's rows, by kernel
};

/// The loop that adds the rows of all blocks with one kernel whose numbers come from the same kinds
/// of arrays. The lanes evaluate blocks side by side; then they add those of each run. Tables say
/// for each run which blocks it has, where their numbers begin, which scalars they read, and which
/// numbers these have among the free ones; and for each block which run it is in.
std::string kind_source(const LaneProgram& program, const std::vector<RowRun>& runs,
                        std::size_t at_once, MinimizerKernel& out) {
  const ComponentGroup& group = program.group();
  const ComponentRows& rows = group.residuals[runs.front().first];
  const LaneKernel& kernel = program.kernel(rows.kernel);
  const std::size_t m = kernel.row_count(), n = kernel.free().size(),
                    unknowns = rows.unknowns.size();
  const std::size_t each = 1 + m * (1 + n), stride = 4 + unknowns + n;
  const std::size_t table = shared_numbers_of(group) + out.tables.size();
  std::vector<std::uint32_t> run_of_block;
  for (const RowRun& run : runs) {
    const std::vector<std::uint32_t>& scalars = group.residuals[run.first].unknowns;
    const std::size_t first = run_of_block.size();
    for (const std::size_t entry : {first, first + run.count, run.data, run.numbers})
      out.tables.push_back(static_cast<std::uint32_t>(entry));
    out.tables.insert(out.tables.end(), scalars.begin(), scalars.end());
    for (const std::uint32_t p : kernel.free())
      out.tables.push_back(program.free_number(scalars[p]));
    run_of_block.resize(first + run.count, static_cast<std::uint32_t>(&run - runs.data()));
  }
  out.tables.insert(out.tables.end(), run_of_block.begin(), run_of_block.end());
  Arguments arguments;
  arguments.add_data(rows, "uint(numbers[at + 2u])", "uint(numbers[at + 3u])");
  for (std::size_t p = 0; p < unknowns; ++p)
    arguments.add(text("t[uint(numbers[at + ", 4 + p, "u])]"));
  for (std::size_t e = 0; e < each; ++e) arguments.add(text("rows[LANE * ", each, "u + ", e, "u]"));
  const std::string run_at =
      text(table, "u + ", stride, "u * uint(numbers[", table + runs.size() * stride, "u + from + ");
  codegen::Lines lines(1);
  lines.open("for (uint from = 0u; from < ", run_of_block.size(), "u; from += ", at_once, "u)");
  lines.line("uint here = min(", at_once, "u, ", run_of_block.size(), "u - from);");
  lines.open("if (LANE < here)");
  lines.line("uint at = ", run_at, "LANE]), j = from + LANE - uint(numbers[at]);");
  lines.line("rows", rows.kernel, "(", arguments.text_of(), ");");
  lines.close();
  lines.line("SYNC;");
  lines.open("for (uint block = 0u; block < here;)");
  lines.line("uint at = ", run_at, "block]);");
  lines.line("uint last = min(here, uint(numbers[at + 1u]) - from);");
  lines.line("add_rows(block, last, ", m, "u, ", n, "u, at + ", 4 + unknowns, "u);");
  lines.line("block = last;");
  lines.line("SYNC;");
  lines.close();
  lines.close();
  return lines.text();
}

/// evaluate() by a workgroup.
std::string kinds_source(const LaneProgram& program, std::size_t rows, const SharedMemory& memory,
                         MinimizerKernel& out) {
  const ComponentGroup& group = program.group();
  std::vector<std::vector<RowRun>> kinds;
  for (const RowRun& run : runs_of(group)) {
    const auto kind = std::ranges::find_if(kinds, [&](const std::vector<RowRun>& runs) {
      return takes_alike(group.residuals[runs.front().first], group.residuals[run.first]);
    });
    if (kind != kinds.end()) {
      kind->push_back(run);
    } else {
      kinds.push_back({run});
    }
  }
  std::string source;
  for (const std::vector<RowRun>& runs : kinds) {
    const std::size_t each = memory.each[group.residuals[runs.front().first].kernel];
    source += kind_source(program, runs, std::clamp<std::size_t>(rows / each, 1, kLanes), out);
  }
  return source;
}

constexpr const char* kAddRows = R"(
/// The (i, j), i <= j, of number q of an upper triangle: row r and the row that is as far from the
/// end have n + 1 numbers together.
uvec2 pair_of(uint q, uint n) {
  uint r = q / (n + 1u), c = q % (n + 1u), last = n - 1u - r;
  return c < n - r ? uvec2(r, r + c) : uvec2(last, last + c - (n - r));
}

/// Adds blocks [begin, end) of m rows over the same n free unknowns to the sums: each of `rows` has
/// twice its cost, its residuals, and its Jacobian.
void add_rows(uint begin, uint end, uint m, uint n, uint table) {
  uint each = 1u + m * (1u + n);
  EACH(q, 0u, 1u + n + n * (n + 1u) / 2u) {
    T sum = T(0);
    uint place = 0u;
    if (q == 0u) {
      for (uint b = begin; b < end; ++b) sum += rows[b * each];
    } else {
      bool of_gradient = q <= n;
      uvec2 ab = of_gradient ? uvec2(q - 1u) : pair_of(q - 1u - n, n);
      uint i = uint(numbers[table + ab.x]), j = uint(numbers[table + ab.y]);
      place = of_gradient ? 1u + i : entry(min(i, j), max(i, j));
      for (uint b = begin; b < end; ++b) {
        for (uint r = 0u; r < m; ++r) {
          uint first_of_row = b * each + 1u + m + r * n;
          T other = of_gradient ? rows[b * each + 1u + r] : rows[first_of_row + ab.y];
          sum += rows[first_of_row + ab.x] * other;
        }
      }
    }
    trial[place] += sum;
  }
}
)";

constexpr const char* kMinimizer = R"(
/// The step d in the units of x, damped by 1 / radius. False if the system is not positive definite,
/// or promises no decrease.
bool find_step(T radius, out T expected) {
  SYNC;
  // (S JᵀJ S + λ D) y = −S g by Cholesky's factor by columns, with reciprocals on its diagonal.
  EACH(i, 0u, N) y[i] = is_held(i) ? T(0) : s[i];
  SYNC;
  UNROLLED for (uint j = 0u; j < N; ++j) {
    EACH(i, j, N) {
      T sum = y[i] * y[j] * sums[entry(j, i)];
      if (i == j) sum += clamp(sum, numbers[4], numbers[5]) / radius;
      UNROLLED for (uint m = 0u; m < j; ++m) sum -= L[lower(i, m)] * L[lower(j, m)];
      L[lower(i, j)] = sum;
      if (i == j) {
        term[i] = sum;
        L[lower(i, i)] = T(1) / sqrt(sum);
      }
    }
    SYNC;
    EACH(i, j + 1u, N) L[lower(i, j)] *= L[lower(j, j)];
    SYNC;
  }
  bool definite = true;
  UNROLLED for (uint i = 0u; i < N; ++i) definite = definite && term[i] > T(0) && is_finite(term[i]);
  EACH(i, 0u, N) d[i] = -y[i] * sums[1u + i];
  SYNC;
  UNROLLED for (uint j = 0u; j < N; ++j) {
    T solved = d[j] * L[lower(j, j)];
    EACH(i, j + 1u, N) d[i] -= L[lower(i, j)] * solved;
    SYNC;
    if (LANE == 0u) d[j] = solved;
  }
  SYNC;
  UNROLLED for (uint c = 0u; c < N; ++c) {
    uint j = N - 1u - c;
    T solved = d[j] * L[lower(j, j)];
    EACH(i, 0u, j) d[i] -= L[lower(j, i)] * solved;
    SYNC;
    if (LANE == 0u) d[j] = solved;
  }
  SYNC;
  EACH(i, 0u, N) {
    d[i] *= y[i];
    term[i] = sums[1u + i] * d[i];
  }
  SYNC;
  T slope = T(0), square = T(0);
  UNROLLED for (uint i = 0u; i < N; ++i) slope += term[i];
  SYNC;
  EACH(i, 0u, N) {
    T product = sums[entry(i, i)] * d[i];
    UNROLLED for (uint j = i + 1u; j < N; ++j) product += T(2) * sums[entry(i, j)] * d[j];
    term[i] = d[i] * product;
  }
  SYNC;
  UNROLLED for (uint i = 0u; i < N; ++i) square += term[i];
  expected = -slope - square / T(2);
  return definite && expected > T(0);
}

/// max |g_i| / ‖J_i‖ over what no bound holds.
T size_of_gradient() {
  SYNC;
  EACH(i, 0u, N) {
    T h = sums[entry(i, i)];
    term[i] = h > T(0) && !is_held(i) ? abs(sums[1u + i]) / sqrt(h) : T(0);
  }
  SYNC;
  T largest = T(0);
  UNROLLED for (uint i = 0u; i < N; ++i) largest = max(largest, term[i]);
  return largest;
}

void main() {
  count = items / LANES;
  k = (first + gl_GlobalInvocationID.x) / LANES;
  if (k >= count) return;
  EACH(i, 0u, S) x[i] = t[i] = start[i * count + k];
  EACH(i, 0u, N) s[i] = T(0);
  T cost = T(0), initial = {INFINITY}, expected = T(0), radius = numbers[0], shrink = T(2);
  uint accepted = 0u, rejected = 0u, invalid = 0u;
  uint by = 0u;  // the rule that ended it
  bool begun = false, ends = false;
  while (!ends) {
    evaluate();
    T after = trial[0] / T(2), change = cost - after, gain = change / expected;
    bool finite = true;
    EACH(i, 0u, M) finite = finite && is_finite(trial[i]);
    bool values = all_lanes(finite);
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
      EACH(i, 0u, S) x[i] = t[i];
      EACH(i, 0u, M) sums[i] = trial[i];
      SYNC;
      // Scales stay as they were first not 0.
      EACH(i, 0u, N)
        if (!(s[i] > T(0)) && sums[entry(i, i)] > T(0)) s[i] = T(1) / sqrt(sums[entry(i, i)]);
      if (size_of_gradient() <= numbers[3] * sqrt(T(2) * cost)) {
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
      steps = find_step(radius, expected);
      invalid = steps ? 0u : invalid + 1u;
      if (steps) break;
      radius /= T(2);
      ++rejected;
      ends = invalid > 5u;
    }
    if (steps) move();
  }
  EACH(i, 0u, S) end[i * count + k] = x[i];
  if (LANE == 0u) {
    report[k] = initial;
    report[count + k] = T(accepted);
    report[2u * count + k] = T(rejected);
    report[3u * count + k] = cost;
    report[4u * count + k] = T(by);
  }
}
)";

/// Writes move(), which sets t = x + d within the bounds, and is_held().
std::string move_source(const LaneProgram& program) {
  const ComponentGroup& group = program.group();
  std::string limits, held = "false";
  if (group.bounded) {
    const bool shared = shares_limits(program);
    const std::string low = shared ? "limits[p]" : "limits[p * count + k]";
    const std::string high = shared ? "limits[S + p]" : "limits[(S + p) * count + k]";
    limits = "    t[p] = min(max(t[p], " + low + "), " + high + ");\n";
    held = "(x[p] <= " + low + " && sums[1u + i] > T(0)) ||\n         (x[p] >= " + high +
           " && sums[1u + i] < T(0))";
  }
  return text(
      "\nvoid move() {\n  SYNC;\n  EACH(i, 0u, S) t[i] = x[i];\n  SYNC;\n  EACH(i, 0u, N) {\n"
      "    uint p = scalar_of[i];\n    t[p] += d[i];\n",
      limits,
      "  }\n}\n\n/// A bound holds free coordinate i.\nbool is_held(uint i) {\n"
      "  uint p = scalar_of[i];\n  return ",
      held, ";\n}\n");
}

/// Between two trials the factor is where the sums of a trial are.
constexpr const char* kSharesTrial = "\n#define L trial\n";

/// Functions of all kernels that write a block's rows.
std::string rows_source(const ComponentGroup& group, Precision precision) {
  std::vector<ir::Program> rows;
  std::vector<std::string> names;
  std::vector<codegen::NamedProgram> programs;
  for (const ComponentKernel& kernel : group.kernels) rows.push_back(cost_and_rows(kernel));
  for (std::size_t k = 0; k < rows.size(); ++k) names.push_back(text("rows", k));
  for (std::size_t k = 0; k < rows.size(); ++k) programs.push_back({names[k], &rows[k]});
  return codegen::write_functions(programs, precision);
}

/// Functions of all kernels that add a block to the sums.
std::string parts_source(const LaneProgram& program, Precision precision) {
  std::vector<std::string> names;
  std::vector<codegen::NamedProgram> programs;
  const std::size_t kernels = program.group().kernels.size();
  for (std::size_t k = 0; k < kernels; ++k)
    for (std::size_t p = 0; p < program.kernel(k).parts().size(); ++p)
      names.push_back(part_name(program, k, p));
  for (std::size_t k = 0; k < kernels; ++k)
    for (const LanePart& part : program.kernel(k).parts())
      programs.push_back({names[programs.size()], &part.program});
  return codegen::write_functions(programs, precision);
}

/// Returns the declarations in which the two kinds of kernels differ.
std::string lanes_source(std::uint32_t lanes, std::size_t rows, std::uint32_t unknowns) {
  if (lanes == 1) {
    const bool unrolled = unknowns <= kLargestUnrolled;
    return text(
        "\n#define SYNC\n#define LANES 1u\n#define LANE 0u\n#define STORED\n#define UNROLLED",
        unrolled ? " [[unroll]]\nT L[N * (N + 1u) / 2u];\n" : kSharesTrial,
        "bool all_lanes(bool here) { return here; }\n");
  }
  return text("\n#define SYNC barrier()\n#define UNROLLED", kSharesTrial, "#define LANES ", lanes,
              "u\n#define LANE gl_LocalInvocationID.x\n#define STORED shared\nshared T rows[", rows,
              "];\nshared uint against;\nbool all_lanes(bool here) {\n  SYNC;\n"
              "  if (LANE == 0u) against = 0u;\n  SYNC;\n  if (!here) atomicOr(against, 1u);\n"
              "  SYNC;\n  return against == 0u;\n}\n");
}

}  // namespace

std::vector<MinimizerBuffer> buffers_of(const ComponentGroup& group) {
  std::vector<MinimizerBuffer> out = {MinimizerBuffer::start};
  if (has_columns(group)) out.push_back(MinimizerBuffer::data);
  out.push_back(MinimizerBuffer::numbers);
  if (group.bounded) out.push_back(MinimizerBuffer::limits);
  out.insert(out.end(), {MinimizerBuffer::end, MinimizerBuffer::report});
  return out;
}

bool shares_limits(const LaneProgram& program) {
  return std::ranges::all_of(program.group().x,
                             [&](const Positions& x) { return program.shares_bounds(x); });
}

std::string obstacle_on_device(const ComponentGroup& group, Precision precision,
                               std::uint32_t shared_bytes) {
  if (group.on_manifolds) return "components on manifolds";
  if (group.columns > kLargestOnDevice)
    return "components of more than " + std::to_string(kLargestOnDevice) + " unknowns";
  if (group.columns <= kLargestOfInvocation) return {};
  const SharedMemory memory(group, precision);
  if (memory.fits(shared_bytes)) return {};
  return "components of " + std::to_string(group.columns) + " unknowns in " +
         std::to_string(shared_bytes) + " bytes of shared memory: it expects " +
         std::to_string(memory.fixed + memory.rows(shared_bytes) * memory.number);
}

MinimizerKernel minimizer_kernel(const LaneProgram& program, Precision precision,
                                 std::uint32_t shared_bytes) {
  const ComponentGroup& group = program.group();
  const bool by_workgroup = group.columns > kLargestOfInvocation;
  const SharedMemory memory(group, precision);
  const std::size_t rows = by_workgroup ? memory.rows(shared_bytes) : 0;
  MinimizerKernel out{.invocations = by_workgroup ? kLanes : 1};
  std::string free_of;
  for (std::uint32_t c = 0; c < group.scalars; ++c)
    if (group.column[c] != ComponentGroup::kFixed)
      free_of += text(free_of.empty() ? "" : ", ", c, "u");
  std::string& source = out.source;
  source = text(
      "#version 450\n#extension GL_EXT_control_flow_attributes : require\n\n"
      "// Minimises each component of a group, by one ",
      by_workgroup ? "workgroup" : "invocation", ": ", group.columns, " unknowns, ", group.rows,
      " residuals.\nlayout(local_size_x = ", kLanes, ") in;\n\n#define T ",
      codegen::scalar_type(precision), "\nconst uint N = ", group.columns, "u, S = ", group.scalars,
      "u, M = ", program.sums(),
      "u;\n\nlayout(push_constant) uniform Push {\n  uint first;\n  uint items;\n  uint "
      "zero_bits;\n  uint most;  // steps\n};\n");
  std::size_t binding = 0;
  for (const MinimizerBuffer buffer : buffers_of(group))
    source += text("layout(std430, binding = ", binding++, ") ",
                   buffer >= MinimizerBuffer::end ? "writeonly" : "readonly", " buffer Buffer_",
                   name(buffer), " { T ", name(buffer), "[]; };\n");
  source += lanes_source(out.invocations, rows, group.columns);
  source += text(
      "// Of the lanes of a component, each takes some of the numbers.\n"
      "#define EACH(i, from, to) UNROLLED for (uint i = (from) + LANE; i < (to); i += LANES)\n"
      "uint k, count;\n"
      "STORED T x[S], t[S], d[N], y[N], s[N], term[N], sums[M], trial[M];\n\n"
      "const uint scalar_of[N] = uint[N](",
      free_of,
      ");\n// i <= j\nuint entry(uint i, uint j) { return 1u + N + i*N-i*(i+1u)/2u+j; }\n"
      "// j <= i\nuint lower(uint i, uint j) { return i * (i + 1u) / 2u + j; }\n"
      "bool is_finite(T v) { return abs(v) < {INFINITY}; }\n\n");
  if (!by_workgroup && program.carried() > 0)
    source += text("T carried[", program.carried(), "];  // from step to step of a loop\n\n");
  source += by_workgroup ? rows_source(group, precision) : parts_source(program, precision);
  if (by_workgroup) source += kAddRows;
  source +=
      "\n/// Twice the cost at t, its gradient, the upper triangle of JᵀJ by rows.\n"
      "void evaluate() {\n  SYNC;\n  EACH(i, 0u, M) trial[i] = T(0);\n  SYNC;\n";
  if (by_workgroup) {
    source += kinds_source(program, rows, memory, out);
  } else {
    for (const RowRun& run : runs_of(group)) source += run_source(program, run);
  }
  source += "}\n" + move_source(program) + kMinimizer;
  const char* infinity = precision == Precision::f64 ? "packDouble2x32(uvec2(0u, 0x7ff00000u))"
                                                     : "uintBitsToFloat(0x7f800000u)";
  source = codegen::substitute(source, {{"INFINITY", infinity}});
  return out;
}

namespace {

using runtime::hybrid::DeviceArray;
using runtime::hybrid::DeviceProgram;

/// Largest buffer of a dispatch: devices must have 128 MiB.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
/// By the number of the end that the kernel reports.
constexpr std::array kEnds = {End::none, End::gradient, End::cost_change, End::iterations,
                              End::predicted_change};
/// Components whose numbers a thread gathers at once.
constexpr std::size_t kLeastGathered = 64, kMostGathered = 512;

}  // namespace

MinimizerDevice minimizer_device(const DeviceFacts& facts, const SolverOptions& options) {
  MinimizerDevice out{.facts = facts};
  if (options.precision == Precision::f64 && facts.float64 && !facts.emulated_float64)
    out.precision = Precision::f64;
  return out;
}

DeviceMinimizer::DeviceMinimizer(const SolverOptions& options, MinimizerDevice device)
    : device_(std::move(device)) {
  require_self_check(options);
  backend_ = make_device_backend(options);
}
DeviceMinimizer::~DeviceMinimizer() = default;

namespace {

/// The rules, then the numbers that all components share.
template <class T>
std::vector<T> shared_numbers(const ComponentGroup& group, const SolverOptions& o) {
  constexpr double kRounding = 4 * static_cast<double>(std::numeric_limits<T>::epsilon());
  constexpr double kLeastRadius = 1e-30;  // in f32, too
  const double least = o.jacobi_scaling && o.scale_free ? runtime::kLeastDiagonalOfSmall : 0;
  const double rules[kMinimizerRules] = {o.initial_trust_region_radius,
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
          runtime::cpu::Pool& pool, DeviceMinima& minima) {
  const std::size_t count = report.size() / kMinimizerReport, scalars = end.size() / count;
  for_parts(pool, count, [&](std::size_t part, std::size_t last) {
    for (std::size_t k = part; k < last; ++k) {
      const std::size_t c = first + k;
      minima.initial_cost[c] = static_cast<double>(report[k]);
      minima.accepted[c] = static_cast<std::int32_t>(report[count + k]);
      minima.rejected[c] = static_cast<std::int32_t>(report[2 * count + k]);
      minima.final_cost[c] = static_cast<double>(report[3 * count + k]);
      minima.end[c] = kEnds.at(static_cast<std::size_t>(report[4 * count + k]));
      for (std::size_t s = 0; s < scalars; ++s)
        minima.x[c * scalars + s] = static_cast<double>(end[s * count + k]);
    }
  });
}

}  // namespace

void DeviceMinimizer::dispatch(DeviceProgram& program, int most_steps) {
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
void DeviceMinimizer::run_as(const LaneProgram& program, const MinimizerKernel& kernel,
                             std::span<const double> x, runtime::cpu::Pool& pool, Memory<T>& memory,
                             DeviceMinima& minima) {
  const ComponentGroup& group = program.group();
  std::vector<T> numbers = shared_numbers<T>(group, program.options());
  numbers.insert(numbers.end(), kernel.tables.begin(), kernel.tables.end());
  const std::vector<const ComponentNumbers*> columns = columns_of(group);
  const std::size_t scalars = group.scalars;
  const std::size_t widest = std::max({columns.size(), 2 * scalars, kMinimizerReport});
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
    const std::span<T> report = first_of(memory.report, kMinimizerReport * count);
    const std::span<T> arrays[] = {start, data, numbers, memory.limits, end, report};
    for (const MinimizerBuffer buffer : buffers_of(group)) {
      const std::span<T> array = arrays[static_cast<std::size_t>(buffer)];
      if (buffer >= MinimizerBuffer::end) {
        task.arrays.push_back({.written = {std::as_writable_bytes(array)}});
      } else {
        task.arrays.push_back({.read = {std::as_bytes(array)}});
      }
    }
    dispatch(task, program.options().max_iterations);
    take<T>(end, report, first, pool, minima);
  }
}

void DeviceMinimizer::run(const LaneProgram& program, const MinimizerKernel& kernel,
                          std::span<const double> x, runtime::cpu::Pool& pool,
                          DeviceMinima& minima) {
  const ComponentGroup& group = program.group();
  minima.precision = device_.precision;
  minima.x.resize(group.count * group.scalars);
  minima.initial_cost.resize(group.count);
  minima.final_cost.resize(group.count);
  minima.end.resize(group.count);
  minima.accepted.resize(group.count);
  minima.rejected.resize(group.count);
  if (device_.precision == Precision::f64) {
    run_as(program, kernel, x, pool, f64_, minima);
  } else {
    run_as(program, kernel, x, pool, f32_, minima);
  }
}

}  // namespace topograd
