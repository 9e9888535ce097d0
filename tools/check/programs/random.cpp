// Self-test with random programs.
#include "random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "../../../autodiff/derivatives.hpp"
#include "../../../ir/checking/error_bound.hpp"
#include "../../../ir/passes/passes.hpp"
#include "../../../ir/program.hpp"
#include "../../../ir/text.hpp"
#include "../../../solver/interrupts.hpp"

namespace topograd::check {
namespace {

constexpr std::uint64_t kDefaultPrograms = 200;
constexpr std::uint64_t kBatch = 200;  // programs whose nodes share a run of each op
constexpr std::uint64_t kPoints = 4;
constexpr double kSpecialShare = 0.3;
constexpr std::size_t kLeastNodes = 20, kMostNodes = 200;
constexpr ir::LeafCounts kLeaves = {.parameters = 4, .data = 2, .uniforms = 1};

/// The k-th point; point 0 is an ordinary one.
ir::Point point_of(std::uint64_t seed, std::uint64_t k) {
  return ir::random_point(seed * kPoints + k, kLeaves, k == 0 ? 0 : kSpecialShare);
}

/// Number of programs that contain each op and each special value.
class Coverage {
 public:
  void add(const ir::Program& program, std::uint64_t seed) {
    ++programs_;
    std::vector<bool> held(ir::kOpCount);
    for (const ir::Node& node : program.nodes) held[static_cast<std::size_t>(node.op)] = true;
    for (std::size_t k = 0; k < held.size(); ++k) ops_[k] += held[k] ? 1 : 0;
    std::vector<bool> met(specials_.size());
    for (std::uint64_t k = 1; k < kPoints; ++k) {
      const ir::Point point = point_of(seed, k);
      for (const auto* space : {&point.parameters, &point.data, &point.uniforms}) {
        for (const double x : *space) mark(x, met);
      }
    }
    for (std::size_t k = 0; k < met.size(); ++k) specials_[k] += met[k] ? 1 : 0;
  }

  void report(RandomReport& out) const {
    std::uint64_t rarest = programs_;
    for (const ir::Op op : ir::all_ops()) {
      if (op == ir::Op::Zmul) continue;  // only derivatives contain it
      const std::uint64_t count = ops_[static_cast<std::size_t>(op)];
      if (count > rarest) continue;
      rarest = count;
      out.rarest_op = ir::info(op).name;
    }
    const auto share = [&](std::uint64_t n) {
      return static_cast<double>(n) / static_cast<double>(std::max<std::uint64_t>(programs_, 1));
    };
    out.rarest_op_share = share(rarest);
    out.rarest_special_share = share(*std::ranges::min_element(specials_));
  }

 private:
  static void mark(double x, std::vector<bool>& met) {
    const std::vector<double>& values = ir::special_values();
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (ir::same_bits(values[k], x)) met[k] = true;
    }
  }

  std::uint64_t programs_ = 0;
  std::vector<std::uint64_t> ops_ = std::vector<std::uint64_t>(ir::kOpCount);
  std::vector<std::uint64_t> specials_ = std::vector<std::uint64_t>(ir::special_values().size());
};

/// Evaluates the program by the scalar evaluator in T.
template <class T>
std::vector<double> by_evaluator(const ir::Program& program, const ir::Point& point) {
  const auto p = narrowed<T>(point.parameters), d = narrowed<T>(point.data),
             u = narrowed<T>(point.uniforms), t = narrowed<T>(point.tangents),
             s = narrowed<T>(point.seeds);
  const std::vector<T> values = ir::evaluate<T>(program, {p, d, u, t, s});
  return {values.begin(), values.end()};
}

runtime::Columns as_columns(const std::vector<double>& values) {
  runtime::Columns columns;
  for (const double v : values) columns.push_back({v});
  return columns;
}

std::vector<double> by_backend(const CheckedBackend& backend, const ir::Program& program,
                               const ir::Point& point) {
  const runtime::Columns out =
      backend.runner->run(program, {.count = 1,
                                    .parameters = as_columns(point.parameters),
                                    .data = as_columns(point.data),
                                    .uniforms = as_columns(point.uniforms),
                                    .tangents = as_columns(point.tangents),
                                    .seeds = as_columns(point.seeds)});
  std::vector<double> values;
  for (const auto& column : out) values.push_back(column[0]);
  return values;
}

class RandomCheck {
 public:
  RandomCheck(const Options& options, std::span<const CheckedBackend> backends)
      : options_(options), backends_(backends), precisions_(precisions_of(backends)) {}

