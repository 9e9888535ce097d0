// Blocks on manifolds on the device.
#include "device_manifolds.hpp"

#include "../../../ir/error.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;
using codegen::Scalar;

DeviceManifolds::DeviceManifolds(Context& context, VectorOps& vectors, const Manifolds& manifolds,
                                 const PackedStart& packed_start, std::uint64_t packed_size)
    : context_(context), vectors_(vectors) {
  const std::uint64_t bytes = packed_size * context.element_bytes();
  if (bytes > context.max_range()) {
    throw Error(ErrorCode::Unsupported,
                "vulkan: manifolds: the diagonal blocks need a storage buffer range of " +
                    std::to_string(bytes) + " bytes, the device has " +
                    std::to_string(context.max_range()) +
                    "; use a linear solver on the host (cholesky)");
  }
  for (const ManifoldBlocks& manifold_blocks : manifolds.all) {
    const std::uint64_t square = std::uint64_t{manifold_blocks.width} * manifold_blocks.width;
    const std::uint64_t most =
        std::max<std::uint64_t>(std::min(context.max_range() / (square * context.element_bytes()),
                                         context.max_range() / (4 * manifold_blocks.width)),
                                1);
    for (std::size_t first = 0; first < manifold_blocks.blocks.size(); first += most) {
      const auto count = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(most, manifold_blocks.blocks.size() - first));
      add(manifold_blocks, first, count, packed_start);
    }
  }
}

void DeviceManifolds::add(const ManifoldBlocks& manifold_blocks, std::size_t first,
                          std::uint32_t count, const PackedStart& packed_start) {
  const auto blocks = std::span(manifold_blocks.blocks).subspan(first, count);
  std::vector<std::uint32_t> index(std::size_t{manifold_blocks.width} * count), packed(count);
  for (std::uint32_t b = 0; b < count; ++b) {
    packed[b] = packed_start(blocks[b]);
    for (std::uint32_t k = 0; k < manifold_blocks.width; ++k)
      index[std::size_t{k} * count + b] = blocks[b] + k;
  }
  Piece piece;
  piece.manifold_blocks = &manifold_blocks;
  piece.first = first;
  piece.count = count;
  piece.index = make_buffer(context_, index, "manifold_index");
  piece.firsts = make_buffer(context_, blocks, "manifold_blocks");
  piece.packed_starts = make_buffer(context_, packed, "manifold_packed");
  piece.basis =
      make_numbers(context_, std::uint64_t{manifold_blocks.width} * manifold_blocks.width * count,
                   "manifold_basis");
  piece.moved =
      make_numbers(context_, std::uint64_t{manifold_blocks.width} * count, "manifold_moved");
  pieces_.push_back(std::move(piece));
}

const LoadedKernel& DeviceManifolds::kernel_of(const CommandList& list, LoadedKernel& kernel,
                                               const char* name, const ir::Program& program) {
  if (!kernel && list.declared() != nullptr) {
    codegen::KernelRequest request;
    request.name = name;
    request.program = program;
    request.layout = codegen::general_layout(program.leaves);
    kernel = load_kernel(context_, std::move(request));
  }
  if (!kernel)
    throw Error(ErrorCode::Internal,
                "kernel \"" + std::string(name) + "\" is recorded, but was not declared");
  return kernel;
}

void DeviceManifolds::run(CommandList& list, const Piece& piece, const LoadedKernel& kernel,
                          const Buffer& x, const Buffer& delta, const Buffer& out) {
  BindingTable table;
  table.set(BufferRole::x, x);
  table.set(BufferRole::direction, delta);
  table.set(BufferRole::index_columns, piece.index);
  table.set(BufferRole::results, out);
  dispatch_all(context_, list, kernel, table, {.stride = piece.count, .out_stride = piece.count},
               piece.count);
}

void DeviceManifolds::record_bases(CommandList& list, const Buffer& x) {
  for (Piece& piece : pieces_) {
    const LoadedKernel& kernel =
        kernel_of(list, piece.basis_kernel, "manifold_basis", piece.manifold_blocks->basis);
    run(list, piece, kernel, x, x, piece.basis);
  }
}

void DeviceManifolds::record_contract(CommandList& list, const Buffer& v) {
  for (const Piece& piece : pieces_) {
    vectors_.record(list,
                    kernel::contract{{.result = v, .bases = piece.basis, .places = piece.firsts},
                                     {.count = piece.count}},
                    {.width = piece.manifold_blocks->width});
  }
}

void DeviceManifolds::record_expand(CommandList& list, const Buffer& from, const Buffer& to) {
  for (const Piece& piece : pieces_) {
    vectors_.record(
        list,
        kernel::expand{
            {.tangents = from, .bases = piece.basis, .result = to, .places = piece.firsts},
            {.count = piece.count}},
        {.width = piece.manifold_blocks->width});
  }
}

