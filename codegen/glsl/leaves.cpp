// Loads of a program's leaves, and sums of costs and stored rows beside a kernel's results.
#include "leaves.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "../../ir/error.hpp"

namespace topograd::codegen {
namespace {

using ir::Op;

struct Needed {
  std::set<std::uint32_t> parameters, tangents, data, uniforms, seeds;  // slots
  // index columns that these loads need
  std::map<std::uint32_t, IndexSource> index_columns;
  std::set<std::uint32_t> data_columns;
};

const OwnSlot* find_own(const LeafAccess& access, std::uint32_t slot) {
  const auto found = std::ranges::find(access.own, slot, &OwnSlot::slot);
  return found == access.own.end() ? nullptr : &*found;
}

template <class Source>
const Source& source_of(const std::vector<Source>& sources, std::uint32_t slot,
                        std::uint32_t columns, std::string_view kind) {
  if (slot >= sources.size()) {
    throw Error(ErrorCode::InvalidArgument, text("generate: the layout has ", sources.size(), " ",
                                                 kind, " slots, the program reads slot ", slot));
  }
  const Source& source = sources[slot];
  if (source.column >= columns) {
    throw Error(ErrorCode::InvalidArgument,
                text("generate: ", kind, " slot ", slot, " lies in column ", source.column,
                     ", the layout has ", columns));
  }
  return source;
}

/// Neighbouring slots [first, end) in neighbouring columns: column + (slot - first).
struct Run {
  std::uint32_t first = 0, end = 0, column = 0;
};

/// The range of `slots`, if a loop should load them: there are many, each with its own stored
/// column.
template <class Source>
std::optional<Run> find_run(const std::set<std::uint32_t>& slots,
                            const std::vector<Source>& sources) {
  if (slots.size() < kLeastLooped || *slots.rbegin() >= sources.size()) return std::nullopt;
  const Run run{*slots.begin(), *slots.rbegin() + 1, sources[*slots.begin()].column};
  for (std::uint32_t slot = run.first; slot < run.end; ++slot) {
    Source expected;
    expected.column = run.column + slot - run.first;
    if (!(sources[slot] == expected)) return std::nullopt;
  }
  return run;
}

const IndexSource& index_source(const LeafAccess& access, const std::vector<IndexSource>& sources,
                                std::uint32_t slot, std::string_view kind) {
  return source_of(sources, slot, access.layout.index_columns, kind);
}

const DataSource& data_source(const LeafAccess& access, std::uint32_t slot) {
  return source_of(access.layout.data, slot, access.layout.data_columns, "data");
}

Needed find_needed(const Prepared& prepared, const LeafAccess& access,
                   const std::vector<std::uint32_t>& targets) {
  Needed out;
  for (std::size_t id = 0; id < prepared.live.size(); ++id) {
    const ir::Node& node = prepared.program.nodes[id];
    if (!prepared.live[id]) continue;
    if (node.op == Op::Parameter) out.parameters.insert(node.slot());
    if (node.op == Op::Tangent && access.loads_tangents) out.tangents.insert(node.slot());
    if (node.op == Op::Data) out.data.insert(node.slot());
    if (node.op == Op::Uniform) out.uniforms.insert(node.slot());
    if (node.op == Op::Seed) out.seeds.insert(node.slot());
  }
  std::set<std::uint32_t> indexed = out.parameters;
  indexed.insert(out.tangents.begin(), out.tangents.end());
  std::erase_if(indexed, [&](std::uint32_t slot) { return find_own(access, slot) != nullptr; });
  indexed.insert(targets.begin(), targets.end());
  for (const std::uint32_t slot : indexed) {
    const IndexSource& source = index_source(access, access.layout.parameters, slot, "parameter");
    out.index_columns.emplace(source.column, source);
  }
  for (const std::uint32_t slot : out.uniforms) {
    const IndexSource& source = index_source(access, access.layout.uniforms, slot, "uniform");
    out.index_columns.emplace(source.column, source);
  }
  for (const std::uint32_t slot : out.data) {
    out.data_columns.insert(data_source(access, slot).column);
  }
  return out;
}

// i, stride + i, 2u * stride + i, ...
std::string column_position(std::uint32_t column, std::string_view stride, std::string_view row) {
  if (column == 0) return std::string(row);
  if (column == 1) return text(stride, " + ", row);
  return text(unsigned_literal(column), " * ", stride, " + ", row);
}

std::string index_expression(const IndexSource& source) {
  std::string out = text("c", source.column);
  if (source.offset == 0) return out;
  const auto magnitude =
      static_cast<std::uint64_t>(std::abs(static_cast<std::int64_t>(source.offset)));
  return out + (source.offset > 0 ? " + " : " - ") + unsigned_literal(magnitude);
}

// No branch: all rows of a shared number read the same element.
constexpr std::string_view kColumnPosition = R"(
// Position of row `row` of a flexible column: an odd form has numbers by row from form / 2 on, an even
// one a shared number there.
uint column_position(uint form, uint row) {
  return (form >> 1u) + (row & (0u - (form & 1u)));
}
)";

class Loader {
 public:
  Loader(const LeafAccess& access, const Needed& needed, const std::vector<std::uint32_t>& targets,
         Precision precision, LeafNames& names, Shader& shader)
      : access_(access), needed_(needed), precision_(precision), names_(names), shader_(shader) {
    if (access.own.empty() && !access.fused) {
      parameters_ = find_run(needed.parameters, access.layout.parameters);
      tangents_ = find_run(needed.tangents, access.layout.parameters);
    }
    data_ = find_run(needed.data, access.layout.data);
    find_direct_columns(targets);
  }

