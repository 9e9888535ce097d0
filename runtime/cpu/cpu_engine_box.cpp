// Steps within bounds: scalars on bounds, and projection.
#include "../../ir/error.hpp"
#include "cpu_engine.hpp"

#include <algorithm>

namespace topograd::runtime::cpu {

// Bounds are rounded to T like x, so that x stays exactly on its bound. Comparisons keep NaN.
template <class T>
T CpuEngine<T>::projected_gradient(std::size_t i) const {
  const T g = gradient_[i], x = x_[i];
  if (!bounded()) return g;
  const T low = static_cast<T>(lower_[i]), high = static_cast<T>(upper_[i]);
  const T moved = x - g;
  return moved < low ? x - low : moved > high ? x - high : g;
}

template <class T>
void CpuEngine<T>::hold_at_bounds() {
  if (!bounded()) return;
  held_.resize(scalars_);
  pool_.for_ranges(scalars_, kScalarsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const T g = gradient_[i], x = x_[i];
      const bool at_bound =
          (x <= static_cast<T>(lower_[i]) && g > 0) || (x >= static_cast<T>(upper_[i]) && g < 0);
      held_[i] = at_bound || (!constant_.empty() && constant_[i] != 0) ? 1 : 0;
    }
  });
  mask(gradient_, held_);
}

template <class T>
void CpuEngine<T>::hold(std::span<const std::uint8_t> held) {
  if (!bounded())
    throw Error(ErrorCode::Unsupported,
                std::string(name(backend())) + " engine: steps know no box");
  check_size("hold", "scalars", scalars_, held.size());
  ensure_linear();
  held_.assign(held.begin(), held.end());
  mask(gradient_, held_);
}

/// Clamps x to the box again after its conversion from T.
template <class T>
void CpuEngine<T>::keep_in_box(std::span<double> x) const {
  for (std::size_t i = 0; i < lower_.size(); ++i) {
    if (x[i] < lower_[i]) x[i] = lower_[i];
    if (x[i] > upper_[i]) x[i] = upper_[i];
  }
}

template class CpuEngine<float>;
template class CpuEngine<double>;

}  // namespace topograd::runtime::cpu
