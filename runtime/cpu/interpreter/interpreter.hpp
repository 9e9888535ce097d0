// The interpreter: lowers programs to instructions, and runs them on tiles of instances or on rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../../../ir/program.hpp"
#include "../../rows/rows.hpp"
#include "../tiles/column.hpp"
#include "../tiles/pool.hpp"
#include "../tiles/tile_ops.hpp"

namespace topograd::runtime::cpu {

/// Index of an operand: constants are numbered first, then columns, then registers.
using OperandIndex = std::uint32_t;

struct Instruction {
  enum class Action : std::uint8_t {
    Apply,  ///< out = op(a, b, c)
    Both,   ///< out = pair(a, b, c)
    Load,   ///< out = gathered leaf number a
    Store   ///< output number out = a
  };
  static constexpr std::uint32_t kNoOutput = ~std::uint32_t{0};

  Action action = Action::Apply;
  ir::Op op = ir::Op::Literal;
  Pair pair = Pair::AddAdd;
  std::uint32_t out = 0;
  OperandIndex a = 0, b = 0, c = 0;
  /// Number of the output that the result of Apply or Both is, if nothing else reads it.
  std::uint32_t output = kNoOutput;
};

/// A leaf that instructions load (an index column selects from a vector) or read in place (a
/// column).
struct LeafUse {
  ir::Op op = ir::Op::Data;
  std::uint32_t slot = 0;
  friend bool operator==(const LeafUse&, const LeafUse&) = default;
};

/// A program as instructions on tiles.
struct TileProgram {
  std::vector<Instruction> instructions;
  std::vector<double> literals;  ///< first indices: tiles of equal numbers
  std::vector<LeafUse> columns;  ///< next places: Data and Seed leaves, read in place
  std::uint32_t registers = 0;   ///< last indices: tiles of the worker
  std::vector<LeafUse> gathers;  ///< loaded: Parameter, Tangent and Uniform leaves
  std::uint32_t outputs = 0;

  OperandIndex first_column() const { return static_cast<OperandIndex>(literals.size()); }
  OperandIndex first_register() const {
    return static_cast<OperandIndex>(literals.size() + columns.size());
  }
  OperandIndex operands() const { return first_register() + registers; }
};

/// Lowers a program: expands composite ops, schedules nodes and drops dead ones. An op whose value
/// only one other op reads is fused with it into one instruction if such a pair exists.
///
/// A register is free after the last read of its value. A leaf is loaded right before its first
/// use. Cost: linear in nodes.
TileProgram lower(const ir::Program& program);

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
  void bind(const TileKernel<T>& kernel, const Binding<T>& binding, std::size_t first);

  Column<T> registers_, outputs_;
  std::vector<const T*> constants_and_columns_;
};

/// Makes a runner on the calling thread with this machine's instruction set.
std::unique_ptr<RowRunner> make_row_runner(Precision precision, Bits bits = Bits::native);

}  // namespace topograd::runtime::cpu