  void write() {
    indices();
    if (parameters_) {
      loop(Op::Parameter, *parameters_, BufferRole::x);
    } else {
      vectors(Op::Parameter, needed_.parameters, BufferRole::x);
    }
    if (tangents_) {
      loop(Op::Tangent, *tangents_, BufferRole::direction);
    } else {
      vectors(Op::Tangent, needed_.tangents, BufferRole::direction);
    }
    for (const std::uint32_t slot : needed_.uniforms) {
      const IndexSource& source = index_source(access_, access_.layout.uniforms, slot, "uniform");
      number(Op::Uniform, slot, BufferRole::uniforms, index_expression(source));
    }
    if (data_) loop(Op::Data, *data_, access_.data_columns);
    for (const std::uint32_t slot : data_ ? std::set<std::uint32_t>() : needed_.data) {
      const DataSource& source = data_source(access_, slot);
      number(Op::Data, slot, access_.data_columns,
             source.kind == DataSource::Kind::flexible
                 ? flexible_position({ColumnForm::Word::data, source.column})
                 : column_position(source.column, access_.stride, access_.row));
    }
    for (const std::uint32_t slot : needed_.seeds) {
      number(Op::Seed, slot, BufferRole::seeds,
             column_position(slot, "out_stride", access_.seed_row));
    }
  }

 private:
  /// Finds columns that are read outside loops.
  void find_direct_columns(const std::vector<std::uint32_t>& targets) {
    const auto add = [&](const std::vector<IndexSource>& sources, const auto& slots) {
      for (const std::uint32_t slot : slots) direct_columns_.insert(sources[slot].column);
    };
    if (!parameters_) add(access_.layout.parameters, needed_.parameters);
    if (!tangents_) add(access_.layout.parameters, needed_.tangents);
    add(access_.layout.parameters, targets);
    add(access_.layout.uniforms, needed_.uniforms);
  }

  /// Loads many neighbours in a loop: compile time grows faster than the number of loads.
  void loop(Op op, const Run& run, BufferRole role) {
    const auto name = shader_.use(role, element_of(precision_));
    const std::string array = text("all_", name), count = unsigned_literal(run.end - run.first);
    const std::string column =
        run.column == 0 ? "k" : text("(k + ", unsigned_literal(run.column), ")");
    std::string position = text(column, " * ", access_.stride, " + ", access_.row);
    if (op != Op::Data)
      position = text(shader_.use(access_.index_columns, Element::u32), "[", position, "]");
    shader_.body().line(scalar_type(precision_), " ", array, "[", count, "];");
    shader_.body().line("for (uint k = 0u; k < ", count, "; ++k) ", array, "[k] = ", name, "[",
                        position, "];");
    for (std::uint32_t slot = run.first; slot < run.end; ++slot)
      names_.at(op, slot) = text(array, "[", unsigned_literal(slot - run.first), "]");
  }

