// Problem: the calls that users make.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "../../ir/error.hpp"
#include "../problem.hpp"
#include "map_trace.hpp"
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

}  // namespace

Problem::Problem() : state_(std::make_shared<detail::ProblemState>()) {}

Parameters Problem::add_parameters(std::span<double> values, int width, std::string_view name) {
  check_array("add_parameters", values.size(), width,
              changing(state_, "add_parameters").unknowns.scalars());
  const auto w = static_cast<std::uint32_t>(width);
  const std::uint32_t offset = whole(state_).unknowns.add(values, w, name);
  ++whole(state_).versions.structure;
  return {whole(state_).serial, offset, narrow(values.size()) / w, w};
}

Data Problem::add_data(std::span<const double> values, int width, std::string_view name) {
  check_array("add_data", values.size(), width, changing(state_, "add_data").data.size());
  const std::uint32_t offset = narrow(whole(state_).data.size());
  const std::uint32_t w = static_cast<std::uint32_t>(width);
  whole(state_).data.append(values);
  if (!name.empty() || !whole(state_).data_names.empty())
    whole(state_).data_names.emplace(offset, name);
  return {whole(state_).serial, offset, narrow(values.size()) / w, w};
}

Uniform Problem::add_uniform(double value) {
  changing(state_, "add_uniform").uniforms.push_back(value);
  ++whole(state_).versions.uniforms;
  return {whole(state_).serial, narrow(whole(state_).uniforms.size() - 1)};
}

void Problem::set(const Data& data, std::span<const double> values) {
  detail::check_owner("set", "data array", data.problem_, changing(state_, "set").serial);
  check_numbers(data, detail::of_array(data.id()), values.size());
  whole(state_).set_data(data.offset_, values);
}

void Problem::set(const Data& data, std::shared_ptr<const ir::ResidentData> values) {
  detail::check_owner("set", "data array", data.problem_, changing(state_, "set").serial);
  if (!values) fail(ErrorCode::InvalidArgument, "set: expected numbers, got none");
  check_numbers(data, detail::of_array(data.id()), values->size());
  whole(state_).set_data(data.offset_, std::move(values));
}

void Problem::set(const Uniform& uniform, double value) {
  detail::check_owner("set", "uniform", uniform.problem_, changing(state_, "set").serial);
  whole(state_).uniforms[uniform.index_] = value;
  ++whole(state_).versions.uniforms;
}

double Problem::value(const Uniform& uniform) const {
  detail::check_owner("value", "uniform", uniform.problem_, whole(state_).serial);
  return whole(state_).uniforms[uniform.index_];
}

Residual Problem::add_rows(std::span<const Value> rows, const ResidualOptions& options) {
  return {whole(state_).serial, detail::trace_block(changing(state_, "add_residual"), rows, options,
                                                    BlockKind::residual)};
}

Term Problem::add_energy(const Value& energy, const ResidualOptions& options) {
  const BlockKind kind = BlockKind::energy;
  detail::check_block(1, options.loss,
                      changing(state_, "add_energy").caller("add_energy", options.label, kind));
  return {whole(state_).serial, detail::trace_block(whole(state_), {&energy, 1}, options, kind)};
}

Constraint Problem::add_constraint(std::span<const Value> rows, const ConstraintOptions& options,
                                   BlockKind kind) {
  return {whole(state_).serial, detail::trace_block(changing(state_, add_call(kind)), rows,
                                                    {.label = options.label}, kind)};
}

Residual Problem::handle(std::uint64_t id) const { return {whole(state_).serial, id}; }

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
  detail::check_owner("remove", "residual", residual.problem, changing(state_, "remove").serial);
  whole(state_).blocks.remove(residual.id, BlockKind::residual);
}

void Problem::remove(const Term& energy) {
  detail::check_owner("remove", "energy", energy.problem, changing(state_, "remove").serial);
  whole(state_).blocks.remove(energy.id, BlockKind::energy);
}

void Problem::remove(const Constraint& constraint) {
  detail::check_owner("remove", "constraint", constraint.problem,
                      changing(state_, "remove").serial);
  whole(state_).blocks.remove(constraint.id, BlockKind::equality);
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
  detail::check_owner(call, "parameter array", x.problem_, whole(state_).serial);
  const bool inside = x.offset_ < whole(state_).unknowns.scalars();
  const std::size_t number = inside ? whole(state_).unknowns.array_number(x.offset_) : 0;
  if (inside) {
    const ParameterArray& at = whole(state_).unknowns.arrays()[number];
    if (at.values != nullptr && at.offset == x.offset_ && at.blocks == x.blocks_ &&
        at.width == x.width_)
      return;
  }
  throw Error(ErrorCode::InvalidArgument,
              std::string(call) + ": the parameter array is not there, or was removed before");
}

Parameters Problem::parameters(std::size_t number) const {
  const std::vector<ParameterArray>& all = whole(state_).unknowns.arrays();
  if (number >= all.size() || all[number].values == nullptr)
    throw Error(ErrorCode::InvalidArgument, "parameters: there is no array " +
                                                std::to_string(number) + " (the problem has " +
                                                std::to_string(all.size()) + ")");
  const ParameterArray& array = all[number];
  return {whole(state_).serial, array.offset, array.blocks, array.width};
}

void Problem::watch(const Parameters& x, const detail::Lender& lender) {
  whole(state_).unknowns.watch(x.offset_, lender);
}

void Problem::remove(const Parameters& x) {
  changing(state_, "remove");
  check_present("remove", x);
  whole(state_).remove_array(whole(state_).unknowns.array_number(x.offset_));
}

namespace {

[[noreturn]] void fail(ErrorCode code, const char* call, const std::string& what) {
  throw Error(code, std::string(call) + ": " + what);
}

}  // namespace

void Problem::set_loss(const Residual& residual, const Loss& loss) {
  detail::check_owner("set_loss", "residual", residual.problem,
                      changing(state_, "set_loss").serial);
  whole(state_).set_loss(residual.id, residual.id + 1, loss);
}

void Problem::set_loss(const Residuals& residuals, const Loss& loss) {
  detail::check_owner("set_loss", "residual", residuals.problem,
                      changing(state_, "set_loss").serial);
  if (residuals.count > 0) whole(state_).set_loss(residuals.first, residuals.last, loss);
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
  detail::Unknowns& unknowns = whole(state_).unknowns;
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
  added.label = whole(state_).labels.number(options.label);
  return {whole(state_).serial, whole(state_).blocks.append(std::move(added))};
}

}  // namespace topograd
