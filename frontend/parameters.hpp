// Handles that residuals read: parameter arrays, data arrays, uniforms, and symbolic elements of
// maps.
#pragma once

#include "quat.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace topograd {

class Problem;
struct ParameterBlock;

namespace detail {

struct ProblemState;
struct MapTrace;

/// Identifies the array that a message names.
struct ArrayId {
  std::uint32_t problem = 0, offset = 0;
  bool data = false;
};
/// " of parameter "tau"", " of data "t""; empty if the array has no name.
std::string of_array(const ArrayId& array);
/// " (parameter "tau")", likewise.
std::string named(const ArrayId& array);
/// The index as a caller wrote it: numbers beyond 2^63 were negative.
std::string index_text(std::size_t index);
[[noreturn]] void bad_block(const char* call, std::size_t block, std::size_t size,
                            const ArrayId& array = {});
/// Throws Error{WrongProblem} unless `of` is `problem`, on which the call is made.
void check_same_problem(const char* call, const char* what, std::uint32_t of,
                        std::uint32_t problem);
[[noreturn]] void bad_coordinate(const char* call, int coordinate, int width, const ArrayId& array);
[[noreturn]] void bad_width(const char* call, int wanted, int width, const ArrayId& array);

}  // namespace detail

/// An index of a map's element that is not known while the map's callable is traced.
///
/// index + 1 is the next block. Indices cannot be compared, because one trace stands for all
/// elements.
class Index {
 public:
  friend Index operator+(Index i, int shift) { return {i.map_, i.column_, i.shift_ + shift}; }
  friend Index operator-(Index i, int shift) { return {i.map_, i.column_, i.shift_ - shift}; }

 private:
  friend class Element;
  friend class Parameters;
  friend class Data;
  Index(detail::MapTrace* map, std::uint32_t column, int shift)
      : map_(map), column_(column), shift_(shift) {}

  detail::MapTrace* map_;
  std::uint32_t column_;
  int shift_;
};

/// An array of unknowns: `size()` blocks of `width()` scalars. A handle, valid while its Problem
/// lives.
///
/// Reading a scalar appends one tape node. Throws Error{InvalidArgument} for a block or coordinate
/// out of range, Error{Shape} if a vector's size is not the array's width. Blocks selected by an
/// Index are checked against the range when the map's rows are filled.
class Parameters {
 public:
  /// An array without blocks, to be assigned to.
  Parameters() = default;

  std::size_t size() const { return blocks_; }
  int width() const { return static_cast<int>(width_); }

  /// Block i as a whole, for functors and opaque code.
  ParameterBlock block(std::size_t i) const;

  /// The unknown of block i; the width must be 1.
  Value scalar(std::size_t i) const {
    check("scalar", i, 1);
    return leaf(i, 0);
  }
  Value operator[](std::size_t i) const { return scalar(i); }
  /// Coordinate k of a block.
  Value operator()(std::size_t block, int k) const {
    if (block >= blocks_) detail::bad_block("parameters", block, blocks_, id());
    if (k < 0 || k >= width()) detail::bad_coordinate("parameters", k, width(), id());
    return leaf(block, static_cast<std::uint32_t>(k));
  }
  Vec2 vec2(std::size_t i) const {
    check("vec2", i, 2);
    const std::uint64_t first = leaves<2>(i);
    return {Value::adopt(first), Value::adopt(first + 1)};
  }
  Vec3 vec3(std::size_t i) const {
    check("vec3", i, 3);
    const std::uint64_t first = leaves<3>(i);
    return {Value::adopt(first), Value::adopt(first + 1), Value::adopt(first + 2)};
  }
  Vec4 vec4(std::size_t i) const {
    check("vec4", i, 4);
    const std::uint64_t first = leaves<4>(i);
    return {Value::adopt(first), Value::adopt(first + 1), Value::adopt(first + 2),
            Value::adopt(first + 3)};
  }

  /// Block i as a quaternion stored as w, x, y, z, as for Manifold::quaternion().
  Quat quat(std::size_t i) const { return from_wxyz(vec4(i)); }
  /// Block i as a quaternion stored as x, y, z, w (Eigen's order), as for
  /// Manifold::eigen_quaternion().
  Quat eigen_quat(std::size_t i) const { return from_xyzw(vec4(i)); }

  Value scalar(Index i) const;
  Value operator[](Index i) const { return scalar(i); }
  Value operator()(Index block, int k) const;
  Vec2 vec2(Index i) const;
  Vec3 vec3(Index i) const;
  Vec4 vec4(Index i) const;
  Quat quat(Index i) const { return from_wxyz(vec4(i)); }
  Quat eigen_quat(Index i) const { return from_xyzw(vec4(i)); }

  /// Index in x of the first scalar; block b, coordinate k is offset() + b * width() + k.
  std::uint32_t offset() const { return offset_; }
  /// Identifies the array in messages.
  detail::ArrayId id() const { return {problem_, offset_, false}; }