  void indices() {
    for (const auto& [column, source] : needed_.index_columns) {
      if (!direct_columns_.contains(column)) continue;
      const auto name = shader_.use(access_.index_columns, Element::u32);
      if (source.kind == IndexSource::Kind::column) {
        shader_.body().line("uint c", column, " = ", name, "[",
                            column_position(column, access_.stride, access_.row), "];");
        continue;
      }
      const std::string position = flexible_position({ColumnForm::Word::index, source.form});
      shader_.body().line("uint c", column, " = ", name, "[", position, "] + ",
                          shader_.use({ColumnForm::Word::step, source.form}), " * ",
                          access_.counter, ";");
    }
  }

  std::string flexible_position(const ColumnForm& form) {
    shader_.declare("column_position", kColumnPosition.substr(1));
    return text("column_position(", shader_.use(form), ", ", access_.row, ")");
  }

  void vectors(Op op, const std::set<std::uint32_t>& slots, BufferRole role) {
    for (const std::uint32_t slot : slots) {
      if (const OwnSlot* own = find_own(access_, slot)) {
        names_.at(op, slot) = op == Op::Parameter ? own->value : own->direction;
      } else {
        number(
            op, slot, role,
            index_expression(index_source(access_, access_.layout.parameters, slot, "parameter")));
      }
    }
  }

  void number(Op op, std::uint32_t slot, BufferRole role, const std::string& position) {
    if (access_.fused && role == BufferRole::direction) {
      shader_.body().line("precise ", scalar_type(precision_), " ", names_.at(op, slot), " = ",
                          fused_direction(position, precision_, shader_), ";");
      return;
    }
    const auto name = shader_.use(role, element_of(precision_));
    shader_.body().line(scalar_type(precision_), " ", names_.at(op, slot), " = ", name, "[",
                        position, "];");
  }

  const LeafAccess& access_;
  const Needed& needed_;
  Precision precision_;
  LeafNames& names_;
  Shader& shader_;
  std::optional<Run> parameters_, tangents_, data_;  // loaded in loops
  std::set<std::uint32_t> direct_columns_;
};

// True for a letter and digits, optionally after a "d": no keyword or variable of ours is like
// that.
bool is_short_name(std::string_view name) {
  constexpr std::string_view kFree = "afghjlmnqrvxyz";
  if (name.size() > 1 && name[0] == 'd' && name[1] > '9') name.remove_prefix(1);
  if (name.empty() || name == "x" || kFree.find(name[0]) == kFree.npos) return false;
  return std::ranges::all_of(name.substr(1), [](char c) { return c >= '0' && c <= '9'; });
}

// True for names that are lower-case and short, or have an underscore inside: no keyword or
// built-in function of GLSL, and of our variables only those listed below.
bool usable(const std::string& name) {
  constexpr std::array<std::string_view, 11> kTaken = {
      "index_columns", "data_columns",   "column_position", "fixed_scalars",
      "out_stride",    "out_first",      "x_first",         "atomic_uint",
      "next_state",    "next_direction", "curvature_first"};
  if (is_short_name(name)) return true;
  const std::size_t underscore = name.find('_');
  if (!is_identifier(name) || underscore == 0 || underscore == std::string::npos) return false;
  if (name.find("__") != std::string::npos || std::ranges::find(kTaken, name) != kTaken.end())
    return false;
  for (const std::string_view prefix :
       {"gl_", "tg_", "own_", "sum_", "workgroup_", "compensated_", "sums_", "rz_", "rr_", "pq_",
        "fused_", "all_", "item_", "end_", "index_form_", "index_step_", "data_form_"}) {
    if (name.starts_with(prefix)) return false;
  }
  return std::ranges::none_of(name, [](char c) { return c >= 'A' && c <= 'Z'; });
}

void name_slots(std::vector<std::string>& out, std::uint32_t count,
                const std::vector<std::string>& wished, std::string_view fallback,
                std::set<std::string>& taken) {
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    const bool wish = slot < wished.size() && usable(wished[slot]) && !taken.contains(wished[slot]);
    out.push_back(wish ? wished[slot] : text(fallback, slot));
    taken.insert(out.back());
  }
}

}  // namespace

