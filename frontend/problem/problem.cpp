// Problem: the calls that users and solvers make.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "../../ir/error.hpp"
#include "../problem.hpp"
#include "callables.hpp"
#include "map_elements.hpp"
#include "problem_state.hpp"

namespace topograd {
namespace {

constexpr std::uint32_t kMaxScalars = std::numeric_limits<std::uint32_t>::max() - 1;

[[noreturn]] void fail(ErrorCode code, const std::string& text) { throw Error(code, text); }

void check_array(const char* call, std::size_t size, int width, std::size_t present) {
  const std::string name = call;
  if (size == 0)
    fail(ErrorCode::InvalidArgument, name + ": expected at least one number, got none");
  if (width < 1 || size % static_cast<std::size_t>(width) != 0)
    fail(ErrorCode::Shape, name + ": expected blocks of " + std::to_string(width) + ", got " +
                               std::to_string(size) + " numbers");
  if (size > kMaxScalars - present)
    fail(ErrorCode::InvalidArgument,
         name + ": expected fewer than 2^32 - 1 numbers in all arrays together");
}

std::uint32_t narrow(std::size_t n) { return static_cast<std::uint32_t>(n); }

void check_numbers(const Data& data, const std::string& of_data, std::size_t got) {
  const std::size_t size = data.size() * static_cast<std::size_t>(data.width());
  if (got != size)
    fail(ErrorCode::Shape, "set: expected " + std::to_string(size) + " numbers" + of_data +
                               ", got " + std::to_string(got));
}

void check_size(const char* call, std::size_t size, std::size_t expected) {
  if (size != expected)
    throw Error(ErrorCode::Shape, std::string(call) + ": expected " + std::to_string(expected) +
                                      " numbers, got " + std::to_string(size));
}

}  // namespace

Problem::Problem() : state_(std::make_shared<detail::ProblemState>()) {}

Parameters Problem::add_parameters(std::span<double> values, int width, std::string_view name) {
  check_array("add_parameters", values.size(), width,
              changing(state_, "add_parameters").unknowns.scalars());
  const auto w = static_cast<std::uint32_t>(width);
  const std::uint32_t offset = require_not_moved_from(state_).unknowns.add(values, w, name);
  ++require_not_moved_from(state_).versions.structure;
  return {require_not_moved_from(state_).serial, offset, narrow(values.size()) / w, w};
}

Data Problem::add_data(std::span<const double> values, int width, std::string_view name) {
  check_array("add_data", values.size(), width, changing(state_, "add_data").data.size());
  const std::uint32_t offset = narrow(require_not_moved_from(state_).data.size());
  const std::uint32_t w = static_cast<std::uint32_t>(width);
  require_not_moved_from(state_).data.append(values);
  if (!name.empty() || !require_not_moved_from(state_).data_names.empty())
    require_not_moved_from(state_).data_names.emplace(offset, name);
  return {require_not_moved_from(state_).serial, offset, narrow(values.size()) / w, w};
}

Uniform Problem::add_uniform(double value) {
  changing(state_, "add_uniform").uniforms.push_back(value);
  ++require_not_moved_from(state_).versions.uniforms;
  return {require_not_moved_from(state_).serial,
          narrow(require_not_moved_from(state_).uniforms.size() - 1)};
}

void Problem::set(const Data& data, std::span<const double> values) {
  detail::check_same_problem("set", "data array", data.problem_, changing(state_, "set").serial);
  check_numbers(data, detail::of_array(data.id()), values.size());
  require_not_moved_from(state_).set_data(data.offset_, values);
}

void Problem::set(const Data& data, std::shared_ptr<const ir::ResidentData> values) {
  detail::check_same_problem("set", "data array", data.problem_, changing(state_, "set").serial);
  if (!values) fail(ErrorCode::InvalidArgument, "set: expected numbers, got none");
  check_numbers(data, detail::of_array(data.id()), values->size());
  require_not_moved_from(state_).set_data(data.offset_, std::move(values));
}

void Problem::set(const Uniform& uniform, double value) {
  detail::check_same_problem("set", "uniform", uniform.problem_, changing(state_, "set").serial);
  require_not_moved_from(state_).uniforms[uniform.index_] = value;
  ++require_not_moved_from(state_).versions.uniforms;
}

double Problem::value(const Uniform& uniform) const {
  detail::check_same_problem("value", "uniform", uniform.problem_,
                             require_not_moved_from(state_).serial);
  return require_not_moved_from(state_).uniforms[uniform.index_];
}

Residual Problem::add_rows(std::span<const Value> rows, const ResidualOptions& options) {
  return {
      require_not_moved_from(state_).serial,
      detail::trace_block(changing(state_, "add_residual"), rows, options, BlockKind::residual)};
}

Term Problem::add_energy(const Value& energy, const ResidualOptions& options) {
  const BlockKind kind = BlockKind::energy;
  detail::check_block(1, options.loss,
                      changing(state_, "add_energy").caller("add_energy", options.label, kind));
  return {require_not_moved_from(state_).serial,
          detail::trace_block(require_not_moved_from(state_), {&energy, 1}, options, kind)};
}

Constraint Problem::add_constraint(std::span<const Value> rows, const ConstraintOptions& options,
                                   BlockKind kind) {
  return {
      require_not_moved_from(state_).serial,
      detail::trace_block(changing(state_, add_call(kind)), rows, {.label = options.label}, kind)};
}

Residual Problem::handle(std::uint64_t id) const {
  return {require_not_moved_from(state_).serial, id};
}

Residual Problem::add_residual(const Vec2& v, const ResidualOptions& options) {
  return add_residual({v.x, v.y}, options);
}
Residual Problem::add_residual(const Vec3& v, const ResidualOptions& options) {
  return add_residual({v.x, v.y, v.z}, options);
}
Residual Problem::add_residual(const Vec4& v, const ResidualOptions& options) {
  return add_residual({v.x, v.y, v.z, v.w}, options);
}

void Problem::remove(const Residual& residual) {
  detail::check_same_problem("remove", "residual", residual.problem,
                             changing(state_, "remove").serial);
  require_not_moved_from(state_).blocks.remove(residual.id, BlockKind::residual);
}

void Problem::remove(const Term& energy) {
  detail::check_same_problem("remove", "energy", energy.problem, changing(state_, "remove").serial);
  require_not_moved_from(state_).blocks.remove(energy.id, BlockKind::energy);
}

void Problem::remove(const Constraint& constraint) {
  detail::check_same_problem("remove", "constraint", constraint.problem,
                             changing(state_, "remove").serial);
  require_not_moved_from(state_).blocks.remove(constraint.id, BlockKind::equality);
}

void Problem::mark_constant(const char* call, const Parameters& x, std::size_t block,
                            std::uint32_t coordinates, bool constant) {
  check_present(call, x);
  if (block >= x.blocks_) detail::bad_block(call, block, x.blocks_, x.id());
  changing(state_, call)
      .unknowns.mark_constant(x.offset_ + block * x.width_, x.width_, coordinates, constant);
}

void Problem::set_constant(const Parameters& x, std::size_t block, std::uint32_t coordinates) {
  mark_constant("set_constant", x, block, coordinates, true);
}
void Problem::set_variable(const Parameters& x, std::size_t block, std::uint32_t coordinates) {
  mark_constant("set_variable", x, block, coordinates, false);
}

namespace detail {
namespace {

std::uint32_t scalars_of(const ParameterArray& array) { return array.blocks * array.width; }

/// A block that reads removed unknowns, as an error names it.
struct Reader {
  std::uint64_t id = ~std::uint64_t{0};
  std::uint32_t scalar = 0;  ///< first removed scalar that it reads
  std::uint32_t label = 0;
  std::uint64_t others = 0;  ///< further blocks of the kind that read removed unknowns
};

/// Finds the first block of each kind that reads certain unknowns.
class Readers {
 public:
  Readers(const ProblemState& state, BlockKind kind, std::uint32_t first, std::uint32_t end)
      : state_(state), first_(first), end_(end) {
    for (const Group& group : state.blocks.groups)
      if (group.kind == kind) look(group);
    for (const HostBlock& block : state.blocks.host_blocks) {
      if (kind != BlockKind::residual) break;
      for (std::size_t k = 0; k < block.offsets.size(); ++k) {
        if (!reads(block.offsets[k])) continue;
        note({block.id, block.offsets[k], block.label, 0});
        break;
      }
    }
  }

