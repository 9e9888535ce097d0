// Declaration of Jet.
#pragma once

namespace ceres {

template <typename T, int N>
struct Jet;

}  // namespace ceres
