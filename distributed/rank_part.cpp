// Makes the engine of a rank's part, joins vectors of all ranks, and moves ranks off lost devices.
#include "rank_part.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "../ir/error.hpp"
#include "../ir/machine/state_record.hpp"
#include "../runtime/cpu/engine.hpp"
#include "../runtime/hybrid/backend.hpp"
#include "../solver/session/device_engine.hpp"

namespace topograd::distributed {
namespace {

/// Residuals of a rank, on average, from which on devices are faster than its cores: an iteration
/// of conjugate gradients waits for the device twice.
constexpr std::uint64_t kWorthADevice = std::uint64_t{1} << 18;

std::uint64_t residuals_of(const runtime::Model& part) {
  std::uint64_t count = 0;
  for (const runtime::Term& term : part.terms) count += term.batch->size();
  return count;
}

}  // namespace

RankDevice choose_device(const Communicator& ranks, const SolverOptions& options) {
  RankDevice chosen{.options = options};
  const bool portable = options.bits == Bits::portable;
  const Backend backend = portable ? resolved(options).backend : options.backend;
  if (portable && backend == Backend::vulkan)
    throw Error(ErrorCode::Unsupported,
                "bits portable: several processes have no devices; use backend cpu");
  if (backend == Backend::cpu) return chosen;
  const bool asked = backend == Backend::vulkan;
  const ListedDevices devices = devices_by_uuid(options);
  if (devices.names.empty()) {
    if (!asked) return chosen;
    const DeviceFacts facts = probe_device(options);
    throw Error(facts.code, facts.problem);
  }
  chosen.name = devices.names[static_cast<std::size_t>(ranks.rank_here()) % devices.names.size()];
  chosen.options.device = chosen.name;
  if (asked) {
    chosen.use = RankDevice::Use::device;
  } else if (!devices.software) {
    chosen.use = RankDevice::Use::where_it_pays;
  }
  return chosen;
}

RankEngine make_rank_engine(const Communicator& ranks, const runtime::Model& part,
                            const runtime::EngineOptions& options, runtime::ModelPart& of,
                            const RankDevice& device) {
  using Use = RankDevice::Use;
  const std::uint64_t worth = kWorthADevice * static_cast<std::uint64_t>(ranks.size());
  const bool many = ranks.sum(residuals_of(part)) >= worth;
  RankEngine made;
  std::optional<Error> problem;
  if (device.use == Use::device || (device.use == Use::where_it_pays && many)) {
    runtime::EngineOptions there = options;
    there.device = device.name;
    try {
      require_self_check(device.options);
      made.engine = make_device_engine(part, there);
    } catch (const Error& error) {
      if (!runtime::hybrid::is_device_failure(error.code())) throw;
      problem = error;
      made.problem = error.what();
    }
  }
  made.some_on_devices = ranks.any(made.engine != nullptr);
  const bool some_on_cpus = ranks.any(made.engine == nullptr);
  of.mixed = made.some_on_devices && some_on_cpus;
  if (problem && device.use == Use::device && !made.some_on_devices) throw *problem;
  if (made.engine == nullptr)
    made.engine = runtime::cpu::make_cpu_engine(part, options, device.options.bits);
  return made;
}

namespace {

struct Division {
  std::vector<runtime::Chunk> chunks;
  std::vector<int> rank_of_chunk;  // one for each chunk
};

Division divide(const Communicator& ranks, const runtime::Model& model, PartitionMethod method,
                bool of_shares) {
  std::vector<runtime::Chunk> chunks = runtime::chunks_of(model.arrays);
  ChunkGraph graph = chunk_graph(model, chunks);
  if (of_shares) graph = joined_graph(ranks, graph);
  std::vector<int> rank_of_chunk = partition(ranks, graph, ranks.size(), method);
  return {std::move(chunks), std::move(rank_of_chunk)};
}

}  // namespace

RankPart::RankPart(const Communicator& ranks, const runtime::Model& model,
                   runtime::EngineOptions options, PartitionMethod method, const RankDevice& device,
                   const Shares* shares)
    : ranks_(ranks), scalars_(model.scalars) {
  const auto [chunks, rank_of_chunk] = divide(ranks, model, method, shares != nullptr);
  local_ = shares == nullptr ? local_model(model, chunks, rank_of_chunk, ranks.rank())
                             : part_of_shares(ranks, model, *shares, chunks, rank_of_chunk);
  halo_ = std::make_unique<Halo>(ranks, local_, chunks, rank_of_chunk);
  const auto is_energy = [](const runtime::Term& term) { return term.energy; };
  link_ = std::make_shared<runtime::ModelPart>(
      runtime::ModelPart{.chunks = local_.chunks,
                         .first = rank_of_chunk[0] == ranks.rank(),
                         .has_energies = std::ranges::any_of(model.terms, is_energy),
                         .link = halo_.get()});
  options.part = link_;
  options_ = std::move(options);
  RankEngine made = make_rank_engine(ranks, local_.model, options_, *link_, device);
  engine_ = std::move(made.engine);
  has_devices_ = made.some_on_devices;
  device_ = engine_->device();
  if (!made.problem.empty()) device_ += " (" + made.problem + ")";
  here_.assign(local_.model.scalars, 0.0);
  narrowed_ = here_;
}

std::string RankPart::device_failure_in(const std::function<void()>& f) const {
  try {
    f();
  } catch (const Error& error) {
    const bool on_device = engine_->backend() != runtime::Backend::cpu;
    if (!on_device || !runtime::hybrid::is_device_failure(error.code())) throw;
    return error.what();
  }
  return {};
}

void RankPart::leave_devices(const LostDevices& lost) {
  together(ranks_, [&] {
    if (!lost.here.empty()) {
      earlier_ += engine_->stats();
      engine_ = nullptr;  // its memory goes first
      engine_ = runtime::cpu::make_cpu_engine(local_.model, options_);
      device_ = engine_->device() + " (" + lost.here + ")";
    }
    const bool on_device = engine_->backend() != runtime::Backend::cpu;
    has_devices_ = ranks_.any(on_device);
    link_->mixed = ranks_.any(!on_device) && has_devices_;
  });
}

RankReport RankPart::report() const {
  const Traffic& traffic = halo_->traffic();
  constexpr std::uint64_t kSumsPerIteration = 3;  // p·q, then r·r and r·z
  return {
      .blocks = local_.blocks,
      .ghosts = local_.ghost_blocks,
      .residuals = local_.residuals,
      .residuals_again = local_.again,
      .bytes_per_iteration = traffic.bytes_per_exchange + kSumsPerIteration * traffic.bytes_per_sum,
      .messages_per_iteration = traffic.messages_per_exchange,
      .exchanges = traffic.ghost_exchanges,
      .sums = traffic.sums,
      .waited_seconds = traffic.seconds,
      .device = device_};
}

void RankPart::join(std::span<double> whole, const Fill& fill) {
  on_engine([&] { fill(here_); });
  together(ranks_, [&] { widen(here_, whole); });
}

void RankPart::join_product(std::span<const double> p, std::span<double> out, const Product& f) {
  const std::span<const double> in = narrowed(p);
  join(out, [&](std::span<double> here) { f(in, here); });
}

void RankPart::join_rows(std::span<double> out, const Fill& fill) {
  std::vector<double> rows(out.size());
  on_engine([&] { fill(rows); });
  together(ranks_, [&] {
    std::ranges::fill(out, 0.0);
    for (std::size_t t = 0; t < local_.terms.size(); ++t) {
      const runtime::Term& term = local_.model.terms[t];
      if (term.energy) continue;
      const std::size_t count = term.topology->program.outputs.size();
      for (std::size_t i = 0; i < local_.terms[t].instances.size(); ++i) {
        if (local_.terms[t].counted[i] == 0) continue;
        const std::uint64_t row = term.batch->residual_row(i);
        std::copy_n(rows.data() + row, count, out.data() + row);
      }
    }
    ranks_.join(out);
  });
}

void RankPart::join_instances(
    std::size_t term, std::span<double> values, std::size_t size,
    const std::function<void(std::size_t here, std::span<double>)>& fill) {
  const std::size_t t = term_here(term);
  const bool has_some = t < local_.terms.size();
  std::vector<double> numbers;
  on_engine([&] {
    if (!has_some) return;
    numbers.resize(local_.terms[t].instances.size() * size);
    fill(t, numbers);
  });
  together(ranks_, [&] {
    std::ranges::fill(values, 0.0);
    if (has_some) {
      const LocalModel::LocalTerm& local = local_.terms[t];
      for (std::size_t i = 0; i < local.instances.size(); ++i) {
        if (local.counted[i] == 0) continue;
        std::copy_n(numbers.data() + i * size, size, values.data() + local.instances[i] * size);
      }
    }
    ranks_.join(values);
  });
}

std::vector<std::uint32_t> RankPart::join_lists(
    std::size_t term, const std::function<std::vector<std::uint32_t>(std::size_t here)>& list) {
  std::vector<std::uint32_t> mine;
  on_engine([&] {
    const std::size_t t = term_here(term);
    if (t == local_.terms.size()) return;
    const LocalModel::LocalTerm& local = local_.terms[t];
    for (const std::uint32_t i : list(t))
      if (local.counted[i] != 0) mine.push_back(local.instances[i]);
  });
  return together(ranks_, [&] {
    std::vector<int> counts(static_cast<std::size_t>(ranks_.size())), offsets(counts.size());
    const int count = static_cast<int>(mine.size());
    MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, ranks_.comm());
    int total = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      offsets[r] = total;
      total += counts[r];
    }
    std::vector<std::uint32_t> all(static_cast<std::size_t>(total));
    MPI_Allgatherv(mine.data(), count, MPI_UINT32_T, all.data(), counts.data(), offsets.data(),
                   MPI_UINT32_T, ranks_.comm());
    std::ranges::sort(all);
    return all;
  });
}

