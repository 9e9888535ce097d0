// Blocks on manifolds on the device: bases of their tangents, and moves along them.
#pragma once

#include "../../model/manifold_blocks.hpp"
#include "../recording/vector_ops.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace topograd::runtime::vulkan {

/// Every record_ function leaves its results behind the caller's next barrier.
class DeviceManifolds {
 public:
  /// Place of the packed diagonal block of a block, by its first scalar.
  using PackedStart = std::function<std::uint32_t(std::uint32_t first)>;

  ///   manifolds  in the device's order; outlive this, as do context and vectors
  ///
  /// Throws Error{Unsupported} if packed diagonal blocks do not fit a storage buffer range.
  DeviceManifolds(Context& context, VectorOps& vectors, const Manifolds& manifolds,
                  const PackedStart& packed_start, std::uint64_t packed_size);

  /// Kernels of all that it records.
  void need(Needs& needs);
  /// Bases at x: what the functions below read.
  void record_bases(CommandList& list, const Buffer& x);
  /// v ← Pᵀ v on the blocks.
  void record_contract(CommandList& list, const Buffer& v);
  /// to ← P from on the blocks; the rest of `to` is left as it is.
  void record_expand(CommandList& list, const Buffer& from, const Buffer& to);
  /// H ← Pᵀ H P in the packed diagonal blocks.
  void record_contract_packed(CommandList& list, const Buffer& packed);
  /// out ← a (x ⊞ δ) + b x on the blocks, with factors from the scalar buffer; with barriers of its
  /// own.
  void record_plus(CommandList& list, const Buffer& x, const Buffer& delta, const Buffer& out,
                   codegen::Scalar a = codegen::Scalar::one,
                   codegen::Scalar b = codegen::Scalar::zero);

 private:
  /// As many blocks of one manifold as their bases fit a range.
  struct Piece {
    const ManifoldBlocks* manifold_blocks = nullptr;
    std::uint32_t count = 0;
    LoadedKernel plus_kernel, basis_kernel;
    Buffer index, firsts, packed_starts, basis, moved;
  };
  void add(const ManifoldBlocks& manifold_blocks, std::size_t first, std::uint32_t count,
           const PackedStart& packed_start);
  LoadedKernel load(const char* name, const ir::Program& program);
  void run(CommandList& list, const Piece& piece, const LoadedKernel& kernel, const Buffer& x,
           const Buffer& delta, const Buffer& out);

  Context& context_;
  VectorOps& vectors_;
  std::vector<Piece> pieces_;
};

}  // namespace topograd::runtime::vulkan
