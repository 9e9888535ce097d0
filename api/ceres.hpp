// The Ceres-compatible interface: namespace ceres on top of the library.
#pragma once

#include "../ir/language.hpp"

#include "ceres/cost/autodiff_cost_function.hpp"
#include "ceres/cost/cost_function.hpp"
#include "ceres/cost/cost_function_to_functor.hpp"
#include "ceres/cost/first_order_function.hpp"
#include "ceres/cost/loss_function.hpp"
#include "ceres/cost/numeric_diff.hpp"
#include "ceres/jet/jet.hpp"
#include "ceres/manifold/autodiff_manifold.hpp"
#include "ceres/manifold/local_parameterization.hpp"
#include "ceres/manifold/manifold.hpp"
#include "ceres/problem/covariance.hpp"
#include "ceres/problem/problem.hpp"
#include "ceres/solver/gradient_checker.hpp"
#include "ceres/solver/gradient_problem.hpp"
#include "ceres/solver/solver.hpp"
#include "ceres/types/solver_types.hpp"
#include "ceres/types/types.hpp"

// Ceres' headers include those of glog, whose macros programs use.
#if __has_include(<glog/logging.h>)
#include <glog/logging.h>
#else
#include "ceres/types/logging.hpp"
#endif
