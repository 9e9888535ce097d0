// Self-test with random programs.
#include "random.hpp"

#include "../../../ir/passes/passes.hpp"
#include "../../../ir/text.hpp"
#include "../../../solver/interrupts.hpp"
#include "end_to_end.hpp"
#include "random_nodes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

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

std::vector<double> by_place(const Place& place, const ir::Program& program,
                             const ir::Point& point) {
  const runtime::Columns out =
      place.runner->run(program, {.count = 1,
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
  RandomCheck(const Options& options, std::span<const Place> places)
      : options_(options), places_(places), precisions_(precisions_of(places)) {}

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
    for (const Place& place : places_) {
      if (place.runner->precision() == precision) compare_nodes<T>(table, place, report_);
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
    for (const Place& place : places_) {
      const bool wide = place.runner->precision() == Precision::f64;
      if (wide != (sizeof(T) == sizeof(double))) continue;
      if (place.runner->backend() == runtime::Backend::vulkan && !on_device) continue;
      const Run run = [&](const ir::Program& f, const ir::Point& at) {
        return by_place(place, f, at);
      };
      note<T>(end_to_end<T>(program, point, run), program, seed,
              std::string(name(place.runner->backend())), place.runner->device(), run);
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
  std::span<const Place> places_;
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
  const std::vector<Place> places = open_places(options);
  return check_random(options, places);
}

RandomReport check_random(const Options& options, std::span<const Place> places) {
  return RandomCheck(options, places).run();
}

}  // namespace topograd::check