std::span<const double> RankPart::narrowed(std::span<const double> whole) {
  together(ranks_, [&] { narrow(whole, narrowed_); });
  return narrowed_;
}

std::size_t RankPart::term_here(std::size_t term) const {
  const auto of = [](const LocalModel::LocalTerm& local) { return local.whole; };
  return static_cast<std::size_t>(std::ranges::find(local_.terms, term, of) - local_.terms.begin());
}

const runtime::Term* RankPart::term(std::size_t whole) const {
  const std::size_t t = term_here(whole);
  return t < local_.terms.size() ? &local_.model.terms[t] : nullptr;
}

void RankPart::widen(std::span<const double> here, std::span<double> whole) {
  local_.widen(here, whole);
  ranks_.join(whole);
}

void RankPart::narrow(std::span<const double> whole, std::span<double> here) {
  local_.narrow(whole, here);
}

void StepHistory::set_point(std::span<const double> x) {
  point_.assign(x.begin(), x.end());
  moved_ = linear_ = false;
  begin_step();
}

void StepHistory::accept(std::vector<double> trial) {
  before_ = std::exchange(point_, std::move(trial));
  moved_ = true;
  linear_ = false;
  begin_step();
}

void StepHistory::linearize() {
  moved_ = false;
  linear_ = true;
  begin_step();
}