 private:
  friend class Problem;
  Parameters(std::uint32_t problem, std::uint32_t offset, std::uint32_t blocks, std::uint32_t width)
      : problem_(problem), offset_(offset), blocks_(blocks), width_(width) {}

  void check(const char* call, std::size_t i, std::uint32_t wanted) const {
    if (width_ != wanted) detail::bad_width(call, static_cast<int>(wanted), width(), id());
    if (i >= blocks_) detail::bad_block(call, i, blocks_, id());
  }
  Value leaf(std::size_t block, std::uint32_t k) const {
    const auto index = offset_ + static_cast<std::uint32_t>(block) * width_ + k;
    return Value::adopt(detail::append_leaf(detail::head(ir::Op::Parameter), index, problem_, 0));
  }
  /// The handle of the first of N leaves.
  template <std::uint32_t N>
  std::uint64_t leaves(std::size_t block) const {
    return detail::append_parameters<N>(offset_ + static_cast<std::uint32_t>(block) * N, problem_);
  }
  Value leaf(const char* call, Index block, std::uint32_t k, std::uint32_t wanted) const;

  std::uint32_t problem_ = 0, offset_ = 0, blocks_ = 0, width_ = 1;
};

/// Numbers that residuals read and that can be set later without tracing again. A handle, valid
/// while its Problem lives.
///
/// Each read is one data leaf.
class Data {
 public:
  /// An array without blocks, to be assigned to.
  Data() = default;

  std::size_t size() const { return blocks_; }
  int width() const { return static_cast<int>(width_); }

  /// The number of block i; the width must be 1.
  Value operator[](std::size_t i) const;
  Value operator()(std::size_t block, int k) const;
  Vec2 vec2(std::size_t i) const;
  Vec3 vec3(std::size_t i) const;
  Value operator[](Index i) const;
  Value operator()(Index block, int k) const;
  Vec2 vec2(Index i) const;
  Vec3 vec3(Index i) const;

  /// Identifies the array in messages.
  detail::ArrayId id() const { return {problem_, offset_, true}; }

 private:
  friend class Problem;
  Data(std::uint32_t problem, std::uint32_t offset, std::uint32_t blocks, std::uint32_t width)
      : problem_(problem), offset_(offset), blocks_(blocks), width_(width) {}

  Value leaf(const char* call, std::size_t block, std::uint32_t k) const;
  Value leaf(Index block, std::uint32_t k) const;
  void check_width(const char* call, std::uint32_t wanted) const;

  std::uint32_t problem_ = 0, offset_ = 0, blocks_ = 0, width_ = 1;
};

/// A number that residuals share and that can be set between solves. A handle, like Data.
class Uniform {
 public:
  /// A uniform of no problem, to be assigned to.
  Uniform() = default;

  operator Value() const {  // NOLINT: a uniform stands where a number could stand
    return Value::adopt(detail::append_leaf(detail::head(ir::Op::Uniform), index_, problem_, 0));
  }
  Value value() const { return *this; }

 private:
  friend class NumberSources;
  friend class Problem;
  Uniform(std::uint32_t problem, std::uint32_t index) : problem_(problem), index_(index) {}

  std::uint32_t problem_ = 0, index_ = 0;
};

/// The element that a map's callable is traced with. It stands for every element of its shape.
class Element {
 public:
  explicit Element(detail::MapTrace& map) : map_(&map) {}

  /// Number of index columns of this element: fixed, or given by MapOptions::offsets.
  int valence() const;
  /// The k-th index of the element. Throws Error{InvalidArgument} if k is out of range.
  Index index(int k) const;
  /// The k-th number of the element. Throws Error{InvalidArgument} if k is out of range.
  Value data(int k) const;
  /// Number of data columns of this element.
  int data_count() const;

  /// The block of a parameter or data array that the k-th index selects.
  Value scalar(const Parameters& x, int k) const { return x.scalar(index(k)); }
  Vec2 vec2(const Parameters& x, int k) const { return x.vec2(index(k)); }
  Vec3 vec3(const Parameters& x, int k) const { return x.vec3(index(k)); }
  Vec4 vec4(const Parameters& x, int k) const { return x.vec4(index(k)); }
  Quat quat(const Parameters& x, int k) const { return x.quat(index(k)); }
  Quat eigen_quat(const Parameters& x, int k) const { return x.eigen_quat(index(k)); }
  Value scalar(const Data& d, int k) const { return d[index(k)]; }
  Vec2 vec2(const Data& d, int k) const { return d.vec2(index(k)); }
  Vec3 vec3(const Data& d, int k) const { return d.vec3(index(k)); }
  /// Numbers k .. k + 2 of the element.
  Vec3 data_vec3(int k) const { return {data(k), data(k + 1), data(k + 2)}; }
  Vec2 data_vec2(int k) const { return {data(k), data(k + 1)}; }

 private:
  detail::MapTrace* map_;
};

}  // namespace topograd
