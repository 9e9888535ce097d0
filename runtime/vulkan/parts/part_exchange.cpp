// Packing, sums by chunk, and unpacking of what a part exchanges with the others.
#include "part_exchange.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "../../cpu/tiles/pool.hpp"
#include "../../model/model.hpp"

namespace topograd::runtime::vulkan {

using codegen::Scalar;

ChunkColumns::ChunkColumns(const Context& context, const ModelPart& part, std::uint32_t count)
    : chunks(static_cast<std::uint32_t>(part.chunks.size())),
      sums(context.device->buffer(
          std::max<std::uint64_t>(std::uint64_t{count} * chunks, 1) *
              (context.scalar_precision() == Precision::f64 ? sizeof(double) : sizeof(float)),
          MemoryKind::Readback, "chunk_sums")),
      numbers(std::size_t{count} * chunks) {}

void ChunkColumns::read(Context& context) {
  if (numbers.empty()) return;
  if (context.scalar_precision() == Precision::f64)
    return context.device->download<double>(sums, numbers);
  std::vector<float> narrow(numbers.size());
  context.device->download<float>(sums, narrow);
  std::ranges::copy(narrow, numbers.begin());
}

ChunkSums::ChunkSums(const Part& part, std::shared_ptr<const ModelPart> of, const PartWork& work)
    : Part(part), of_(std::move(of)), work_(work) {
  std::vector<std::uint32_t> ends;
  for (const Chunk& chunk : of_->chunks)
    for (const std::uint64_t end : {chunk.first, chunk.end})
      ends.push_back(static_cast<std::uint32_t>(end));
  ends_ = make_buffer(context_, ends, "chunks");
}

std::span<const double> ChunkSums::all_chunks(std::span<const double> columns,
                                              std::size_t count) const {
  if (!work_.failed()) return of_->link->all_chunks(columns, count);
  const std::vector<double> lost(columns.size(), std::numeric_limits<double>::quiet_NaN());
  return of_->link->all_chunks(lost, count);
}

std::vector<double> ChunkSums::totals(std::span<const double> columns, std::size_t count) const {
  const std::span<const double> all = all_chunks(columns, count);
  const std::size_t length = all.size() / count;
  std::vector<double> totals;
  for (std::size_t k = 0; k < count; ++k)
    totals.push_back(cpu::pairwise_sum(all.subspan(k * length, length)));
  return totals;
}

std::vector<double> ChunkSums::totals_and_largest(std::span<const double> columns,
                                                  std::size_t count) const {
  const std::span<const double> all = all_chunks(columns, count);
  const std::size_t length = all.size() / count;
  std::vector<double> totals;
  for (std::size_t k = 0; k + 1 < count; ++k)
    totals.push_back(cpu::pairwise_sum(all.subspan(k * length, length)));
  double largest = 0;
  for (const double value : all.last(length))
    largest = std::isnan(largest) || value <= largest ? largest : value;  // a NaN is kept
  totals.push_back(largest);
  return totals;
}

PartCosts::PartCosts(const Part& part, TermRows& rows, const ChunkSums& sums)
    : Part(part), rows_(rows), sums_(sums) {
  for (const Term& term : problem_.model().terms) instances_.push_back(instances_of(term));
}

// A residual counts in the chunk of the first block that it reads; one that reads none counts in
// the first chunk of the model.
PartCosts::Instances PartCosts::instances_of(const Term& term) const {
  const ir::Batch& batch = *term.batch;
  const std::size_t chunks = sums_.chunks();
  const BlockNumbers numbers(problem_.model().arrays);
  const auto chunk_of = [&](std::size_t i) {
    if (batch.parameter_columns() == 0) return sums_.of().first ? std::size_t{0} : chunks;
    return std::min(find_chunk(sums_.of().chunks, numbers.at(batch.index(i, 0))), chunks);
  };
  std::vector<std::uint32_t> chunk(batch.size()), starts(chunks + 1);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    chunk[i] = static_cast<std::uint32_t>(chunk_of(i));
    if (chunk[i] < chunks) ++starts[chunk[i] + 1];
  }
  for (std::size_t c = 0; c < chunks; ++c) starts[c + 1] += starts[c];
  std::vector<std::uint32_t> entries(starts.back()), next = starts;
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (chunk[i] < chunks) entries[next[chunk[i]]++] = static_cast<std::uint32_t>(i);
  return {make_buffer(context_, starts, "chunk_starts"),
          make_buffer(context_, entries, "chunk_entries")};
}

