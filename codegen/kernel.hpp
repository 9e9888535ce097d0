// Requests for kernels, the generated source, and its interface that the host relies on.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../ir/enum_table.hpp"
#include "../ir/hash.hpp"
#include "../ir/program.hpp"
#include "precision.hpp"

namespace topograd::codegen {

/// Accumulation strategies (docs/architecture.md). The gather strategies need no device features.
enum class Accumulation {
#define TG_ACCUMULATION(row, ...) row,
#include "accumulations.def"
};

/// Features that a strategy may need of a device.
struct AccumulationNeeds {
#define TG_ACCUMULATION_NEED(feature, missing) bool feature = false;
#include "accumulations.def"
};

/// A row of the table of strategies.
struct AccumulationRow {
  Accumulation value;
  std::string_view name;
  bool atomic = false;  ///< kernels are of Form::scatter; else gather and sum_terms
  AccumulationNeeds f32_needs = {}, f64_needs = {};  ///< by precision of the sums
};
inline constexpr AccumulationRow kAccumulations[] = {
#define TG_ACCUMULATION(row, ...) {.value = Accumulation::row, .name = #row, __VA_ARGS__},
#include "accumulations.def"
};
TG_ENUM_TABLE(Accumulation, kAccumulations)
constexpr const AccumulationRow& row_of(Accumulation accumulation) {
  return kAccumulations[static_cast<std::size_t>(accumulation)];
}
/// Throws an Error{InvalidArgument} that lists the names.
inline Accumulation parse_accumulation(std::string_view text) {
  return parse_enum<Accumulation>("accumulation", text);
}

/// A storage or uniform buffer that holds one array (or a run of members) of one element type.
struct Binding {
  std::uint32_t set = 0;
  std::uint32_t binding = 0;
  std::string name;  ///< of the variable or, if it has none, of its block
  Element element = Element::f32;
  std::uint32_t lanes = 1;   ///< 1 for scalars, 2 to 4 for vectors
  std::uint32_t stride = 0;  ///< bytes from one array element to the next; 0 without an array
  bool readonly = false;
  bool writeonly = false;
};

/// A member of the push constant block.
struct PushConstant {
  std::string name;
  std::uint32_t offset = 0;  ///< bytes
  std::uint32_t size = 0;    ///< bytes

