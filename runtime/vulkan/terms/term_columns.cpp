// Chunks of columns: their layout, uploads and orders.
#include "term_columns.hpp"

#include "../../../ir/batch/unset_vector.hpp"
#include "../../../ir/error.hpp"
#include "../../plan/column_copy.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;

/// Chunks begin at multiples of this many instances, so that offsets into results are aligned.
constexpr std::uint64_t kChunkAlignment = 256;

}  // namespace

TermColumns::TermColumns(Context& context, const ir::Batch& batch, const TermShape& shape,
                         std::uint64_t row_numbers)
    : context_(context), batch_(batch), shape_(shape), forms_(find_forms(batch, shape.layout)) {
  const codegen::ColumnLayout& layout = shape_.layout;
  const std::uint64_t bytes = std::max<std::uint64_t>(
      {4ull * layout.index_columns, std::uint64_t{context_.element_bytes()} * layout.data_columns,
       std::uint64_t{context_.element_bytes()} * row_numbers, 4ull});
  const std::uint64_t shared = bytes;  // numbers that all rows share
  std::uint64_t most = (context_.max_range() - std::min(context_.max_range(), shared)) / bytes;
  if (most < batch_.size()) most = most / kChunkAlignment * kChunkAlignment;
  if (most == 0) {
    throw Error(ErrorCode::Unsupported, "kernel \"" + shape_.name +
                                            "\": expected a storage buffer range of at least " +
                                            std::to_string(bytes * kChunkAlignment) +
                                            " bytes, got " + std::to_string(context_.max_range()));
  }
  for (std::uint64_t first = 0; first < batch_.size(); first += most) {
    Chunk chunk;
    chunk.first = static_cast<std::uint32_t>(first);
    chunk.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, batch_.size() - first));
    upload_index(chunk);
    upload_data(chunk);
    chunks_.push_back(std::move(chunk));
  }
}

void TermColumns::upload_index(Chunk& chunk) {
  const StoredColumns stored = stored_columns(shape_.layout);
  const std::size_t by_row = forms_.stored_index() * std::size_t{chunk.count};
  ir::UnsetVector<std::uint32_t> index(by_row + forms_.index.size() - forms_.stored_index());
  auto shared = index.begin() + static_cast<std::ptrdiff_t>(by_row);
  chunk.words.index = form_words(forms_.index, chunk.count);
  for (std::size_t c = 0, at = 0; c < forms_.index.size(); ++c) {
    const IndexForm& form = forms_.index[c];
    chunk.words.step.push_back(form.stored ? 0 : form.step);
    if (form.stored) {
      copy_column(batch_, stored.index[c], chunk.first, std::span(index).subspan(at, chunk.count));
      at += chunk.count;
    } else {
      *shared++ = form.base + form.step * chunk.first;
    }
  }
  chunk.index = make_buffer(context_, index, shape_.name + "_index");
}

void TermColumns::upload_data(Chunk& chunk, bool own) {
  const StoredColumns stored = stored_columns(shape_.layout);
  const std::size_t by_row = forms_.stored_data() * std::size_t{chunk.count};
  ir::UnsetVector<double> data(by_row + forms_.data.size() - forms_.stored_data());
  auto shared = data.begin() + static_cast<std::ptrdiff_t>(by_row);
  for (std::size_t c = 0, at = 0; c < forms_.data.size(); ++c) {
    if (forms_.data[c].stored) {
      const bool there = chunk.resident.add(context_, batch_, stored.data[c], at, chunk.count);
      if (!there && (own || batch_.resident(stored.data[c]))) {
        const auto column = std::span(data).subspan(at, chunk.count);
        copy_column(batch_, stored.data[c], chunk.first, column);
        if (!own) write_numbers(context_, chunk.data, column, at);
      }
      at += chunk.count;
    } else {
      *shared++ = forms_.data[c].value;
    }
  }
  if (!chunk.data) {
    chunk.words.data = form_words(forms_.data, chunk.count);
    chunk.data = make_numbers(context_, data.size(), shape_.name + "_data");
  }
  const auto write = [&](std::uint64_t first, std::uint64_t count) {
    write_numbers(context_, chunk.data, std::span(data).subspan(first, count), first);
  };
  if (own) chunk.resident.each_other(data.size(), write);
  chunk.resident.take(context_, batch_, chunk.data, {}, chunk.first);
}

void TermColumns::bind(BindingTable& table, const Chunk& chunk) const {
  table.set(BufferRole::index_columns, chunk.index);
  table.set(BufferRole::data_columns, chunk.data);
  table.set(chunk.words);
}

bool TermColumns::refresh(bool own) {
  const bool moved = own && refresh_data_forms(batch_, shape_.layout, forms_);
  for (Chunk& chunk : chunks_) {
    if (moved) chunk.data = Buffer();
    upload_data(chunk, own);
  }
  return moved;
}

std::uint32_t TermColumns::cost_partials() const {
  // Each dispatch rounds its instances up to whole workgroups.
  std::uint64_t partials = 0;
  for (const Chunk& chunk : chunks_) {
    const std::uint64_t dispatches = chunk.count / context_.max_invocations() + 1;
    partials += chunk.count / context_.workgroup_size + 1 + dispatches;
    if (context_.max_invocations() < context_.workgroup_size) partials += dispatches;
  }
  return static_cast<std::uint32_t>(partials);
}

std::uint32_t TermColumns::chunk_end(std::uint32_t first) const {
  for (const Chunk& chunk : chunks_) {
    if (first < chunk.first + chunk.count) return chunk.first + chunk.count;
  }
  return first;
}

void TermColumns::to_device_order(std::span<const double> by_instance, std::span<double> stored,
                                  std::uint32_t columns) const {
  for (const Chunk& chunk : chunks_) {
    for (std::uint32_t k = 0; k < columns; ++k) {
      double* out = &stored[std::size_t{chunk.first} * columns + std::size_t{k} * chunk.count];
      for (std::uint32_t i = 0; i < chunk.count; ++i) {
        out[i] = by_instance[(std::size_t{chunk.first} + i) * columns + k];
      }
    }
  }
}

void TermColumns::from_device_order(std::span<const double> stored, std::span<double> by_instance,
                                    std::uint32_t columns) const {
  for (const Chunk& chunk : chunks_) {
    for (std::uint32_t k = 0; k < columns; ++k) {
      const double* in = &stored[std::size_t{chunk.first} * columns + std::size_t{k} * chunk.count];
      for (std::uint32_t i = 0; i < chunk.count; ++i) {
        by_instance[(std::size_t{chunk.first} + i) * columns + k] = in[i];
      }
    }
  }
}

}  // namespace topograd::runtime::vulkan