void PartCosts::record(CommandList& list, const Buffer& x, const ChunkColumns& columns,
                       std::uint32_t first) {
  // That kernel counts the instances that fail a guard.
  if (terms_.have_guards()) terms_.record_cost(list, x, Scalar::cost);
  rows_.record(list, Pass::cost, terms_.operands(x));
  list.barrier();
  for (std::uint32_t k = 0; k < terms_.size(); ++k) {
    if (!terms_[k]) continue;
    sums_.record(list,
                 kernel::chunk_numbers{{.numbers = rows_.result(list, Pass::cost, k),
                                        .starts = instances_[k].starts,
                                        .entries = instances_[k].entries},
                                       {}},
                 columns, first + k);
  }
}

// As the engine of the CPU: squares, then energies.
double PartCosts::total(ChunkColumns& columns, std::uint32_t first) const {
  std::vector<double> both(std::size_t{2} * sums_.chunks());
  for (std::uint32_t k = 0; k < terms_.size(); ++k) {
    if (!terms_[k]) continue;
    const bool energy = problem_.model().terms[k].energy;
    const std::span<double> to =
        std::span(both).subspan(energy ? sums_.chunks() : 0, sums_.chunks());
    const std::span<const double> from = columns.column(first + k);
    for (std::size_t c = 0; c < to.size(); ++c) to[c] += energy ? from[c] : 2 * from[c];
  }
  const std::vector<double> totals = sums_.totals(both, 2);
  return totals[0] / 2 + totals[1];
}

namespace {

Buffer host_numbers(const Context& context, std::uint32_t count, MemoryKind kind,
                    std::string_view name) {
  return context.device->buffer(std::max(count, 1U) * context.element_bytes(), kind, name);
}

}  // namespace

PartGhosts::PartGhosts(const Part& part, PartLink& link, PartWork& work)
    : Part(part),
      link_(link),
      work_(work),
      borders_(static_cast<std::uint32_t>(link.borders().size())),
      ghosts_(static_cast<std::uint32_t>(link.ghosts().size())),
      border_scalars_(make_buffer(context_, link.borders(), "borders")),
      ghost_scalars_(make_buffer(context_, link.ghosts(), "ghosts")),
      packed_(host_numbers(context_, borders_, MemoryKind::Readback, "packed")),
      received_(host_numbers(context_, ghosts_, MemoryKind::Upload, "received")),
      out_(context_.wide() ? 0 : borders_),
      in_(context_.wide() ? 0 : ghosts_) {}

void PartGhosts::record_pack(CommandList& list, const Buffer& v) {
  if (borders_ == 0) return;
  v_.ops->record(list, kernel::pack{{.source = v, .result = packed_, .places = border_scalars_},
                                    {.count = borders_}});
}

void PartGhosts::exchange() {
  work_.run([&] { recorder_.last().wait(); });
  if (!context_.wide()) return exchange_narrow();
  const auto numbers = [](const Buffer& buffer, std::uint32_t count) {
    return std::span(reinterpret_cast<double*>(buffer.mapped()), count);
  };
  link_.exchange(numbers(packed_, borders_), numbers(received_, ghosts_));
}

void PartGhosts::exchange_narrow() {
  const auto* const packed = reinterpret_cast<const float*>(packed_.mapped());
  std::copy_n(packed, borders_, out_.begin());
  link_.exchange(out_, in_);
  std::ranges::copy(in_, reinterpret_cast<float*>(received_.mapped()));
}

void PartGhosts::record_unpack(CommandList& list, const Buffer& v) {
  if (ghosts_ == 0) return;
  v_.ops->record(list, kernel::unpack{{.source = received_, .result = v, .places = ghost_scalars_},
                                      {.count = ghosts_}});
}

}  // namespace topograd::runtime::vulkan