  RandomReport run() {
    report_.programs = options_.count == 0 ? kDefaultPrograms : options_.count;
    for (std::uint64_t first = 0; first < report_.programs; first += kBatch) {
      const std::uint64_t n = std::min(kBatch, report_.programs - first);
      for (const Precision precision : precisions_) {
        if (precision == Precision::f32) {
          batch<float>(first, n, precision);
        } else {
          batch<double>(first, n, precision);
        }
      }
      if (Interrupts::came()) report_.programs = first + n;
    }
    coverage_.report(report_);
    report_.undecided_share =
        static_cast<double>(report_.undecided) /
        static_cast<double>(report_.programs * std::max<std::size_t>(precisions_.size(), 1));
    return report_;
  }

 private:
  template <class T>
  void batch(std::uint64_t first, std::uint64_t n, Precision precision) {
    NodeTable table;
    for (std::uint64_t k = first; k < first + n; ++k) {
      const std::uint64_t seed = options_.seed * 1'000'000 + k;
      const ir::Program program = numbered_program(seed);
      if (precision == precisions_.front()) coverage_.add(program, seed);
      const ir::Program plain = ir::expand(program);
      for (std::uint64_t point = 0; point < kPoints; ++point) {
        const ir::Point at = point_of(seed, point);
        const auto p = narrowed<T>(at.parameters), d = narrowed<T>(at.data),
                   u = narrowed<T>(at.uniforms);
        add_nodes<T>(plain, {p, d, u, {}, {}}, seed, table);
      }
      whole<T>(program, seed, k % kDeviceStride == 0);
    }
    for (const CheckedBackend& backend : backends_) {
      if (backend.runner->precision() == precision) compare_nodes<T>(table, backend, report_);
    }
  }

  /// Checks a program end to end on the evaluator and on the backends.
  template <class T>
  void whole(const ir::Program& program, std::uint64_t seed, bool on_device) {
    const ir::Point point = point_of(seed, 0);
    const Finding found = end_to_end<T>(program, point, by_evaluator<T>);
    note<T>(found, program, seed, "evaluator", "", by_evaluator<T>);
    report_.undecided += found.decided ? 0 : 1;
    report_.end_to_end += found.decided && found.finite ? 1 : 0;
    if (!found.decided) return;
    for (const CheckedBackend& backend : backends_) {
      const bool wide = backend.runner->precision() == Precision::f64;
      if (wide != (sizeof(T) == sizeof(double))) continue;
      if (backend.runner->backend() == runtime::Backend::vulkan && !on_device) continue;
      const Run run = [&](const ir::Program& f, const ir::Point& at) {
        return by_backend(backend, f, at);
      };
      note<T>(end_to_end<T>(program, point, run), program, seed,
              std::string(name(backend.runner->backend())), backend.runner->device(), run);
    }
  }

  template <class T>
  void note(const Finding& finding, const ir::Program& program, std::uint64_t seed,
            const std::string& backend, const std::string& device, const Run& run) {
    if (finding.kind.empty()) return;
    const ir::Point point = point_of(seed, 0);
    Finding smallest = finding;
    const ir::Program shrunk = ir::shrink(program, [&](const ir::Program& smaller) {
      const Finding now = end_to_end<T>(smaller, point, run);
      if (now.kind != finding.kind) return false;
      smallest = now;
      return true;
    });
    keep(report_, {.seed = seed,
                   .kind = finding.kind,
                   .backend = backend,
                   .device = device,
                   .precision = sizeof(T) == sizeof(float) ? Precision::f32 : Precision::f64,
                   .message = smallest.message,
                   .program = ir::print(shrunk)});
  }

  const Options& options_;
  std::span<const CheckedBackend> backends_;
  std::vector<Precision> precisions_;
  Coverage coverage_;
  RandomReport report_;
};

}  // namespace

bool RandomReport::broken() const {
  constexpr std::uint64_t kFew = 1000;
  const double deviation = std::sqrt(kMostUndecided * (1 - kMostUndecided) /
                                     static_cast<double>(std::max<std::uint64_t>(programs, 1)));
  const double chance = programs < kFew ? 3 * deviation : 0;
  return failures_in_all > 0 || undecided_share > kMostUndecided + chance;
}

ir::Program numbered_program(std::uint64_t seed) {
  constexpr std::size_t kFewest = 14, kRange = 110;
  std::size_t operations = kFewest + Random(seed).below(kRange);
  const ir::Point ordinary = point_of(seed, 0);
  for (;;) {
    ir::Program program = ir::random_program(seed, {.operations = operations,
                                                    .ops = {},
                                                    .leaves = kLeaves,
                                                    .outputs = 1 + operations / 4,
                                                    .ordinary_at = &ordinary});
    const std::size_t nodes = program.nodes.size();
    if (nodes >= kLeastNodes && nodes <= kMostNodes) return program;
    operations = nodes < kLeastNodes ? operations + 1 : operations - 1;
  }
}