  bool operator==(const PushConstant&) const = default;
};

/// Marks a workgroup dimension that is not a specialisation constant.
constexpr std::uint32_t kNoSpecialization = ~0u;

/// The interface that a module must have before a pipeline is made of it.
struct ExpectedLayout {
  std::vector<Binding> bindings;             ///< any order
  std::vector<PushConstant> push_constants;  ///< by offset
  std::uint32_t push_constant_size = 0;      ///< bytes
  std::array<std::uint32_t, 3> workgroup_size = {1, 1, 1};
  std::array<std::uint32_t, 3> workgroup_ids = {kNoSpecialization, kNoSpecialization,
                                                kNoSpecialization};
};

/// How the outputs of all instances are combined.
enum class Form {
  /// out[out_first + k * out_stride + i] = output k of instance i (residual, jacobian, jvp)
  store,
  /// One partial sum of output 0 per workgroup, by a tree, for any number of workgroups.
  reduce,
  /// out[out_first + index of slot targets[k]] += output k, atomically (gradient, jtjp, vjp)
  scatter,
  /// Each work item evaluates and sums the entries of one block (gradient, jtjp, blocks).
  gather,
  /// Each work item sums the stored terms of one block (second half of gather_store).
  sum_terms
};
TG_ENUM_NAMES(Form)

/// Source of an index slot (a parameter or a uniform) of an instance.
struct IndexSource {
  /// column: stored by row, column c at c * stride. flexible: as its form says.
  enum class Kind { column, flexible } kind = Kind::column;
  std::uint32_t column = 0;  ///< below index_columns
  std::int32_t offset = 0;   ///< added to the index (a Vec3 needs one column, not three)
  std::uint32_t form = 0;    ///< flexible: number of its form
  friend bool operator==(const IndexSource&, const IndexSource&) = default;
};

/// Source of a data slot.
struct DataSource {
  enum class Kind { column, flexible } kind = Kind::column;
  std::uint32_t column = 0;  ///< below data_columns; flexible: number of its form
  friend bool operator==(const DataSource&, const DataSource&) = default;
};

/// How the columns of a batch are stored.
///
/// The storage of a flexible column is not part of the kernel: push constants say for each dispatch
/// whether its rows have their own numbers or share one (ColumnForm), and whether an index grows by
/// a step from row to row (gather: with the block's first index). One kernel serves all columns,
/// and columns that need not be stored cost no bandwidth.
struct ColumnLayout {
  std::vector<IndexSource> parameters;  ///< by parameter slot
  std::vector<IndexSource> uniforms;    ///< by uniform slot
  std::vector<DataSource> data;         ///< by data slot
  std::uint32_t index_columns = 0;      ///< u32 columns
  std::uint32_t data_columns = 0;       ///< columns of numbers
  friend bool operator==(const ColumnLayout&, const ColumnLayout&) = default;
};
/// Layout in which every slot has a column of its own, stored by row.
ColumnLayout general_layout(const ir::LeafCounts& leaves);

/// The push constant that locates a flexible column in its buffer.
constexpr std::uint32_t form_by_row(std::uint32_t first) { return first << 1 | 1; }
constexpr std::uint32_t form_shared(std::uint32_t position) { return position << 1; }

/// A word of push constants after those of PushConstants.
struct ColumnForm {
  enum class Word {
    index,  ///< form_by_row or form_shared, in index_columns
    /// step of index form `form`: multiplied by the row, or by the block's first index
    step,
    data  ///< form_by_row or form_shared, in data_columns
  } word = Word::index;
  std::uint32_t form = 0;
  friend auto operator<=>(const ColumnForm&, const ColumnForm&) = default;
};
/// This many words fit in addition to PushConstants on every device.
inline constexpr std::uint32_t kMostFormWords = 16;

/// For Form::gather: one block slot is one position in the list of parameter blocks that an
/// instance reads (the tail of an edge, its head). A block has `block_width` neighbouring scalars;
/// the x index of one of them is x_first + block * block_width + coordinate.
struct GatherSlot {
  std::vector<std::uint32_t> slots;        ///< parameter slots in this block slot
  std::vector<std::uint32_t> coordinates;  ///< coordinate of each of them in the block
  ir::Program program;                     ///< the summed program; its outputs go to `targets`
  std::vector<std::uint32_t> targets;      ///< position in the block's `out_width` sums, by output
  ColumnLayout layout;                     ///< columns of an entry; own slots are not read
  /// Fused kernels only, after all other block slots: a block slot of another batch in which few
  /// blocks have entries. Its columns are the fused buffers.
  bool is_fused = false;
  /// Its program also computes KernelRequest::values after the summed outputs; one block slot at
  /// most.
  bool gives_values = false;
};

/// Fuses the JᵀJ·p of a conjugate-gradient iteration (Form::gather) with the steps before and after
/// it (VectorOp::cg_direction, cg_curvature): tangents are preconditioned + β direction, and
/// partial sums of p·q go to `curvature`, one per workgroup.
enum class Fusion {
  none,
  adds,    ///< adds to a product that another kernel has begun
  begins,  ///< sums for every block: adds damping p, stores p in next_direction
  decides  ///< like begins; also stores state, rz, rr in `decision`
};

/// Additional results of a store, scatter or gather from the same evaluation of each instance: the
/// next output of the program is a part of the cost, the following ones are rows.
struct BesideValues {
  bool given = false;      ///< one partial sum of the cost per workgroup goes to `costs`
  std::uint32_t rows = 0;  ///< stored in `rows`, row k of instance i at k * rows_stride + i
};

struct KernelRequest {
  std::string name;   ///< e.g. "springs_gradient"; letters, digits and underscores
  std::string title;  ///< one line for the header, e.g. "gradient of topology 1f3a..., springs"
  Form form = Form::store;
  Precision precision = Precision::f64;
  /// An atomic strategy; used by Form::scatter.
  Accumulation accumulation = Accumulation::gather_recompute;
  std::uint32_t workgroup_size = 128;  ///< a power of two, at most 1024
  // store, reduce, scatter:
  ir::Program program;
  ColumnLayout layout;
  std::vector<std::uint32_t> targets;  ///< scatter: parameter slot to which output k is added
  /// Store: the program is ∇²E·tangent, with an output for each parameter slot. A loop evaluates it
  /// along each unknown, and stores the upper triangle of ∇²E, packed by rows, in place of the
  /// outputs. The code does not grow with the number of columns.
  bool columns_in_loop = false;
  // gather, sum_terms:
  std::vector<GatherSlot>
      block_slots;                ///< sum_terms reads only slots and targets of the block slots
  std::uint32_t block_width = 1;  ///< scalars of a block in x
  std::uint32_t out_width = 1;    ///< sums of a block in out: w for vectors, w(w+1)/2 for blocks
  /// gather, sum_terms: work item w is block w and writes its sums; `owners` and `outputs` are
  /// unused.
  bool dense_blocks = false;
  /// gather, sum_terms: a workgroup shares work item w; its invocations take entries in turn, and a
  /// tree of fixed shape sums their results. For items of many entries.
  bool workgroup_items = false;
  /// workgroup_items: largest size of the tree in bytes; it has at least one number per invocation.
  /// Does not change results.
  std::uint32_t tree_bytes = 8192;
  // options:
  bool use_subgroups = false;  ///< reduce: the device has subgroup arithmetic
  bool wide_sums = false;      ///< reduce, values: partial sums are f64 for any `precision`
  /// Store, scatter, gather, sum_terms: return at once if Scalar::state in the scalar buffer is not
  /// 0 (vector/kernels.hpp), so that dispatches after the end of a solve cost almost nothing.
  bool predicated = false;
  Precision scalars = Precision::f64;  ///< predicated, fused: precision of the scalar buffer
  Fusion fusion = Fusion::none;        ///< gather
  /// Store, scatter, gather; neither predicated nor fused. Invocations of such a kernel run in
  /// grid-stride loops, unless a workgroup shares an item.
  BesideValues values;
  /// Preserve signed zero, infinities, NaN and denormals of that width.
  bool float_controls_f32 = false, float_controls_f64 = false;
  // Names in the source, by slot. A name is used if it is unique and either a lower-case identifier
  // with an underscore inside (so no keyword), one of the letters afghjlmnqrvyz with digits, or x
  // with digits; otherwise p0, d0, u0 ... A tangent has its parameter's name after a "d", seeds are
  // s0, s1 ...
  std::vector<std::string> parameter_names, data_names, uniform_names;
};

/// Purpose of a kernel's binding, and the name of its array in the shader. The host binds by role;
/// only used bindings exist, in this order.
enum class BufferRole {
  x,              ///< point, precision of the kernel
  direction,      ///< tangents, by the same index as x
  seeds,          ///< adjoints: row k of instance i at k * out_stride + i (gather: i = entries[e])
  uniforms,       ///< numbers shared by instances
  index_columns,  ///< u32, column c of instance (or entry) i at c * stride + i, or by its form
  data_columns,   ///< numbers, in the same layout
  starts,  ///< u32, first entry of work item w in block slot r at w * block_slots + r; the next one
           ///< ends it
  owners,  ///< gather: u32, block of work item w
  outputs,  ///< gather, sum_terms: u32, position of work item w in out (a block, or a partial sum)
  terms,  ///< sum_terms: output k of a block slot for entry e at entries[e] + slots[k] * out_stride
  entries,  ///< sum_terms, gather with seeds or rows: u32, position of the entry's instance
  results,
  failures,  ///< reduce of a program with guards: u32, [0] counts instances that failed one
  // vector/kernels.hpp:
  scalars,         ///< the solver's numbers, by Scalar
  partials,        ///< partial sums of workgroups
  fixed_scalars,   ///< u32 by scalar of x: 1 = fixed
  first_operand,   ///< an input vector
  second_operand,  ///< another input vector
  result,          ///< the output vector
  gradient,        ///< Jᵀr
  delta,           ///< the step
  residual,        ///< of the damped normal equations
  product,         ///< (JᵀJ + Λ) p
  preconditioned,  ///< z
  scale,           ///< Jacobi scaling
  damping,         ///< Λ, the diagonal added to JᵀJ
  blocks,          ///< diagonal blocks of JᵀJ, packed upper triangles
  inverse_blocks,  ///< inverses of the damped blocks
  // projection.hpp:
  rotated,       ///< scratch: matrices during diagonalisation
  eigenvectors,  ///< scratch
  // conjugate gradients:
  next_direction,  ///< p of this iteration; `direction` is that of the previous one
  decision,        ///< scalars that the direction kernel passes to the rest of its iteration
  curvature,       ///< partial sums of p·q
  // block slots of another batch in a fused kernel:
  /// u32, two per 32 blocks: a bit for each that has entries; how many have some before these
  fused_owners,
  fused_starts,         ///< u32, as `starts`, counted over the blocks that have entries
  fused_index_columns,  ///< u32, column c of entry e at c * fused_stride + e
  fused_data_columns,   ///< numbers, in the same layout
  // steps within a box:
  lower_bounds,  ///< by scalar of x
  upper_bounds,
  /// u32 by scalar of x: 1 = fixed, or on a bound against which the gradient pushes
  held_scalars,
  // the two-level preconditioner:
  coarse_vectors,  ///< vector f at entry e: f * entries + e
  coarse_matrix,   ///< dense, by rows; precision of sums
  coarse_in,       ///< coarse unknowns, or a matrix, as input; precision of sums
  coarse_out,      ///< coarse unknowns, or a matrix, as output
  // additional values of a kernel:
  costs,  ///< partial sums of the cost, one per workgroup
  rows,   ///< residuals
};
TG_ENUM_NAMES(BufferRole)

struct BindingInfo {
  BufferRole role;
  std::uint32_t binding = 0;
  Element element = Element::f32;
  bool writes = false;
  bool reads = true;
  std::string name;  ///< in the shader
};

/// Push constants of the kernels of generate(), which declare as many as they need; the words of
/// KernelSource::forms follow.
struct PushConstants {
  std::uint32_t count = 0;       ///< end of the instances (or work items) of this dispatch
  std::uint32_t first = 0;       ///< instance of invocation 0
  std::uint32_t stride = 0;      ///< of index and data columns
  std::uint32_t out_stride = 0;  ///< between outputs of a store, rows of seeds, slots of terms
  std::uint32_t out_first =
      0;                      ///< added to positions in out (reduce: first partial of the dispatch)
  std::uint32_t x_first = 0;  ///< gather: x index of block 0's first scalar
  std::uint32_t overwrite = 0;  ///< gather, sum_terms: 1 stores the sums, 0 adds them
  std::uint32_t zero_bits = 0;  ///< always 0
  // fused kernels: partial sums of r·z and r·r, and the start of those of p·q
  std::uint32_t sums_first = 0, sums_count = 0, sums_stride = 0, curvature_first = 0;
  std::uint32_t fused_stride = 0;  ///< of fused columns

