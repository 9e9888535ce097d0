// The header for residuals, energies, derivatives and solves, which most programs need.
//
// Other features have their own headers, which would double the compile time:
//
//   <topograd/api/hybrid.hpp>   tasks of your own, on the CPU or a device: topograd::hybrid
//   <topograd/ops/arrays.hpp>   operations on arrays: topograd::ops
//   <topograd/ops/tensors.hpp>  tensors and networks: topograd::ops, topograd::ops::nn
//   <topograd/ceres.hpp>        Ceres' names: namespace ceres
//
// <topograd/all.hpp> includes this one and the first three.
#pragma once

#include "../ir/language.hpp"

#include "../frontend/functor.hpp"
#include "../frontend/geometry.hpp"
#include "../frontend/host_residual.hpp"
#include "../frontend/inspect/unread_blocks.hpp"
#include "../frontend/integrate.hpp"
#include "../frontend/mat.hpp"
#include "../frontend/parameters.hpp"
#include "../frontend/problem.hpp"
#include "../frontend/value/eager.hpp"
#include "../frontend/value/math.hpp"
#include "../frontend/value/reduce.hpp"
#include "../frontend/value/value.hpp"
#include "../frontend/vec.hpp"
#include "../ir/error.hpp"
#include "../solver/check_gradients.hpp"
#include "../solver/covariance.hpp"
#include "../solver/evaluator.hpp"
#include "../solver/interrupts.hpp"
#include "../solver/options.hpp"
#include "../solver/sensitivity.hpp"
#include "../solver/solve.hpp"
#include "../solver/solve_many.hpp"
#include "../solver/solve_watch.hpp"
#include "../solver/summary.hpp"
#include "export_web.hpp"
#include "expression/expression.hpp"
#include "problem_file.hpp"
#include "source.hpp"
#include "version.hpp"
