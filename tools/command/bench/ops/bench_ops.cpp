// topograd bench ops, and the operations' part of topograd info.
#include "bench_ops.hpp"

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <vector>

#include "../../../../ir/error.hpp"
#include "../../../../ops/array/map.hpp"
#include "../../../../ops/array/reduce/reduce.hpp"
#include "../../../../ops/backend/device.hpp"
#include "../../../../ops/run/run.hpp"
#include "../../../../ops/tensors.hpp"
#include "../../../../solver/interrupts.hpp"
#include "../../../../solver/options.hpp"
#include "bench_ops_cases.hpp"
#include "bench_ops_claims.hpp"

namespace topograd::command {

/// One row per shape: shape, count (numbers read), us by the device's clock (on the CPU by the
/// host's), wall_us, gb_s for the numbers that must be read and written once, or gmadd_s. Shapes
/// with more than `most` numbers are skipped.
nlohmann::ordered_json shape_rows(const ops::Device& device, int samples,
                                  std::optional<std::uint64_t> most);

namespace {

using nlohmann::ordered_json;
using ops::Device;

constexpr std::uint64_t kLargest = 100'000'000, kLargestOnSoftware = 1'000'000;
// Inputs, results and intermediate data of the largest operation, in bytes per element.
constexpr std::uint64_t kBytesOfElement = 40;
// Maximum number of multiply-adds for a CPU with all of its threads, and with one.
constexpr double kMostArithmetic = 1e11, kMostArithmeticOfOne = 1e10;
constexpr std::uint64_t kArithmeticElements = 1 << 22, kArithmeticElementsOfSoftware = 1 << 16;

/// The faster of the driver's copy command and a kernel, because some drivers execute commands on
/// an engine that is slower than the memory. In bytes per ns.
double copy_rate(const Device& device, const OpInputs& in, int samples) {
  const ops::Array<float> to(in.count());
  ops::OpBackend& backend = device.backend();
  const ops::Argument source = in.x.untyped().reads(backend);
  const ops::Argument target = to.untyped().writes(backend);
  const double by_command = time_on(device, samples, [&] {
                              backend.copy(source.memory, 0, target.memory, 0, source.bytes);
                            }).clock;
  const double by_kernel =
      time_on(device, samples, [&] { map([](Value v) { return v; }, in.x); }).clock;
  return 2 * static_cast<double>(source.bytes) / std::min(by_command, by_kernel) * 1e-3;
}

/// Multiply-adds of f32 per ns.
double arithmetic_rate(const Device& device, int samples) {
  const bool software = device.facts().software();
  const OpInputs in =
      make_op_inputs(software ? kArithmeticElementsOfSoftware : kArithmeticElements, device);
  const OpWork work = arithmetic_work(in);
  const double us = time_on(device, samples, [&] { work(); }).clock;
  return kArithmeticDepth * static_cast<double>(in.count()) / us * 1e-3;
}

Device device_for(const OpsArguments& a) {
  const Backend backend = a.backend.empty() ? Backend::automatic : parse_backend(a.backend);
  if (backend == Backend::cpu) return Device::cpu();
  if (!a.device.empty() || backend == Backend::vulkan) return Device::vulkan(a.device);
  return Device::best();
}

std::vector<std::uint64_t> sizes_for(const OpsArguments& a, const Device& device) {
  if (a.count) return {*a.count};
  const bool software = device.is_cpu() || device.facts().software();
  const std::uint64_t memory = device.facts().memory_bytes;
  std::vector<std::uint64_t> out;
  for (std::uint64_t n = 1000; n <= (software ? kLargestOnSoftware : kLargest); n *= 10) {
    if (memory == 0 || n * kBytesOfElement < memory) out.push_back(n);
  }
  return out;
}

/// The size from which the device is always faster; 0 if it is slower at the largest size.
std::uint64_t crossover(const std::vector<std::pair<std::uint64_t, bool>>& wins) {
  std::uint64_t from = 0;
  for (auto row = wins.rbegin(); row != wins.rend() && row->second; ++row) from = row->first;
  return from;
}

ordered_json row_for(const OpCase& one, const Device& device, const OpInputs& host,
                     const OpInputs& there, const OpsArguments& arguments) {
  const int samples = arguments.samples;
  const bool with_cpu = arguments.cpu || device.is_cpu();
  const std::uint64_t count = host.count();
  const double arithmetic =
      one.multiply_adds != nullptr ? one.multiply_adds(static_cast<double>(count)) : 0;
  ordered_json row{{"op", one.name}, {"count", count}};
  const int fewer = count >= 10'000'000 || arithmetic > 1e9 ? std::min(samples, 3) : samples;
  if (with_cpu && arithmetic <= kMostArithmetic) {
    const OpWork work = one.prepare(host);
    row["cpu_us"] = time_on(Device::cpu(), fewer, [&] { work(); }).wall;
    if (count <= 10'000'000 && arithmetic <= kMostArithmeticOfOne) {
      const ops::UnrecordedRuns alone;
      const tbb::global_control single(tbb::global_control::max_allowed_parallelism, 1);
      row["cpu_one_us"] = time_on(Device::cpu(), std::min(samples, 3), [&] { work(); }).wall;
    }
  }
  if (device.is_cpu()) return row;
  try {
    const OpWork work = one.prepare(there);
    const Times times = time_on(device, samples, [&] { work(); });
    row["device_us"] = times.clock;
    row["device_wall_us"] = times.wall;
    if (one.bytes > 0) row["gb_s"] = one.bytes * static_cast<double>(count) / times.clock * 1e-3;
    if (arithmetic > 0) row["gmadd_s"] = arithmetic / times.clock * 1e-3;
    if (count <= 10'000'000) {
      row["transfers_wall_us"] = time_with_transfers(3, [&]() -> std::function<void()> {
        return [run = one.prepare(fresh_op_inputs(host, device))] { run()(); };
      });
    }
  } catch (const Error& error) {
    row["problem"] = error.what();
  }
  return row;
}

/// Fills the device up to its previous peak, so that the next operation determines a new peak.
std::vector<std::shared_ptr<ops::Memory>> filled_to_peak(ops::OpBackend& backend) {
  constexpr std::uint64_t kPiece = 64 << 20, kLeast = 64 << 10;
  std::vector<std::shared_ptr<ops::Memory>> pieces;
  for (;;) {
    const ops::BackendCounters now = backend.counters();
    const std::uint64_t left = now.peak_bytes_in_use - now.bytes_in_use;
    if (left < kLeast) return pieces;
    pieces.push_back(backend.allocate(std::min(left, kPiece), "peak"));
  }
}

/// Bytes moved for a sum and for a map whose result is read, and the device's peak memory.
ordered_json host_memory_rows(const Device& device, std::uint64_t count) {
  constexpr std::size_t kPage = 4096 / sizeof(float);
  const std::size_t whole = (count + kPage - 1) / kPage * kPage;
  std::vector<float> room(whole + kPage);
  void* first = room.data();
  std::size_t left = room.size() * sizeof(float);
  std::align(4096, whole * sizeof(float), first, left);
  const std::span<float> pages(static_cast<float*>(first), whole);
  std::ranges::fill(pages, 1.0f);
  using Make = ops::Array<float> (*)(std::span<float>, const Device&);
  const std::pair<const char*, Make> ways[] = {
      {"array, uploaded",
       [](std::span<float> from, const Device& to) {
         return ops::Array<float>(std::span<const float>(from)).to(to);
       }},
      {"array, written where it is",
       [](std::span<float> from, const Device& to) {
         ops::Array<float> x(from.size());
         x.untyped().storage->place(to);
         std::ranges::copy(from, x.write().begin());
         return x;
       }},
      {"caller's memory", [](std::span<float> from, const Device& to) {
         return ops::Array<float>::over(from).to(to);
       }}};
  ordered_json rows = ordered_json::array();
  for (const auto& [name, make] : ways) {
    device.synchronise();
    const auto filled = filled_to_peak(device.backend());
    const ops::BackendCounters before = device.backend().counters();
    const double us = wall_us([&] {
      const ops::Array<float> x = make(pages, device);
      for (int k = 0; k < 10; ++k) sum(x);
      const ops::Array<float> y = map([](Value v) { return v * 2.0; }, x);
      y.read();
      device.synchronise();
    });
    const ops::BackendCounters used = device.backend().counters() - before;
    rows.push_back({{"memory", name},
                    {"count", whole},
                    {"bytes_up", used.bytes_up},
                    {"bytes_down", used.bytes_down},
                    {"peak_device_bytes", used.peak_bytes_in_use - before.bytes_in_use},
                    {"wall_us", us}});
  }
  return rows;
}

void expect_positive(const char* option, std::optional<std::int64_t> value) {
  if (!value || *value >= 1) return;
  throw Error(ErrorCode::InvalidArgument, std::string("bench ops: expected ") + option +
                                              " >= 1, got " + std::to_string(*value));
}

/// Times of all operations by size, on the device and on the CPU.
class OpTimes {
 public:
  OpTimes(const Device& device, const OpsArguments& arguments)
      : device_(device), arguments_(arguments) {
    const std::vector<std::uint64_t> sizes = sizes_for(arguments, device);
    if (!device.is_cpu()) {  // first, while nothing else is on the device
      host_memory_ = host_memory_rows(device, sizes.back());
      arithmetic_ = arithmetic_rate(device, arguments.samples);
    }
    for (const std::uint64_t count : sizes) add_size(count);
  }