  // kernels with additional values; these words are shared with fused kernels
  std::uint32_t& costs_first() { return sums_first; }  ///< index of workgroup 0's part
  std::uint32_t& rows_stride() { return sums_count; }  ///< between rows
};

struct KernelSource {
  std::string name;
  std::string glsl;
  std::vector<BindingInfo> bindings;
  std::vector<std::string> push_constants;  ///< names of the uint members
  std::vector<ColumnForm> forms;            ///< the last push constants
  std::uint32_t workgroup_size = 0;
  std::uint32_t operations = 0;  ///< per instance
  std::uint32_t statements = 0;  ///< of its programs in the code: those of a loop count once
  std::uint32_t bytes_per_instance =
      0;  ///< columns read (gather: of one entry per block slot), results written
  bool needs_float64 = false, needs_int64_atomics = false, needs_atomic_float = false,
       needs_subgroups = false;
  bool float_controls_f32 = false, float_controls_f64 = false;  ///< to be added to the module
  ir::Hash128 hash;  ///< of everything that changes the module; titles do not
};

/// The layout that reflection must find in the compiled kernel.
ExpectedLayout expected_layout(const KernelSource& source);

/// Writes the shader. Deterministic: the same request gives the same bytes on every machine.
/// Throws Error{InvalidArgument} for a request that contradicts itself.
KernelSource generate(const KernelRequest& request);

}  // namespace topograd::codegen
