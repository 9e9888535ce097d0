// Kernels of evaluations by kind, and times of these and of whole steps with x resident.
#include "evaluation_kinds.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "../../ir/error.hpp"

namespace topograd::runtime::vulkan {

using codegen::Scalar;

bool EvaluationKinds::prepare(Pass pass) {
  return recorder_.advance((*preparations_)[pass], [&](CommandList& list) {
    // Hessians may be asked for without their negative part.
    if (pass == Pass::hessian && list.declared() != nullptr)
      hessians_.record_projection(list, 1, 1, no_buffer());
    if (pass != Pass::vjp) return record(list, pass);
    rows_.record_vjp(list);
  });
}

void EvaluationKinds::record(CommandList& list, Pass pass) {
  const Operands with_direction = terms_.operands(v_.x, &v_.x);
  switch (pass) {
    case Pass::residual:
    case Pass::hessian: return rows_.record(list, pass, terms_.operands(v_.x));
    case Pass::jacobian:
      rows_.record(list, Pass::residual, terms_.operands(v_.x));
      return rows_.record(list, pass, terms_.operands(v_.x));
    case Pass::jvp: return rows_.record(list, pass, with_direction);
    case Pass::cost: return terms_.record_cost(list, v_.x, Scalar::user);
    case Pass::gradient:
    case Pass::vjp: return sums_.record(list, Pass::gradient, terms_.operands(v_.x), v_.result);
    case Pass::jtjp: return products_.record(list, with_direction, v_.result);
    case Pass::blocks: return sums_.record_blocks(list, terms_.operands(v_.x));
    case Pass::hvp: return sums_.record(list, pass, with_direction, v_.result);
    case Pass::cost_gradient:
    case Pass::values: return sums_.record_values(list, pass, v_.x, v_.result, Scalar::user);
    case Pass::stored_jacobian:
    case Pass::stored_jtjp:
    case Pass::diagonal:
    case Pass::guards: break;
  }
  throw Error(ErrorCode::Unsupported,
              "vulkan engine: " + std::string(name(pass)) + " is no evaluation");
}

Timing EvaluationKinds::time(Pass pass, int warm_ups, int samples) {
  steps_.prepare();
  auto kept = rows_.exchange_results({});  // rows of timings are let go of
  const auto timed = [&](CommandList& list) {
    list.write_timestamp("begin");
    record(list, pass);
    list.write_timestamp("end");
  };
  Recorder::make(timed);
  const Recorded recorded = recorder_.make_list(name(pass), timed);
  recorder_.warm_up(recorded);
  const Timing timing = recorder_.time_list(recorded, warm_ups, samples);
  rows_.exchange_results(std::move(kept));
  return timing;
}

Timing EvaluationKinds::time_step(int iterations, double damping, int samples) {
  if (narrow_ != nullptr) {
    std::vector<double> x(problem_.model().scalars);
    problem_.read_point(v_.x, x);
    narrow_->set_point(x);
    return narrow_->abilities().measurements->time_step(iterations, damping, samples);
  }
  steps_.prepare();
  const StepRequest unscaled{.jacobi_scaling = false};
  Recorder::make([&](CommandList& list) {
    steps_.system().record_scale(list, unscaled);
    steps_.record_plain(list, 2);
  });
  recorder_.submit(recorder_.make_list(
      "unit_scale", [&](CommandList& list) { steps_.system().record_scale(list, unscaled); }));
  steps_.system().is_scaled() = false;
  const std::pair<Scalar, double> scalars[] = {
      {Scalar::lambda, damping}, {Scalar::min_diagonal, 1.0}, {Scalar::max_diagonal, 1.0},
      {Scalar::tolerance, 0.0},  {Scalar::eta, 0.0},          {Scalar::max_iterations, iterations}};
  v_.ops->write(scalars);
  const auto timed = [&](CommandList& list) {
    list.write_timestamp("begin");
    steps_.record_plain(list, iterations);
    list.write_timestamp("end");
  };
  const Recorded recorded = recorder_.make_list("step", timed);
  recorder_.warm_up(recorded);
  return recorder_.time_list(recorded, 3, samples);
}

namespace {

constexpr std::uint64_t kBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kSoftwareBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kPieces = 8, kPieceGranule = 4096;  // pieces begin where any device binds
constexpr int kCopyWarmUps = 2, kCopySamples = 9;

}  // namespace

double EvaluationKinds::copy_rate() {
  const double rate = time_copies();
  context_.device->trim();  // memory of the copies must not count as the engine's
  return rate;
}

// The faster of the driver's copy command and a kernel: some drivers leave commands to an engine
// that is slower than the memory.
double EvaluationKinds::time_copies() {
  const std::uint64_t wanted = context_.device->info().software() ? kSoftwareBytes : kBytes;
  const std::uint64_t most =
      std::min(context_.device->limits().max_allocation_size, context_.max_range());
  const std::uint64_t bytes = std::min(wanted, most) / kPieceGranule * kPieceGranule;
  const Buffer from = context_.device->buffer(bytes, MemoryKind::Device, "copy_source");
  const Buffer to = context_.device->buffer(bytes, MemoryKind::Device, "copy_target");
  recorder_.submit(
      recorder_.make_list("fill", [&](CommandList& list) { list.fill(from, 0, bytes, 1); }));
  const auto time = [&](const std::function<void(CommandList&)>& copy) {
    Recorded recorded;
    recorder_.make_lists({{recorded, "copy", [&](CommandList& list) {
                             list.write_timestamp("begin");
                             copy(list);
                             list.write_timestamp("end");
                           }}});
    recorder_.warm_up(recorded);
    return recorder_.time_list(recorded, kCopyWarmUps, kCopySamples).device_us;
  };
  const auto copy_by_kernels = [&](CommandList& list) {
    // Side by side: one grid of workgroups has too few loads under way for a large device.
    const std::uint64_t piece = bytes / kPieces;
    for (std::uint64_t k = 0; k < kPieces; ++k) {
      const auto count = static_cast<std::uint32_t>(piece / context_.element_bytes());
      v_.ops->record(
          list, kernel::copy{{.source = {from, k * piece, piece}, .result = {to, k * piece, piece}},
                             {.count = count}});
    }
  };
  const double by_command = time([&](CommandList& list) { list.copy(from, 0, to, 0, bytes); });
  const double by_kernel = time(copy_by_kernels);
  return 2 * static_cast<double>(bytes) / (std::min(by_command, by_kernel) * 1e-6);
}

std::vector<MemoryUse> EvaluationKinds::memory() const {
  std::vector<MemoryUse> uses;
  for (const auto& [name, bytes] : context_.device->memory_by_name())
    uses.push_back({name, 0, bytes});
  const MemoryStatistics pools = context_.device->memory();
  uses.push_back({"rounding up to size classes", 0, pools.bytes_padding});
  uses.push_back(
      {"pooled, free", 0, pools.bytes_reserved - pools.bytes_in_use - pools.bytes_padding});
  std::uint64_t plans = 0;
  for (const auto& term : terms_) plans += term ? term->host_bytes() : 0;
  uses.push_back({"order of blocks and instances", problem_.order_bytes(), 0});
  uses.push_back({"columns in that order", problem_.column_bytes(), 0});
  uses.push_back({"gather plans", plans, 0});
  uses.push_back({"numbers by scalar",
                  v_.diagonal_positions.capacity() * sizeof(std::uint32_t) +
                      problem_.source().constant.capacity() + problem_.model().constant.capacity(),
                  0});
  std::erase_if(uses, [](const MemoryUse& use) { return use.host + use.device == 0; });
  return narrow_ == nullptr ? uses : together(uses, narrow_->abilities().measurements->memory());
}

}  // namespace topograd::runtime::vulkan