  std::uint64_t count() const { return count_; }
  const Reader& earliest() const { return earliest_; }

 private:
  bool reads(std::uint32_t scalar) const { return scalar >= first_ && scalar < end_; }

  void look(const Group& group) {
    const std::size_t instances = group.batch.size();
    std::vector<std::uint32_t> column(instances), found(instances, kNone);
    for (std::size_t s = 0; s < group.batch.parameter_columns(); ++s) {
      group.batch.copy_index_column(static_cast<std::uint32_t>(s), 0, column);
      for (std::size_t i = 0; i < instances; ++i)
        if (reads(column[i])) found[i] = std::min(found[i], column[i]);
    }
    for (std::size_t i = 0; i < instances; ++i) {
      if (found[i] == kNone) continue;
      note({state_.blocks.id_of(group, i), found[i], state_.blocks.run_of(group, i).label, 0});
    }
  }
  void note(const Reader& reader) {
    ++count_;
    if (reader.id < earliest_.id) earliest_ = reader;
  }

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  const ProblemState& state_;
  std::uint32_t first_, end_;
  std::uint64_t count_ = 0;
  Reader earliest_;
};

/// The number of blocks of a kind that were added before `id`.
std::uint64_t number_of_block(const ProblemState& state, BlockKind kind, std::uint64_t id) {
  std::uint64_t number = 0;
  for (const Group& group : state.blocks.groups) {
    if (&state.blocks.ledger(group.kind) != &state.blocks.ledger(kind)) continue;
    for (std::size_t i = 0; i < group.batch.size(); ++i)
      number += state.blocks.id_of(group, i) < id;
  }
  for (const HostBlock& block : state.blocks.host_blocks)
    number += kind == BlockKind::residual && block.id < id;
  return number;
}

void refuse_readers(const ProblemState& state, const ParameterArray& array) {
  for (const BlockKind kind :
       {BlockKind::residual, BlockKind::energy, BlockKind::equality, BlockKind::inequality}) {
    const Readers readers(state, kind, array.offset, array.offset + scalars_of(array));
    if (readers.count() == 0) continue;
    const Reader& reader = readers.earliest();
    std::string text =
        std::string("remove: expected an array that nothing reads, but ") + std::string(noun(kind));
    if (reader.label != 0) text += " \"" + state.labels.text(reader.label) + "\"";
    text += " #" + std::to_string(number_of_block(state, kind, reader.id)) + " reads block " +
            std::to_string((reader.scalar - array.offset) / array.width) + " of " +
            (array.name.empty() ? "it" : "\"" + array.name + "\"");
    if (readers.count() > 1) text += ", and " + std::to_string(readers.count() - 1) + " more do";
    throw Error(ErrorCode::InvalidArgument, text);
  }
}

}  // namespace

void ProblemState::check_present(std::uint32_t group, const Caller& caller) const {
  const std::uint32_t parameters = blocks.groups[group].topology.program.leaves.parameters;
  for (std::uint32_t k = 0; k < parameters; ++k)
    if (unknowns.is_removed(tracing.row.indices[k])) caller.fail_removed(tracing.row.indices[k]);
}

void ProblemState::remove_array(std::size_t number) {
  refuse_readers(*this, unknowns.arrays()[number]);
  unknowns.remove(number);
  ++versions.structure;
}

}  // namespace detail

void Problem::check_present(const char* call, const Parameters& x) const {
  detail::check_same_problem(call, "parameter array", x.problem_,
                             require_not_moved_from(state_).serial);
  const bool inside = x.offset_ < require_not_moved_from(state_).unknowns.scalars();
  const std::size_t number =
      inside ? require_not_moved_from(state_).unknowns.array_number(x.offset_) : 0;
  if (inside) {
    const ParameterArray& at = require_not_moved_from(state_).unknowns.arrays()[number];
    if (at.values != nullptr && at.offset == x.offset_ && at.blocks == x.blocks_ &&
        at.width == x.width_)
      return;
  }
  throw Error(ErrorCode::InvalidArgument,
              std::string(call) + ": the parameter array is not there, or was removed before");
}

Parameters Problem::parameters(std::size_t number) const {
  const std::vector<ParameterArray>& all = require_not_moved_from(state_).unknowns.arrays();
  if (number >= all.size() || all[number].values == nullptr)
    throw Error(ErrorCode::InvalidArgument, "parameters: there is no array " +
                                                std::to_string(number) + " (the problem has " +
                                                std::to_string(all.size()) + ")");
  const ParameterArray& array = all[number];
  return {require_not_moved_from(state_).serial, array.offset, array.blocks, array.width};
}

void Problem::watch(const Parameters& x, const detail::Lender& lender) {
  require_not_moved_from(state_).unknowns.watch(x.offset_, lender);
}

void Problem::remove(const Parameters& x) {
  changing(state_, "remove");
  check_present("remove", x);
  require_not_moved_from(state_).remove_array(
      require_not_moved_from(state_).unknowns.array_number(x.offset_));
}

namespace {

[[noreturn]] void fail(ErrorCode code, const char* call, const std::string& what) {
  throw Error(code, std::string(call) + ": " + what);
}

}  // namespace

void Problem::set_loss(const Residual& residual, const Loss& loss) {
  detail::check_same_problem("set_loss", "residual", residual.problem,
                             changing(state_, "set_loss").serial);
  require_not_moved_from(state_).set_loss(residual.id, residual.id + 1, loss);
}

void Problem::set_loss(const Residuals& residuals, const Loss& loss) {
  detail::check_same_problem("set_loss", "residual", residuals.problem,
                             changing(state_, "set_loss").serial);
  if (residuals.count > 0)
    require_not_moved_from(state_).set_loss(residuals.first, residuals.last, loss);
}

std::size_t Problem::scalar_of(const char* call, const Parameters& x, std::size_t block,
                               int coordinate) const {
  check_present(call, x);
  if (block >= x.blocks_) detail::bad_block(call, block, x.blocks_, x.id());
  if (coordinate < 0 || coordinate >= x.width())
    fail(ErrorCode::InvalidArgument, call,
         "coordinate " + std::to_string(coordinate) + detail::of_array(x.id()) +
             " is out of range (the block has " + std::to_string(x.width()) + ")");
  return x.offset_ + block * x.width_ + static_cast<std::size_t>(coordinate);
}

std::uint32_t Problem::offset_of(const char* call, const ParameterBlock& block) const {
  return static_cast<std::uint32_t>(scalar_of(call, block.array, block.block, 0));
}

void Problem::set_bounds(const Parameters& x, std::size_t block, int coordinate, double lower,
                         double upper) {
  set_lower_bound(x, block, coordinate, lower);
  set_upper_bound(x, block, coordinate, upper);
}

void Problem::set_lower_bound(const Parameters& x, std::size_t block, int coordinate,
                              double lower) {
  const std::size_t scalar = scalar_of("set_lower_bound", x, block, coordinate);
  if (std::isnan(lower))
    fail(ErrorCode::InvalidArgument, "set_lower_bound",
         "the bound" + detail::of_array(x.id()) + " is nan");
  changing(state_, "set_lower_bound").unknowns.set_lower(scalar, lower);
}

void Problem::set_upper_bound(const Parameters& x, std::size_t block, int coordinate,
                              double upper) {
  const std::size_t scalar = scalar_of("set_upper_bound", x, block, coordinate);
  if (std::isnan(upper))
    fail(ErrorCode::InvalidArgument, "set_upper_bound",
         "the bound" + detail::of_array(x.id()) + " is nan");
  changing(state_, "set_upper_bound").unknowns.set_upper(scalar, upper);
}

void Problem::put_manifold(const Parameters& x, std::size_t first, std::size_t count,
                           Manifold manifold) {
  changing(state_, "set_manifold");
  check_present("set_manifold", x);
  if (first >= x.blocks_) detail::bad_block("set_manifold", first, x.blocks_, x.id());
  if (manifold.model() && manifold.ambient_size() != x.width())
    fail(ErrorCode::Shape, "set_manifold",
         manifold.name() + " is a manifold of blocks of " +
             std::to_string(manifold.ambient_size()) + ", the array's have " +
             std::to_string(x.width()) + detail::named(x.id()));
  detail::Unknowns& unknowns = require_not_moved_from(state_).unknowns;
  unknowns.set_manifold(unknowns.array_number(x.offset_), first, count, std::move(manifold));
}

void Problem::set_manifold(const Parameters& x, std::size_t block, Manifold manifold) {
  put_manifold(x, block, 1, std::move(manifold));
}

void Problem::set_manifold(const Parameters& x, Manifold manifold) {
  put_manifold(x, 0, x.blocks_, std::move(manifold));
}

Residual Problem::add_residual(std::shared_ptr<const HostResidual> f,
                               std::span<const ParameterBlock> blocks,
                               const ResidualOptions& options) {
  const char* call = "add_residual";
  changing(state_, call);
  if (!f) fail(ErrorCode::InvalidArgument, call, "expected a host residual, got null");
  if (blocks.empty())
    fail(ErrorCode::InvalidArgument, call, "a host residual needs at least one parameter block");
  if (f->rows() < 1)
    fail(ErrorCode::Shape, call,
         "expected at least one row of the host residual, got " + std::to_string(f->rows()));
  HostBlock added{.function = std::move(f), .offsets = {}, .widths = {}, .loss = options.loss};
  added.rows = static_cast<std::uint32_t>(added.function->rows());
  for (const ParameterBlock& block : blocks) {
    const std::uint32_t offset = offset_of(call, block);
    if (std::ranges::find(added.offsets, offset) != added.offsets.end())
      fail(ErrorCode::InvalidArgument, call,
           "block " + std::to_string(block.block) + detail::of_array(block.array.id()) +
               " is named twice");
    added.offsets.push_back(offset);
    added.widths.push_back(static_cast<std::uint32_t>(block.array.width()));
  }
  added.label = require_not_moved_from(state_).labels.number(options.label);
  return {require_not_moved_from(state_).serial,
          require_not_moved_from(state_).blocks.append(std::move(added))};
}

std::size_t Problem::parameter_count() const {
  return require_not_moved_from(state_).unknowns.scalars();
}
std::size_t Problem::residual_count() const {
  return require_not_moved_from(state_).blocks.residuals.rows;
}
std::size_t Problem::residual_block_count() const {
  return require_not_moved_from(state_).blocks.residuals.blocks;
}
std::size_t Problem::energy_count() const {
  return require_not_moved_from(state_).blocks.energies.blocks;
}
std::size_t Problem::constraint_count() const {
  return require_not_moved_from(state_).blocks.constraints.rows;
}
std::size_t Problem::topology_count() const {
  return require_not_moved_from(state_).blocks.groups.size();
}

const ir::Topology& Problem::topology(std::size_t t) const {
  return require_not_moved_from(state_).blocks.groups[t].topology;
}

BlockKind Problem::kind(std::size_t t) const {
  return require_not_moved_from(state_).blocks.groups[t].kind;
}
bool Problem::is_energy(std::size_t t) const {
  return require_not_moved_from(state_).blocks.groups[t].kind == BlockKind::energy;
}

const ir::Batch& Problem::batch(std::size_t t) const {
  require_not_moved_from(state_).blocks.number_rows();
  return require_not_moved_from(state_).blocks.groups[t].batch;
}

std::string_view Problem::label(std::size_t t) const {
  for (const detail::Run& run : require_not_moved_from(state_).blocks.groups[t].runs)
    if (run.label != 0) return require_not_moved_from(state_).labels.text(run.label);
  return {};
}

std::string_view Problem::label(std::size_t t, std::size_t instance) const {
  const detail::ProblemState& state = require_not_moved_from(state_);
  return state.labels.text(state.blocks.run_of(state.blocks.groups[t], instance).label);
}

const ir::Program* Problem::loss_program(std::size_t t) const {
  return require_not_moved_from(state_).blocks.losses.program(
      require_not_moved_from(state_).blocks.groups[t].loss_program);
}

Loss Problem::loss(std::size_t t, std::size_t instance) const {
  return require_not_moved_from(state_)
      .blocks
      .losses[require_not_moved_from(state_).blocks.loss_of(
          require_not_moved_from(state_).blocks.groups[t], instance)]
      .loss;
}

std::span<const ParameterArray> Problem::arrays() const {
  return require_not_moved_from(state_).unknowns.arrays();
}
std::span<const double> Problem::uniforms() const {
  return require_not_moved_from(state_).uniforms;
}
std::span<const std::uint8_t> Problem::constant_mask() const {
  return require_not_moved_from(state_).unknowns.constants();
}
std::span<const double> Problem::lower_bounds() const {
  return require_not_moved_from(state_).unknowns.lower();
}
std::span<const double> Problem::upper_bounds() const {
  return require_not_moved_from(state_).unknowns.upper();
}
bool Problem::has_manifolds() const {
  return require_not_moved_from(state_).unknowns.has_manifolds();
}
const Manifold* Problem::manifold(std::size_t array, std::size_t block) const {
  return require_not_moved_from(state_).unknowns.manifold(array, block);
}
std::span<const HostBlock> Problem::host_blocks() const {
  detail::ProblemState& state = require_not_moved_from(state_);
  state.shared_rows.settle(state, false);
  state.blocks.number_rows();
  return state.blocks.host_blocks;
}
std::string_view Problem::host_label(std::size_t block) const {
  return require_not_moved_from(state_).labels.text(
      require_not_moved_from(state_).blocks.host_blocks[block].label);
}
Versions Problem::versions() const {
  const detail::ProblemState& state = require_not_moved_from(state_);
  Versions versions = state.versions;
  versions.structure += state.blocks.version;
  versions.constants = state.unknowns.version();
  return versions;
}

void Problem::read_x(std::span<double> x) const {
  check_size("read_x", x.size(), require_not_moved_from(state_).unknowns.scalars());
  require_not_moved_from(state_).unknowns.check_lenders();
  for (const ParameterArray& a : require_not_moved_from(state_).unknowns.arrays()) {
    const std::size_t count = std::size_t{a.blocks} * a.width;
    if (a.values == nullptr) {
      std::fill_n(x.data() + a.offset, count, 0.0);
    } else {
      std::copy_n(a.values, count, x.data() + a.offset);
    }
  }
}

void Problem::write_x(std::span<const double> x) const {
  check_size("write_x", x.size(), require_not_moved_from(state_).unknowns.scalars());
  for (const ParameterArray& a : require_not_moved_from(state_).unknowns.arrays())
    if (a.values != nullptr)
      std::copy_n(x.data() + a.offset, std::size_t{a.blocks} * a.width, a.values);
}

Place Problem::locate(std::uint64_t row) const {
  for (std::size_t t = 0; t < topology_count(); ++t) {
    if (kind(t) != BlockKind::residual) continue;
    const ir::Batch& instances = batch(t);
    const std::uint64_t outputs = require_not_moved_from(state_).blocks.groups[t].outputs();
    for (std::size_t k = 0; k < instances.size(); ++k) {
      const std::uint64_t output = row - instances.residual_row(k);
      if (output < outputs) return {t, k, static_cast<std::uint32_t>(output), label(t, k)};
    }
  }
  for (std::size_t k = 0; k < host_blocks().size(); ++k) {
    const HostBlock& block = require_not_moved_from(state_).blocks.host_blocks[k];
    if (row - block.row < block.rows)
      return {Place::kHost, k, static_cast<std::uint32_t>(row - block.row), host_label(k)};
  }
  throw Error(ErrorCode::InvalidArgument,
              "locate: row " + detail::index_text(row) + " is out of range (problem has " +
                  std::to_string(require_not_moved_from(state_).blocks.residuals.rows) + ")");
}

TraceStatistics Problem::statistics() const {
  TraceStatistics statistics = require_not_moved_from(state_).statistics;
  statistics.residual_blocks = require_not_moved_from(state_).blocks.residuals.blocks;
  statistics.energies = require_not_moved_from(state_).blocks.energies.blocks;
  return statistics;
}

std::size_t Problem::bytes() const {
  const detail::ProblemState& s = require_not_moved_from(state_);
  const std::size_t locations = s.blocks.residuals.locations.capacity() +
                                s.blocks.energies.locations.capacity() +
                                s.blocks.constraints.locations.capacity();
  std::size_t total = s.data.bytes() + s.uniforms.capacity() * 8 +
                      s.unknowns.constants().capacity() + locations * sizeof(detail::Location);
  for (const detail::RawShapes& shapes : s.raw_shapes) total += shapes.bytes();
  for (const auto& callables : s.callables)
    if (callables != nullptr)
      for (const auto& [id, map] : callables->maps) total += map->bytes();
  for (const detail::Group& g : s.blocks.groups) {
    total += g.batch.bytes() + g.runs.capacity() * sizeof(detail::Run) +
             g.sources.capacity() * sizeof(std::uint32_t) + g.ids.capacity() * 8;
  }
  return total;
}

}  // namespace topograd
