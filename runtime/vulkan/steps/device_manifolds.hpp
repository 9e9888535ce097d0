// Blocks on manifolds on the device: bases of their tangents, and moves along them.
#pragma once

#include "../../linear/block_rows.hpp"
#include "../../model/model.hpp"
#include "../recording/vector_ops.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// Every record_ function leaves its results behind the caller's next barrier.
class DeviceManifolds {
 public:
  /// Offset of the packed diagonal block of a block, by its first scalar.
  using PackedStart = std::function<std::uint32_t(std::uint32_t first)>;
  /// Rows and columns of the blocks of a matrix off its diagonal that belong to blocks on
  /// manifolds, as lists of contract_matrix.
  struct MatrixVectors {
    struct Group {
      std::size_t piece = 0;
      std::uint32_t vectors = 0, items = 0;  ///< vectors of an item
      Buffer words;
    };
    std::vector<Group> rows, columns;
  };

  ///   manifolds  in the device's order; outlive this, as do context and vectors
  ///
  /// Throws Error{Unsupported} if packed diagonal blocks do not fit a storage buffer range.
  DeviceManifolds(Context& context, VectorOps& vectors, const Manifolds& manifolds,
                  const PackedStart& packed_start, std::uint64_t packed_size);

  /// Bases at x: what the functions below read.
  void record_bases(CommandList& list, const Buffer& x);
  /// v ← Pᵀ v on the blocks.
  void record_contract(CommandList& list, const Buffer& v);
  /// to ← P from on the blocks; the rest of `to` is left as it is.
  void record_expand(CommandList& list, const Buffer& from, const Buffer& to);
  /// H ← Pᵀ H P in the packed diagonal blocks.
  void record_contract_packed(CommandList& list, const Buffer& packed);
  /// Lists the vectors of a matrix by blocks of x.
  MatrixVectors vectors_of(const BlockRows& matrix, std::span<const ParameterArray> arrays) const;
  /// H ← Pᵀ H P in the blocks off the diagonal, with a barrier between.
  void record_contract_matrix(CommandList& list, const MatrixVectors& vectors,
                              const Buffer& matrix) const;
  /// out ← a (x ⊞ δ) + b x on the blocks, with factors from the scalar buffer; with barriers of its
  /// own.
  void record_plus(CommandList& list, const Buffer& x, const Buffer& delta, const Buffer& out,
                   codegen::Scalar a = codegen::Scalar::one,
                   codegen::Scalar b = codegen::Scalar::zero);

 private:
  /// As many blocks of one manifold as their bases fit a range.
  struct Piece {
    const ManifoldBlocks* manifold_blocks = nullptr;
    std::size_t first = 0;  // in their list
    std::uint32_t count = 0;
    LoadedKernel plus_kernel, basis_kernel;
    Buffer index, firsts, packed_starts, basis, moved;
  };
  /// The basis of a block: its number in a piece.
  struct Basis {
    static constexpr std::size_t kNone = ~std::size_t{0};
    std::size_t piece = kNone;
    std::uint32_t number = 0;
  };
  /// Words of contract_matrix, by piece and vectors of an item.
  using VectorLists = std::map<std::array<std::size_t, 2>, std::vector<std::uint32_t>>;

  void add(const ManifoldBlocks& manifold_blocks, std::size_t first, std::uint32_t count,
           const PackedStart& packed_start);
  std::vector<Basis> bases_of(const BlockNumbers& numbers) const;
  std::vector<MatrixVectors::Group> groups_of(const VectorLists& lists) const;
  /// The kernel of a program of a piece, made where a list declares it.
  const LoadedKernel& kernel_of(const CommandList& list, LoadedKernel& kernel, const char* name,
                                const ir::Program& program);
  void run(CommandList& list, const Piece& piece, const LoadedKernel& kernel, const Buffer& x,
           const Buffer& delta, const Buffer& out);

  Context& context_;
  VectorOps& vectors_;
  std::vector<Piece> pieces_;
};

}  // namespace topograd::runtime::vulkan
