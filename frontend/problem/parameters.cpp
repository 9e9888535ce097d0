// Leaves read through symbolic indices or from data arrays; errors of range and width.
#include "../parameters.hpp"
#include "../../ir/error.hpp"
#include "callables.hpp"
#include "map_elements.hpp"
#include "problem_state.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>
#include <string>

namespace topograd {
namespace detail {
namespace {

[[noreturn]] void fail(ErrorCode code, const char* call, const std::string& text) {
  throw Error(code, std::string(call) + ": " + text);
}

Value symbolic_leaf(MapTrace& map, ir::Op op, std::uint32_t problem, std::uint32_t form) {
  return Value::adopt(append_leaf(head(op, kSymbolic), form, problem, map.serial));
}

}  // namespace

void check_same_problem(const char* call, const char* what, std::uint32_t of,
                        std::uint32_t problem) {
  if (of != problem)
    throw Error(ErrorCode::WrongProblem,
                std::string(call) + ": the " + what + " is not part of this problem");
}

std::string of_array(const ArrayId& array) {
  const ProblemState* state = problem_of(array.problem);
  if (state == nullptr) return "";
  if (!array.data) return state->unknowns.of_parameters(array.offset);
  const auto after = state->data_names.upper_bound(array.offset);
  if (after == state->data_names.begin()) return "";
  const std::string& name = std::prev(after)->second;
  return name.empty() ? "" : " of data \"" + name + "\"";
}

std::string named(const ArrayId& array) {
  constexpr std::size_t kOf = 4;  // length of " of "
  const std::string text = of_array(array);
  return text.empty() ? "" : " (" + text.substr(kOf) + ")";
}

std::string index_text(std::size_t index) {
  constexpr std::size_t kHalf = std::numeric_limits<std::size_t>::max() / 2;
  return index > kHalf ? "-" + std::to_string(0 - index) : std::to_string(index);
}

void bad_block(const char* call, std::size_t block, std::size_t size, const ArrayId& array) {
  fail(ErrorCode::InvalidArgument, call,
       "block " + index_text(block) + of_array(array) + " is out of range (the array has " +
           std::to_string(size) + ")");
}

void bad_coordinate(const char* call, int coordinate, int width, const ArrayId& array) {
  fail(ErrorCode::InvalidArgument, call,
       "coordinate " + std::to_string(coordinate) + of_array(array) +
           " is out of range (blocks have " + std::to_string(width) + ")");
}

void bad_width(const char* call, int wanted, int width, const ArrayId& array) {
  fail(ErrorCode::Shape, call,
       "expected blocks of " + std::to_string(wanted) + ", got an array with blocks of " +
           std::to_string(width) + named(array));
}

std::uint32_t MapTrace::shared(const AddressForm& form) {
  const auto at = first_of.find(form);
  return at == first_of.end() ? added(form) : at->second;
}

std::uint32_t MapTrace::added(const AddressForm& form) {
  const auto number = static_cast<std::uint32_t>(forms.size());
  forms.push_back(form);
  first_of.try_emplace(form, number);
  return number;
}

std::uint32_t next_serial() {
  static std::atomic<std::uint32_t> last{0};
  return ++last;
}

}  // namespace detail

Value Parameters::leaf(const char* call, Index block, std::uint32_t k, std::uint32_t wanted) const {
  if (wanted != 0 && width_ != wanted)
    detail::bad_width(call, static_cast<int>(wanted), width(), id());
  const std::uint32_t form = block.map_->shared({.column = block.column_,
                                                 .base = offset_ + k,
                                                 .width = width_,
                                                 .blocks = blocks_,
                                                 .shift = block.shift_});
  return detail::symbolic_leaf(*block.map_, ir::Op::Parameter, problem_, form);
}

Value Parameters::scalar(Index i) const { return leaf("scalar", i, 0, 1); }

Value Parameters::operator()(Index block, int k) const {
  if (k < 0 || k >= width()) detail::bad_coordinate("parameters", k, width(), id());
  return leaf("parameters", block, static_cast<std::uint32_t>(k), 0);
}

Vec2 Parameters::vec2(Index i) const { return {leaf("vec2", i, 0, 2), leaf("vec2", i, 1, 2)}; }

Vec3 Parameters::vec3(Index i) const {
  return {leaf("vec3", i, 0, 3), leaf("vec3", i, 1, 3), leaf("vec3", i, 2, 3)};
}

Vec4 Parameters::vec4(Index i) const {
  return {leaf("vec4", i, 0, 4), leaf("vec4", i, 1, 4), leaf("vec4", i, 2, 4),
          leaf("vec4", i, 3, 4)};
}

void Data::check_width(const char* call, std::uint32_t wanted) const {
  if (width_ != wanted) detail::bad_width(call, static_cast<int>(wanted), width(), id());
}

Value Data::leaf(const char* call, std::size_t block, std::uint32_t k) const {
  if (block >= blocks_) detail::bad_block(call, block, blocks_, id());
  const auto entry = offset_ + static_cast<std::uint32_t>(block) * width_ + k;
  return Value::adopt(
      detail::append_leaf(detail::head(ir::Op::Data, detail::kBound), entry, problem_, 0));
}

Value Data::leaf(Index block, std::uint32_t k) const {
  const std::uint32_t form = block.map_->added({.column = block.column_,
                                                .base = offset_ + k,
                                                .width = width_,
                                                .blocks = blocks_,
                                                .shift = block.shift_,
                                                .data = true});
  return detail::symbolic_leaf(*block.map_, ir::Op::Data, problem_, form);
}

Value Data::operator[](std::size_t i) const {
  check_width("data", 1);
  return leaf("data", i, 0);
}

Value Data::operator()(std::size_t block, int k) const {
  if (k < 0 || k >= width()) detail::bad_coordinate("data", k, width(), id());
  return leaf("data", block, static_cast<std::uint32_t>(k));
}

Vec2 Data::vec2(std::size_t i) const {
  check_width("vec2", 2);
  return {leaf("vec2", i, 0), leaf("vec2", i, 1)};
}

Vec3 Data::vec3(std::size_t i) const {
  check_width("vec3", 3);
  return {leaf("vec3", i, 0), leaf("vec3", i, 1), leaf("vec3", i, 2)};
}

Value Data::operator[](Index i) const {
  check_width("data", 1);
  return leaf(i, 0);
}

Value Data::operator()(Index block, int k) const {
  if (k < 0 || k >= width()) detail::bad_coordinate("data", k, width(), id());
  return leaf(block, static_cast<std::uint32_t>(k));
}

Vec2 Data::vec2(Index i) const {
  check_width("vec2", 2);
  return {leaf(i, 0), leaf(i, 1)};
}

Vec3 Data::vec3(Index i) const {
  check_width("vec3", 3);
  return {leaf(i, 0), leaf(i, 1), leaf(i, 2)};
}

int Element::valence() const { return map_->valence; }
int Element::data_count() const { return map_->data_count; }

Index Element::index(int k) const {
  if (k < 0 || k >= map_->valence)
    detail::fail(ErrorCode::InvalidArgument, "element",
                 "index " + std::to_string(k) + " is out of range (the element has " +
                     std::to_string(map_->valence) + ")");
  return {map_, static_cast<std::uint32_t>(k), 0};
}

Value Element::data(int k) const {
  if (k < 0 || k >= map_->data_count)
    detail::fail(ErrorCode::InvalidArgument, "element",
                 "data " + std::to_string(k) + " is out of range (the element has " +
                     std::to_string(map_->data_count) + ")");
  const std::uint32_t form =
      map_->shared({.direct = true, .column = static_cast<std::uint32_t>(k)});
  return detail::symbolic_leaf(*map_, ir::Op::Data, map_->problem, form);
}

}  // namespace topograd
