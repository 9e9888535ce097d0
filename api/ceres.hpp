// The Ceres-compatible interface: namespace ceres on top of the library.
#pragma once

#include <topograd/ir/language.hpp>

#include <topograd/api/ceres/autodiff_cost_function.hpp>
#include <topograd/api/ceres/autodiff_local_parameterization.hpp>
#include <topograd/api/ceres/autodiff_manifold.hpp>
#include <topograd/api/ceres/conditioned_cost_function.hpp>
#include <topograd/api/ceres/constants.hpp>
#include <topograd/api/ceres/cost_function.hpp>
#include <topograd/api/ceres/cost_function_to_functor.hpp>
#include <topograd/api/ceres/covariance.hpp>
#include <topograd/api/ceres/crs_matrix.hpp>
#include <topograd/api/ceres/dynamic_autodiff_cost_function.hpp>
#include <topograd/api/ceres/first_order_function.hpp>
#include <topograd/api/ceres/gradient_checker.hpp>
#include <topograd/api/ceres/gradient_problem.hpp>
#include <topograd/api/ceres/gradient_problem_solver.hpp>
#include <topograd/api/ceres/iteration_callback.hpp>
#include <topograd/api/ceres/jet.hpp>
#include <topograd/api/ceres/local_parameterization.hpp>
#include <topograd/api/ceres/loss_function.hpp>
#include <topograd/api/ceres/manifold.hpp>
#include <topograd/api/ceres/normal_prior.hpp>
#include <topograd/api/ceres/numeric_diff_cost_function.hpp>
#include <topograd/api/ceres/ordered_groups.hpp>
#include <topograd/api/ceres/problem.hpp>
#include <topograd/api/ceres/product_manifold.hpp>
#include <topograd/api/ceres/solver.hpp>
#include <topograd/api/ceres/types.hpp>
#include <topograd/api/ceres/version.hpp>

// Ceres' headers include glog's, and programs use its macros.
#if __has_include(<glog/logging.h>)
#include <glog/logging.h>
#else
#include <topograd/api/ceres/logging.hpp>
#endif
