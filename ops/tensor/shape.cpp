// Shapes and strides of tensors: broadcasting, views, and loops over several views.
#include "shape.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <limits>

namespace topograd::ops {

std::string to_text(const Shape& shape) {
  std::string out = "(";
  for (std::size_t k = 0; k < shape.size(); ++k)
    out += (k > 0 ? ", " : "") + std::to_string(shape[k]);
  return out + ")";
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t k = shape.size(); k-- > 0;) {
    strides[k] = step;
    step *= shape[k];
  }
  return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  std::int64_t step = 1;
  for (std::size_t k = shape.size(); k-- > 0;) {
    if (shape[k] != 1 && strides[k] != step) return false;
    step *= shape[k];
  }
  return true;
}

void check_shape(const char* call, const Shape& shape) {
  constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
  double count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) {
      throw Error(ErrorCode::InvalidArgument,
                  std::string(call) + ": expected sizes >= 0, got " + to_text(shape));
    }
    count *= static_cast<double>(size);
  }
  if (count > kMost) {
    throw Error(
        ErrorCode::InvalidArgument,
        std::string(call) + ": expected at most 4294967295 elements, got " + to_text(shape));
  }
}

std::size_t checked_axis(const char* call, const Shape& shape, std::int64_t axis) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (axis < -rank || axis >= rank) {
    throw Error(ErrorCode::InvalidArgument, std::string(call) + ": expected an axis of " +
                                                to_text(shape) + ", got " + std::to_string(axis));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

Shape broadcast(const char* call, const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (std::size_t k = 0; k < out.size(); ++k) {  // k axes from the end
    const std::int64_t m = k < a.size() ? a[a.size() - 1 - k] : 1;
    const std::int64_t n = k < b.size() ? b[b.size() - 1 - k] : 1;
    if (m != n && m != 1 && n != 1) {
      throw Error(ErrorCode::Shape, std::string(call) + ": expected shapes that broadcast, got " +
                                        to_text(a) + " and " + to_text(b));
    }
    out[out.size() - 1 - k] = m == 1 ? n : m;
  }
  return out;
}

Strides broadcast_strides(const char* call, const Shape& from, const Strides& strides,
                          const Shape& to) {
  Strides out(to.size(), 0);
  bool fits = from.size() <= to.size();
  for (std::size_t k = 0; fits && k < from.size(); ++k) {
    const std::size_t at = to.size() - from.size() + k;
    fits = from[k] == to[at] || from[k] == 1;
    out[at] = from[k] == 1 ? 0 : strides[k];
  }
  if (!fits) {
    throw Error(ErrorCode::Shape, std::string(call) + ": expected a shape that broadcasts to " +
                                      to_text(to) + ", got " + to_text(from));
  }
  return out;
}

std::optional<Strides> reshaped_strides(const Shape& from, const Strides& strides,
                                        const Shape& to) {
  if (element_count(from) == 0) return contiguous_strides(to);
  // Runs of old axes with uniform strides are divided into new axes.
  Shape sizes;
  Strides steps;
  for (std::size_t k = 0; k < from.size(); ++k) {
    if (from[k] == 1) continue;
    if (!sizes.empty() && steps.back() == from[k] * strides[k]) {
      sizes.back() *= from[k];
      steps.back() = strides[k];
    } else {
      sizes.push_back(from[k]);
      steps.push_back(strides[k]);
    }
  }
  Strides out(to.size(), 0);
  std::size_t run = sizes.size();
  std::int64_t left = 1, step = 0;  // within the current run
  for (std::size_t k = to.size(); k-- > 0;) {
    if (to[k] == 1) continue;
    if (left == 1) {
      if (run == 0) return std::nullopt;
      --run;
      left = sizes[run];
      step = steps[run];
    }
    if (left % to[k] != 0) return std::nullopt;
    out[k] = step;
    step *= to[k];
    left /= to[k];
  }
  return out;
}

bool LoopNest::is_linear(std::size_t k) const { return is_contiguous(shape, strides[k]); }

bool LoopNest::is_scalar(std::size_t k) const {
  return std::ranges::all_of(strides[k], [](std::int64_t s) { return s == 0; });
}

LoopNest loop_nest(const Shape& shape, std::span<const Strides> strides) {
  LoopNest out{{}, std::vector<Strides>(strides.size())};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    bool joins = !out.shape.empty();
    for (std::size_t k = 0; joins && k < strides.size(); ++k)
      joins = out.strides[k].back() == strides[k][axis] * shape[axis];
    if (joins) {
      out.shape.back() *= shape[axis];
    } else {
      out.shape.push_back(shape[axis]);
    }
    for (std::size_t k = 0; k < strides.size(); ++k) {
      if (joins) out.strides[k].pop_back();
      out.strides[k].push_back(strides[k][axis]);
    }
  }
  return out;
}

}  // namespace topograd::ops