void StepHistory::begin_step() {
  request_.reset();
  delta_.clear();
  length_.reset();
}

void StepHistory::keep_scaling(runtime::DampedSteps& steps) {
  ir::StateRecord record;
  steps.transfer(record);
  scaling_ = record.bytes();
}

void StepHistory::replay_scaling(runtime::DampedSteps& steps) const {
  steps.begin_solve();
  if (scaling_.empty()) return;
  ir::StateRecord record(scaling_);
  steps.transfer(record);
}

// linearize() tells the norm of the step that led to the point, so it is made again, from the point
// before.
void StepHistory::replay_point(runtime::Engine& engine, const Call& call) const {
  runtime::DampedSteps& steps = *engine.abilities().steps;
  if (!moved_) return call([&] { engine.set_point(point_); });
  std::vector<double> delta = point_;
  for (std::size_t k = 0; k < delta.size(); ++k) delta[k] -= before_[k];
  call([&] { engine.set_point(before_); });
  call([&] { steps.linearize(); });
  call([&] { steps.try_step(delta); });
  call([&] { steps.accept(); });
}

void StepHistory::replay(runtime::Engine& engine, const Call& call) const {
  if (point_.empty()) return;
  runtime::DampedSteps& steps = *engine.abilities().steps;
  call([&] { replay_scaling(steps); });
  replay_point(engine, call);
  if (linear_) call([&] { steps.linearize(); });
  if (request_) {
    call([&] { steps.try_step(*request_); });
  } else if (!delta_.empty()) {
    call([&] { steps.try_step(delta_); });
  }
  if (length_) call([&] { engine.abilities().step_lengths->rescale_step(*length_); });
}

// Each round takes a device from a rank, so they end.
void RankCalls::recover(LostDevices lost) {
  for (;;) {
    part_->leave_devices(lost);
    try {
      return history_.replay(part_->engine(),
                             [&](const std::function<void()>& f) { part_->on_engine(f); });
    } catch (const LostDevices& more) {
      lost = more;
    }
  }
}

}  // namespace topograd::distributed
