// Problem: losses, bounds, manifolds and blocks that run on the host.
#include "../../ir/error.hpp"
#include "../problem.hpp"
#include "problem_state.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace topograd {
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