RandomReport check_random(const Options& options) {
  const std::vector<CheckedBackend> backends = open_backends(options);
  return check_random(options, backends);
}

RandomReport check_random(const Options& options, std::span<const CheckedBackend> backends) {
  return RandomCheck(options, backends).run();
}

namespace {

constexpr std::size_t kMostFailures = 20;

/// The smallest program with the failure: the op on literals.
std::string op_on_literals(ir::Op op, std::span<const double> operands) {
  ir::Graph graph;
  std::array<ir::Id, 3> x{};
  for (std::size_t k = 0; k < operands.size(); ++k) x[k] = graph.literal(operands[k]);
  const ir::Id y = graph.add(op, x[0], x[1], x[2]);
  return ir::print(graph.extract(std::array{y}, {}));
}

/// True for numbers that may be lost if subnormals are flushed, also before rounding.
template <class T>
bool subnormal(T x) {
  return x != 0 && std::fabs(x) <= std::numeric_limits<T>::min();
}

}  // namespace

void keep(RandomReport& report, Failure failure) {
  ++report.failures_in_all;
  if (report.failures.size() < kMostFailures) report.failures.push_back(std::move(failure));
}

template <class T>
void add_nodes(const ir::Program& program, const ir::Inputs<T>& point, std::uint64_t seed,
               NodeTable& table) {
  table.resize(ir::kOpCount);
  const std::vector<T> values = ir::evaluate_nodes(program, point);
  for (const ir::Node& node : program.nodes) {
    if (ir::is_leaf(node.op)) continue;
    OpRows& rows = table[static_cast<std::size_t>(node.op)];
    for (std::size_t k = 0; k < 3; ++k) {
      const bool used = k < node.operands().size();
      rows.operands[k].push_back(used ? static_cast<double>(values[node.args[k]]) : 0);
    }
    rows.seeds.push_back(seed);
  }
}

template <class T>
void compare_nodes(const NodeTable& table, const CheckedBackend& backend, RandomReport& report) {
  for (std::size_t at = 0; at < table.size(); ++at) {
    const auto op = static_cast<ir::Op>(at);
    const OpRows& rows = table[at];
    if (rows.seeds.empty()) continue;
    const runtime::Columns got = backend.runner->run(
        single_op(op), {.count = rows.seeds.size(), .parameters = rows.operands});
    report.nodes += rows.seeds.size();
    for (std::size_t i = 0; i < rows.seeds.size(); ++i) {
      std::array<T, 3> x;
      for (std::size_t k = 0; k < 3; ++k) x[k] = static_cast<T>(rows.operands[k][i]);
      const ir::Deviation deviation = ir::deviation<T>(op, x, static_cast<T>(got[0][i]));
      if (deviation.within) continue;
      const bool tiny = subnormal(x[0]) || subnormal(x[1]) || subnormal(x[2]) ||
                        subnormal(static_cast<T>(deviation.expected));
      if (tiny && !backend.keeps_subnormals) continue;
      const std::vector<double> used(x.begin(), x.begin() + ir::arity(op));
      keep(report,
           {.seed = rows.seeds[i],
            .kind = "node",
            .backend = std::string(name(backend.runner->backend())),
            .device = backend.runner->device(),
            .precision = backend.runner->precision(),
            .message = "expected " + ir::print_number(static_cast<double>(deviation.expected)) +
                       ", got " + ir::print_number(got[0][i]),
            .program = op_on_literals(op, used)});
    }
  }
}

#define TG_INSTANTIATE(T)                                                                          \
  template void add_nodes<T>(const ir::Program&, const ir::Inputs<T>&, std::uint64_t, NodeTable&); \
  template void compare_nodes<T>(const NodeTable&, const CheckedBackend&, RandomReport&);
TG_INSTANTIATE(float)
TG_INSTANTIATE(double)
#undef TG_INSTANTIATE

