// The header for residuals, energies, derivatives and solves: all that most programs need.
//
// What else there is has headers of its own, since with them a program takes twice as long to
// compile:
//
//   <topograd/api/hybrid.hpp>   tasks of your own, on the CPU or a device: topograd::hybrid
//   <topograd/ops/arrays.hpp>   operations on arrays: topograd::ops
//   <topograd/ops/tensors.hpp>  tensors and networks: topograd::ops, topograd::ops::nn
//   <topograd/ceres.hpp>        Ceres' names: namespace ceres
//
// <topograd/all.hpp> includes this one and the first three.
#pragma once

#include <topograd/ir/language.hpp>

#include <topograd/api/expression.hpp>
#include <topograd/api/expression_values.hpp>
#include <topograd/api/problem_file.hpp>
#include <topograd/api/source.hpp>
#include <topograd/api/version.hpp>
#include <topograd/frontend/eager.hpp>
#include <topograd/frontend/functor.hpp>
#include <topograd/frontend/geometry.hpp>
#include <topograd/frontend/mat.hpp>
#include <topograd/frontend/math.hpp>
#include <topograd/frontend/parameters.hpp>
#include <topograd/frontend/problem.hpp>
#include <topograd/frontend/reduce.hpp>
#include <topograd/frontend/unread_blocks.hpp>
#include <topograd/frontend/value.hpp>
#include <topograd/frontend/vec.hpp>
#include <topograd/ir/error.hpp>
#include <topograd/solver/check_gradients.hpp>
#include <topograd/solver/covariance.hpp>
#include <topograd/solver/evaluator.hpp>
#include <topograd/solver/interrupts.hpp>
#include <topograd/solver/options.hpp>
#include <topograd/solver/solve.hpp>
#include <topograd/solver/summary.hpp>
#include <topograd/solver/summary_json.hpp>