std::string fused_direction(std::string_view position, Precision precision, Shader& shader) {
  const Element element = element_of(precision);
  return text(shader.use(BufferRole::preconditioned, element), "[", position, "] + ",
              scalar_type(precision), "(beta) * ", shader.use(BufferRole::direction, element), "[",
              position, "]");
}

LeafNames leaf_names(const KernelRequest& request, const ir::LeafCounts& leaves) {
  LeafNames out;
  std::set<std::string> taken;
  name_slots(out.parameters, leaves.parameters, request.parameter_names, "p", taken);
  name_slots(out.data, leaves.data, request.data_names, "d", taken);
  name_slots(out.uniforms, leaves.uniforms, request.uniform_names, "u", taken);
  name_slots(out.seeds, leaves.seeds, {}, "s", taken);
  std::vector<std::string> wished;
  for (const std::string& parameter : out.parameters) wished.push_back("d" + parameter);
  name_slots(out.tangents, leaves.parameters, wished, "dp", taken);
  return out;
}

std::vector<std::string> write_loads(const Prepared& prepared, const LeafAccess& access,
                                     const std::vector<std::uint32_t>& targets, Precision precision,
                                     LeafNames& names, Shader& shader) {
  const Needed needed = find_needed(prepared, access, targets);
  Loader(access, needed, targets, precision, names, shader).write();
  std::vector<std::string> positions;
  for (const std::uint32_t slot : targets) {
    positions.push_back(
        index_expression(index_source(access, access.layout.parameters, slot, "parameter")));
  }
  return positions;
}

std::uint32_t column_bytes(const Prepared& prepared, const LeafAccess& access,
                           const std::vector<std::uint32_t>& targets, Precision precision) {
  const Needed needed = find_needed(prepared, access, targets);
  const std::size_t number = precision == Precision::f32 ? 4 : 8;
  return static_cast<std::uint32_t>(4 * needed.index_columns.size() +
                                    number * needed.data_columns.size());
}

ValuesText::ValuesText(const KernelRequest& request)
    : request_(request), sums_(request.wide_sums ? Precision::f64 : request.precision) {
  if (request.values.given) sum_.emplace(sums_, request.workgroup_size, request.use_subgroups);
}

void ValuesText::begin(Shader& shader) const {
  if (sum_) sum_->begin(shader, "cost");
}

void ValuesText::open_loop(std::string_view variable, Shader& shader) const {
  shader.body().line("uint grid = gl_NumWorkGroups.x * ", unsigned_literal(request_.workgroup_size),
                     ";");
  shader.body().open(text("for (uint ", variable, " = gl_GlobalInvocationID.x + first; ", variable,
                          " < count; ", variable, " += grid)"));
}

void ValuesText::add(const Written& written, std::size_t first, std::string_view row,
                     Shader& shader) const {
  if (!sum_) return;
  sum_->add(shader, "cost", written.outputs[first], request_.precision);
  for (std::uint32_t k = 0; k < request_.values.rows; ++k) {
    const auto rows = shader.use(BufferRole::rows, element_of(request_.precision), Access::write);
    const std::string offset = k == 0   ? std::string()
                               : k == 1 ? std::string("rows_stride + ")
                                        : text(unsigned_literal(k), " * rows_stride + ");
    shader.body().line(rows, "[", offset, row, "] = ", written.outputs[first + 1 + k], ";");
  }
}

void ValuesText::end(Shader& shader) const {
  if (!sum_) return;
  const auto costs = shader.use(BufferRole::costs, element_of(sums_), Access::write);
  shader.body().line();
  shader.body().line(scalar_type(sums_), " total = ", sum_->total(shader, "cost"), ";");
  shader.body().line("if (gl_LocalInvocationIndex == 0u) ", costs,
                     "[costs_first + gl_WorkGroupID.x] = total;");
}

std::uint32_t ValuesText::bytes() const {
  return request_.values.rows * (request_.precision == Precision::f32 ? 4 : 8);
}

}  // namespace topograd::codegen