namespace {

using ir::Enclosure;

/// Values and error bounds of the outputs.
struct Computed {
  std::vector<Enclosure> may;
  std::vector<Enclosure> exact;  ///< enclose the values without rounding
  std::vector<double> got;
  bool decided = true;
};

template <class T>
Computed outcome(const ir::Program& program, const ir::Point& point, const Run& run) {
  const auto p = narrowed<T>(point.parameters), d = narrowed<T>(point.data),
             u = narrowed<T>(point.uniforms), t = narrowed<T>(point.tangents),
             s = narrowed<T>(point.seeds);
  const ir::RunningError error = ir::running_error<T>(program, {p, d, u, t, s});
  const ir::RunningError exact = ir::running_error<T>(program, {p, d, u, t, s}, ir::Against::exact);
  Computed out{.may = {}, .exact = {}, .got = run(program, point), .decided = error.decided};
  for (const ir::Id output : program.outputs) {
    out.may.push_back(error.nodes[output]);
    out.exact.push_back(exact.nodes[output]);
  }
  return out;
}

std::string text(const Enclosure& e) {
  return ir::print_number(static_cast<double>(e.value)) + " +- " +
         ir::print_number(static_cast<double>(e.error));
}

/// The first output outside of its bound.
std::optional<std::string> outside(const Computed& outcome) {
  for (std::size_t k = 0; k < outcome.got.size(); ++k) {
    if (outcome.may[k].contains(outcome.got[k])) continue;
    return "output " + std::to_string(k) + ": expected " + text(outcome.may[k]) + ", got " +
           ir::print_number(outcome.got[k]);
  }
  return std::nullopt;
}

/// The first output for which two computations cannot both be right.
std::optional<std::string> apart(const Computed& a, const Computed& b) {
  for (std::size_t k = 0; k < a.got.size(); ++k) {
    if (!a.exact[k].known() || !b.exact[k].known()) continue;
    const bool both_nan = std::isnan(a.got[k]) && std::isnan(b.got[k]);
    const long double allowed = a.exact[k].error + b.exact[k].error;
    if (both_nan || a.got[k] == b.got[k]) continue;
    if (std::fabs(static_cast<long double>(a.got[k]) - b.got[k]) <= allowed) continue;
    return "output " + std::to_string(k) + ": " + ir::print_number(a.got[k]) + " one way, " +
           ir::print_number(b.got[k]) + " the other, allowed difference " +
           ir::print_number(static_cast<double>(allowed));
  }
  return std::nullopt;
}

ir::Program only(const ir::Program& program, ir::Id output) {
  ir::Program one = program;
  one.outputs = {output};
  one.guards.clear();
  return ir::remove_dead(one);
}

/// The part of the program on which its largest finite output depends.
std::optional<ir::Program> largest_finite(const ir::Program& program, const Computed& outcome) {
  std::optional<ir::Program> best;
  for (std::size_t k = 0; k < outcome.may.size(); ++k) {
    const Enclosure& e = outcome.may[k];
    if (!e.known() || !std::isfinite(e.value)) continue;
    ir::Program part = only(program, program.outputs[k]);
    if (!best || part.nodes.size() > best->nodes.size()) best = std::move(part);
  }
  return best;
}

/// Compares forward and reverse mode, one parameter after the other.
template <class T>
Finding derivatives(const ir::Program& f, ir::Point point, const Run& run) {
  const ir::Program forward = ir::expand(autodiff::jvp(f));
  const ir::Program reverse = ir::expand(autodiff::vjp(f, autodiff::all_slots(f)));
  point.seeds = {1};
  point.tangents.assign(f.leaves.parameters, 0);
  const Computed pulled = outcome<T>(reverse, point, run);
  if (!pulled.decided) return {.decided = false};
  if (const auto wrong = outside(pulled)) return {"derivative", "in reverse, " + *wrong};
  for (std::size_t k = 0; k < point.tangents.size(); ++k) {
    point.tangents[k] = 1;
    const Computed pushed = outcome<T>(forward, point, run);
    point.tangents[k] = 0;
    if (!pushed.decided) return {.decided = false};
    if (const auto wrong = outside(pushed)) return {"derivative", "forward, " + *wrong};
    const Computed other{.may = {}, .exact = {pulled.exact[k]}, .got = {pulled.got[k]}};
    // If one mode has a pole that a zero cancels in the other mode, only zeros are compared.
    if (!std::isfinite(pushed.got[0]) || !std::isfinite(other.got[0])) continue;
    if (const auto wrong = apart(pushed, other)) {
      return {"derivative", "by parameter " + std::to_string(k) + ", " + *wrong};
    }
  }
  return {};
}

}  // namespace

template <class T>
Finding end_to_end(const ir::Program& program, const ir::Point& point, const Run& run) {
  const ir::Program plain = ir::expand(program);
  const Computed first = outcome<T>(plain, point, run);
  if (!first.decided) return {.decided = false};
  if (const auto wrong = outside(first)) return {"value", *wrong};
  const Computed second = outcome<T>(ir::optimize(program), point, run);
  if (!second.decided) return {.decided = false};
  if (const auto wrong = outside(second)) return {"value", "optimised, " + *wrong};
  if (const auto wrong = apart(first, second)) return {"optimised", *wrong};
  const std::optional<ir::Program> part = largest_finite(plain, first);
  if (!part) return {};
  Finding finding = derivatives<T>(*part, point, run);
  finding.finite = true;
  return finding;
}

template Finding end_to_end<float>(const ir::Program&, const ir::Point&, const Run&);
template Finding end_to_end<double>(const ir::Program&, const ir::Point&, const Run&);

}  // namespace topograd::check
