// The Ceres-compatible interface: namespace ceres on top of the library.
#pragma once

#include "../ir/language.hpp"

#include "ceres/autodiff_cost_function.hpp"
#include "ceres/autodiff_local_parameterization.hpp"
#include "ceres/autodiff_manifold.hpp"
#include "ceres/conditioned_cost_function.hpp"
#include "ceres/constants.hpp"
#include "ceres/cost_function.hpp"
#include "ceres/cost_function_to_functor.hpp"
#include "ceres/covariance.hpp"
#include "ceres/crs_matrix.hpp"
#include "ceres/dynamic_autodiff_cost_function.hpp"
#include "ceres/first_order_function.hpp"
#include "ceres/gradient_checker.hpp"
#include "ceres/gradient_problem.hpp"
#include "ceres/gradient_problem_solver.hpp"
#include "ceres/iteration_callback.hpp"
#include "ceres/jet.hpp"
#include "ceres/local_parameterization.hpp"
#include "ceres/loss_function.hpp"
#include "ceres/manifold.hpp"
#include "ceres/normal_prior.hpp"
#include "ceres/numeric_diff_cost_function.hpp"
#include "ceres/ordered_groups.hpp"
#include "ceres/problem.hpp"
#include "ceres/product_manifold.hpp"
#include "ceres/solver.hpp"
#include "ceres/types.hpp"
#include "ceres/version.hpp"

// Ceres' headers include glog's, and programs use its macros.
#if __has_include(<glog/logging.h>)
#include <glog/logging.h>
#else
#include "ceres/logging.hpp"
#endif