  void describe(ordered_json& report) {
    if (!device_.is_cpu()) {
      report["copy_gb_s"] = rate_;
      report["gmadd_s"] = arithmetic_;
      report["unified"] = device_.facts().unified;
      report["host_memory"] = std::move(host_memory_);
    }
    report["rows"] = std::move(rows_);
    if (device_.is_cpu() || !arguments_.cpu) return;
    for (const OpCase& one : cases_) {
      report["crossover"][one.name] = crossover(wins_[one.name]);
      report["crossover_with_transfers"][one.name] = crossover(wins_with_transfers_[one.name]);
    }
  }

 private:
  using Wins = std::map<std::string, std::vector<std::pair<std::uint64_t, bool>>>;

  void add_size(std::uint64_t count) {
    if (Interrupts::came()) return;
    const OpInputs host = make_op_inputs(count, Device::cpu());
    const OpInputs there = fresh_op_inputs(host, device_);
    if (!device_.is_cpu()) rate_ = copy_rate(device_, there, arguments_.samples);
    for (const OpCase& one : cases_) {
      if (Interrupts::came()) return;
      add_row(one.name, count, row_for(one, device_, host, there, arguments_));
    }
  }

  void add_row(const std::string& name, std::uint64_t count, ordered_json row) {
    if (row.contains("gb_s")) row["share_of_copy"] = row["gb_s"].get<double>() / rate_;
    if (row.contains("gmadd_s"))
      row["share_of_arithmetic"] = row["gmadd_s"].get<double>() / arithmetic_;
    const auto beats_cpu = [&row](const char* time) {
      return row.contains(time) && row[time] < row["cpu_us"];
    };
    if (row.contains("cpu_us")) wins_[name].emplace_back(count, beats_cpu("device_wall_us"));
    if (row.contains("cpu_us") && row.contains("transfers_wall_us"))
      wins_with_transfers_[name].emplace_back(count, beats_cpu("transfers_wall_us"));
    rows_.push_back(std::move(row));
  }

