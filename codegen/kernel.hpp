// What a kernel is asked to be, and the source that is made of it.
#pragma once

#include <topograd/ir/hash.hpp>
#include <topograd/ir/program.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::codegen {

enum class Precision { f32, f64 };
std::string_view name(Precision precision);

/// How the outputs of all instances come together.
enum class Form {
  store,   ///< out[k * out_stride + i] = output k of instance i           (residual, jacobian, jvp,
           ///< terms)
  reduce,  ///< one partial sum of output 0 a workgroup, by a tree          (cost)
  scatter,  ///< atomically out[target slot's index] += output k             (gradient, jtjp, vjp,
            ///< blocks)
  gather,  ///< each work item evaluates the entries of one owner and sums  (gradient, jtjp, blocks)
  sum_terms  ///< each work item sums the stored terms of one owner           (second half of
             ///< gather_store)
};

/// The ladder of DESIGN §8. The gather rungs need nothing of the device.
enum class Accumulation { gather_store, gather_recompute, atomic_float, atomic_cas };
std::string_view name(Accumulation accumulation);
/// Throws Error{InvalidArgument} that lists the names.
Accumulation parse_accumulation(std::string_view text);

/// Where an index slot (a parameter or a uniform) of an instance comes from.
struct IndexSource {
  enum class Kind { column, constant } kind = Kind::column;
  std::uint32_t column = 0;  ///< stored column, or position in the constants buffer
  std::int32_t offset = 0;   ///< added to what is stored there (a Vec3 needs one column, not three)
  friend bool operator==(const IndexSource&, const IndexSource&) = default;
};

/// Where a data slot comes from: a stored column, or a number shared by all instances.
struct DataSource {
  enum class Kind { column, constant } kind = Kind::column;
  std::uint32_t column = 0;  ///< stored column, or position in the data constants
  friend bool operator==(const DataSource&, const DataSource&) = default;
};

/// How the columns of a batch are stored. The general layout stores every column and has no
/// constants.
struct ColumnLayout {
  std::vector<IndexSource> parameters;  ///< by parameter slot
  std::vector<IndexSource> uniforms;    ///< by uniform slot
  std::vector<DataSource> data;         ///< by data slot
  std::uint32_t index_columns = 0;      ///< stored u32 columns
  std::uint32_t data_columns = 0;       ///< stored columns of numbers
  std::uint32_t index_constants = 0;
  std::uint32_t data_constants = 0;
  friend bool operator==(const ColumnLayout&, const ColumnLayout&) = default;
};
ColumnLayout general_layout(const ir::LeafCounts& leaves);

/// For Form::gather: one role is one way in which an instance touches an owner (the tail of an
/// edge, its head). An owner is a block of `width` neighbouring scalars: x index = x_first + owner
/// * width + coordinate.
struct GatherRole {
  std::vector<std::uint32_t> slots;        ///< parameter slots that lie in the owner in this role
  std::vector<std::uint32_t> coordinates;  ///< coordinate of each of them in the owner's block
  ir::Program program;                     ///< what is summed; its outputs go to `targets`
  std::vector<std::uint32_t> targets;      ///< position in the owner's `out_width` sums, by output
  ColumnLayout layout;                     ///< columns of an entry; own slots' sources are not read
};

struct KernelRequest {
  std::string name;   ///< e.g. "springs_gradient"; letters, digits and underscores
  std::string title;  ///< one line for the header, e.g. "gradient of topology 1f3a..., springs"
  Form form = Form::store;
  Precision precision = Precision::f64;
  Accumulation accumulation =
      Accumulation::gather_recompute;  ///< read by Form::scatter: a rung of atomics
  std::uint32_t workgroup_size = 128;
  // store, reduce, scatter:
  ir::Program program;
  ColumnLayout layout;
  std::vector<std::uint32_t> targets;  ///< scatter: parameter slot that output k is added to
  // gather, sum_terms:
  std::vector<GatherRole> roles;  ///< sum_terms reads roles' targets only
  std::uint32_t owner_width = 1;  ///< scalars of an owner in x
  std::uint32_t out_width =
      1;  ///< sums of an owner in out (width for vectors, w(w+1)/2 for blocks)
  // wishes:
  bool use_subgroups = false;  ///< reduce: the device has subgroup arithmetic
  bool float_controls_f32 = false,
       float_controls_f64 = false;  ///< preserve signed zero, inf, NaN, denormals
};

/// What a binding of a kernel is for. The host binds by role; bindings appear only where they are
/// used.
enum class BufferRole {
  x,                ///< point, precision of the kernel
  direction,        ///< tangents, by the same index as x
  seeds,            ///< adjoints of residual rows: seeds[k * out_stride + i]
  uniforms,         ///< numbers shared by instances
  index_columns,    ///< u32, column c of instance (or entry) i at c * stride + i
  data_columns,     ///< numbers, likewise
  index_constants,  ///< u32
  data_constants,   ///< numbers
  starts,   ///< gather: u32, entries of work item w in role r: starts[w * roles + r] .. starts[w *
            ///< roles + r + 1]
  owners,   ///< gather: u32, owner of work item w
  outputs,  ///< gather: u32, position of work item w in out (an owner, or a partial sum)
  terms,    ///< sum_terms: stored terms, entry e's k-th output at entries[e] + k * out_stride
  entries,  ///< sum_terms: u32, position of the entry's instance
  out       ///< results
};
enum class Element { u32, u64, f32, f64 };

struct BindingInfo {
  BufferRole role;
  std::uint32_t binding = 0;
  Element element = Element::f32;
  bool writes = false;
  std::string name;  ///< in the shader
};

/// Push constants, the same for every kernel. Counts are 32-bit elements.
struct PushConstants {
  std::uint32_t count = 0;       ///< instances (or work items) of this batch or chunk
  std::uint32_t first = 0;       ///< instance of invocation 0 of this dispatch
  std::uint32_t stride = 0;      ///< of index and data columns
  std::uint32_t out_stride = 0;  ///< store: between outputs; seeds likewise
  std::uint32_t out_first =
      0;  ///< added to positions in out (reduce: first partial of this dispatch)
  std::uint32_t x_first = 0;    ///< gather: x index of owner 0's first scalar
  std::uint32_t overwrite = 0;  ///< gather, sum_terms: 1 stores the sum, 0 adds it to what is there
  std::uint32_t reserved = 0;
};

struct KernelSource {
  std::string name;
  std::string glsl;
  std::vector<BindingInfo> bindings;
  std::uint32_t workgroup_size = 0;
  std::uint32_t operations = 0;          ///< of one instance
  std::uint32_t bytes_per_instance = 0;  ///< columns read and results written
  bool needs_float64 = false, needs_int64_atomics = false, needs_atomic_float = false,
       needs_subgroups = false;
  bool float_controls_f32 = false, float_controls_f64 = false;  ///< to be added to the module
  ir::Hash128 hash;  ///< of the source and everything that changes the module
};

/// Writes the shader. Deterministic: the same request gives the same bytes on every machine.
/// Throws Error{InvalidArgument} for a request that contradicts itself.
KernelSource generate(const KernelRequest& request);

}  // namespace topograd::codegen
