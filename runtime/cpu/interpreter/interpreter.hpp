// The interpreter: runs a lowered program on tiles of instances.
#pragma once

#include "../tiles/column.hpp"
#include "../tiles/tile_ops.hpp"
#include "lower.hpp"

#include <cstdint>
#include <vector>

namespace topograd::runtime::cpu {

/// A lowered program in one precision, with its constants in tiles. Read-only while it runs.
template <class T>
class TileKernel {
 public:
  explicit TileKernel(const ir::Program& program, const TileOps<T>& ops = tile_ops<T>());

  const TileProgram& program() const { return program_; }
  const TileOps<T>& ops() const { return *ops_; }
  const T* constant(std::size_t literal) const { return constants_.data() + literal * kTile; }

 private:
  TileProgram program_;
  const TileOps<T>* ops_;
  Column<T> constants_;
};

/// Numbers of instances: from[i] belongs to instance i, or from[i % kTile] if all tiles share them.
template <class T>
struct ColumnSource {
  const T* from = nullptr;
  bool shared = false;
};

/// Numbers selected by an index column: from[index[i]] belongs to instance i; without one, *from to
/// all.
template <class T>
struct GatherSource {
  const T* from = nullptr;
  const std::uint32_t* index = nullptr;
};

/// Memory of the leaves and outputs of a kernel. Columns reach to the end of the last tile.
template <class T>
struct Binding {
  std::vector<ColumnSource<T>> columns;  ///< by TileProgram::columns
  std::vector<GatherSource<T>> gathers;  ///< by TileProgram::gathers
  /// Columns by output; if null or empty, the output stays in the worker.
  std::vector<T*> outputs;
  bool stream = false;  ///< outputs do not fit the caches
};

/// Registers and outputs of one thread.
template <class T>
class Worker {
 public:
  /// Runs instances [first, first + n) of one tile; first is a multiple of kTile, n at most kTile.
  void run(const TileKernel<T>& kernel, const Binding<T>& binding, std::size_t first,
           std::size_t n);
  /// Output `k` of the last run that was not bound to a column.
  const T* output(std::size_t k) const { return outputs_.data() + k * kTile; }

 private:
  void reserve(const TileProgram& program);
  void place(const TileKernel<T>& kernel, const Binding<T>& binding, std::size_t first);

  Column<T> registers_, outputs_;
  std::vector<const T*> constants_and_columns_;
};

}  // namespace topograd::runtime::cpu