void DeviceManifolds::record_contract_packed(CommandList& list, const Buffer& packed) {
  for (const Piece& piece : pieces_) {
    vectors_.record(list,
                    kernel::contract_packed{
                        {.blocks = packed, .bases = piece.basis, .places = piece.packed_starts},
                        {.count = piece.count}},
                    {.width = piece.manifold_blocks->width});
  }
}

std::vector<DeviceManifolds::Basis> DeviceManifolds::bases_of(const BlockNumbers& numbers) const {
  std::vector<Basis> out(numbers.count());
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const auto blocks = std::span(pieces_[p].manifold_blocks->blocks);
    for (std::uint32_t b = 0; b < pieces_[p].count; ++b)
      out[numbers.at(blocks[pieces_[p].first + b])] = {p, b};
  }
  return out;
}

std::vector<DeviceManifolds::MatrixVectors::Group> DeviceManifolds::groups_of(
    const VectorLists& lists) const {
  std::vector<MatrixVectors::Group> out;
  const std::size_t most = std::max<std::uint64_t>(context_.max_range() / 16, 1) * 4;  // words
  for (const auto& [key, words] : lists) {
    for (std::size_t first = 0; first < words.size(); first += most) {
      const auto part = std::span(words).subspan(first, std::min(most, words.size() - first));
      out.push_back({.piece = key[0],
                     .vectors = static_cast<std::uint32_t>(key[1]),
                     .items = static_cast<std::uint32_t>(part.size() / 4),
                     .words = make_buffer(context_, part, "matrix_vectors")});
    }
  }
  return out;
}

DeviceManifolds::MatrixVectors DeviceManifolds::vectors_of(
    const BlockRows& matrix, std::span<const ParameterArray> arrays) const {
  const BlockNumbers numbers(arrays);
  const std::vector<Basis> bases = bases_of(numbers);
  VectorLists rows, columns;
  const auto add = [](VectorLists& lists, const Basis& basis, std::uint32_t vectors,
                      const std::array<std::uint32_t, 3>& location) {
    if (basis.piece == Basis::kNone) return;
    std::vector<std::uint32_t>& list = lists[{basis.piece, vectors}];
    list.insert(list.end(), {location[0], location[1], location[2], basis.number});
  };
  for (std::uint32_t block = 0; block < bases.size(); ++block) {
    const BlockRows::Row row = matrix.row(block);
    const auto scalars = matrix.columns_of(block);
    const std::uint32_t own = arrays[numbers.array_of_scalar(scalars[row.diagonal])].width;
    for (std::uint32_t at = 0, width = 0; at < row.length; at += width) {
      const std::size_t array = numbers.array_of_scalar(scalars[at]);
      width = arrays[array].width;
      if (at == row.diagonal) continue;
      const std::uint32_t location = row.values + at;
      add(rows, bases[block], width, {location, row.length, 1});
      add(columns, bases[numbers.of(array, scalars[at])], own, {location, 1, row.length});
    }
  }
  return {.rows = groups_of(rows), .columns = groups_of(columns)};
}

void DeviceManifolds::record_contract_matrix(CommandList& list, const MatrixVectors& vectors,
                                             const Buffer& matrix) const {
  for (const auto* side : {&vectors.rows, &vectors.columns}) {
    list.barrier();
    for (const MatrixVectors::Group& group : *side) {
      const Piece& piece = pieces_[group.piece];
      vectors_.record(
          list,
          kernel::contract_matrix{{.matrix = matrix, .bases = piece.basis, .places = group.words},
                                  {.count = group.items * group.vectors,
                                   .vectors = group.vectors,
                                   .blocks = piece.count}},
          {.width = piece.manifold_blocks->width});
    }
  }
}

void DeviceManifolds::record_plus(CommandList& list, const Buffer& x, const Buffer& delta,
                                  const Buffer& out, Scalar a, Scalar b) {
  for (Piece& piece : pieces_) {
    const LoadedKernel& kernel =
        kernel_of(list, piece.plus_kernel, "manifold_plus", piece.manifold_blocks->plus);
    run(list, piece, kernel, x, delta, piece.moved);
  }
  list.barrier();
  for (const Piece& piece : pieces_) {
    vectors_.record(
        list,
        kernel::scatter_rows{
            {.columns = piece.moved, .vector = x, .result = out, .places = piece.firsts},
            {.count = piece.count, .columns_factor = a, .vector_factor = b}},
        {.width = piece.manifold_blocks->width});
  }
}

}  // namespace topograd::runtime::vulkan
