// Problem: the calls that users make.
#include "../problem.hpp"
#include "../../ir/error.hpp"
#include "map_trace.hpp"
#include "problem_state.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

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

}  // namespace topograd