  const Device& device_;
  const OpsArguments& arguments_;
  const std::vector<OpCase> cases_ = op_cases();
  double rate_ = 0, arithmetic_ = 0;
  ordered_json host_memory_, rows_ = ordered_json::array();
  Wins wins_, wins_with_transfers_;
};

}  // namespace

ordered_json run_bench_ops(const OpsArguments& arguments) {
  for (const auto& watts : {arguments.watts.cpu, arguments.watts.device}) {
    if (watts && !(*watts > 0))
      throw Error(ErrorCode::InvalidArgument,
                  "bench ops: expected --cpu-watts and --device-watts > 0, "
                  "got " +
                      std::to_string(*watts));
  }
  if (arguments.count == 0) expect_positive("--count", 0);
  expect_positive("--steps", arguments.steps);
  const Device device = device_for(arguments);
  ordered_json report;
  report["device"] = device.name();
  report["cpu_threads"] = tbb::info::default_concurrency();
  if (arguments.steps) {
    report["training"] = training_report(device, *arguments.steps);
    return report;
  }
  if (arguments.claims) {
    report["claims"] = claim_rows(
        device, {.samples = arguments.samples, .only = arguments.claim, .watts = arguments.watts});
    return report;
  }
  if (arguments.shapes) {
    report["shapes"] = shape_rows(device, arguments.samples, arguments.count);
    return report;
  }
  OpTimes times(device, arguments);
  times.describe(report);
  return report;
}

ordered_json describe_operations() {
  ordered_json out = ordered_json::array();
  for (const ops::OperationRow& row : ops::kOperations) {
    const ops::OpMeasurement known = ops::measured(row.operation);
    ordered_json one{{"op", row.name},
                     {"unit", row.unit},
                     {"first_minimum", row.minimum},
                     {"first_factor", row.factor},
                     {"threshold", known.threshold},
                     {"kernels_measured", known.measured}};
    one["measured_factor"] =
        known.measured > 0 ? ordered_json(known.factor) : ordered_json("not measured");
    out.push_back(std::move(one));
  }
  return out;
}

namespace {

using ops::Shape;
using ops::Tensor;

/// An operation on random numbers of one or two shapes.
struct ShapeCase {
  const char* name;
  Shape shape;
  int operands = 1;
  double passes = 2;         ///< number of reads and writes of all numbers
  double multiply_adds = 0;  ///< 0: memory is the bound
  Tensor (*run)(const Tensor& a, const Tensor& b) = nullptr;
  ops::Type type = ops::Type::f32;
};

Tensor fifteen(const Tensor& a, const Tensor&) {
  Tensor x = a;
  for (int k = 0; k < 5; ++k) x = ops::relu(x * 1.5 + 0.25);
  return x;
}
Tensor product(const Tensor& a, const Tensor& b) { return ops::matmul(a, b); }
Tensor transform(const Tensor& a, const Tensor&) { return ops::fft(a); }

std::vector<ShapeCase> shape_cases() {
  using In = const Tensor&;
  constexpr double kProduct = 4096.0 * 4096 * 4096;
  const Shape square = {4096, 4096}, rows = {32'768, 2048};
  return {
      {"product, 4096^3, f32", square, 2, 0, kProduct, product},
      {"product, 4096^3, f16", square, 2, 0, kProduct, product, ops::Type::f16},
      {"one addition", rows, 2, 3, 0, [](In a, In b) { return a + b; }},
      {"fifteen element-wise operations", rows, 1, 2, 0, fifteen},
      {"layer norm", rows, 1, 2, 0, [](In a, In) { return ops::layer_norm(a); }},
      {"softmax", rows, 1, 2, 0, [](In a, In) { return ops::softmax(a); }},
      {"gelu", rows, 1, 2, 0, [](In a, In) { return ops::gelu(a); }},
      {"sum of all", rows, 1, 1, 0, [](In a, In) { return ops::sum(a); }},
      {"fft, 65536 of 256", {65'536, 256, 2}, 1, 2, 0, transform},
      {"fft, 16384 of 1024", {16'384, 1024, 2}, 1, 2, 0, transform},
      {"fft, 256 of 65536", {256, 65'536, 2}, 1, 2, 0, transform},
      {"fft, 16 of 2^20", {16, 1 << 20, 2}, 1, 2, 0, transform},
      {"fft, 47 of 2^20", {47, 1 << 20, 2}, 1, 2, 0, transform},
      {"fft, 16 of 10^6", {16, 1'000'000, 2}, 1, 2, 0, transform},
  };
}

ordered_json timed(const char* name, std::uint64_t count, const Device& device, int samples,
                   const OpWork& work) {
  const Times times = time_on(device, samples, [&] { work(); });
  return {{"shape", name}, {"count", count}, {"us", times.clock}, {"wall_us", times.wall}};
}

ordered_json row_of(const ShapeCase& one, const Device& device, int samples) {
  const auto numbers = [&](std::uint64_t seed) {
    return ops::rand(one.shape, seed, one.type, device).evaluate();
  };
  const Tensor a = numbers(1), b = one.operands > 1 ? numbers(2) : Tensor();
  const OpWork work = [&] { return reading(one.run(a, b)); };
  const auto count = static_cast<std::uint64_t>(a.count());
  ordered_json row = timed(one.name, count, device, samples, work);
  const double us = row["us"];
  if (one.multiply_adds > 0) {
    row["gmadd_s"] = one.multiply_adds / us * 1e-3;
  } else {
    row["gb_s"] = 4 * one.passes * static_cast<double>(count) / us * 1e-3;
  }
  return row;
}

}  // namespace

ordered_json shape_rows(const Device& device, int samples, std::optional<std::uint64_t> most) {
  ordered_json rows = ordered_json::array();
  for (const ShapeCase& one : shape_cases()) {
    if (Interrupts::came()) return rows;
    if (most && static_cast<std::uint64_t>(ops::element_count(one.shape)) > *most) continue;
    rows.push_back(row_of(one, device, samples));
  }
  constexpr NetworkSize kNetwork;
  const auto count = static_cast<std::uint64_t>(kNetwork.pictures * kNetwork.pixels);
  if (!most || count <= *most) {
    rows.push_back(timed("training step, 784-512-10, batches of 128", count, device, samples,
                         training_work(kNetwork, device)));
  }
  return rows;
}

}  // namespace topograd::command
