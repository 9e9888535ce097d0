// Measures what the cost model needs: the network, and the kernels of one kind of problem.
#pragma once

#include "communicator.hpp"
#include "cost_model.hpp"

#include "../runtime/engine/engine.hpp"
#include "../runtime/model/model.hpp"

#include <span>

namespace topograd::distributed {

/// Latency and bandwidth between the first and the last rank, by a ping-pong; 0 with one rank.
/// Collective.
Network measure_network(const Communicator& ranks);

/// Times of linearisations and steps with a fixed number of iterations.
struct MeasuredTimes {
  double iteration_seconds = 0;  ///< of conjugate gradients
  double step_seconds = 0;       ///< of a step without its iterations
  Exchanges iteration, step;     ///< that they made
};

/// Measures the model divided among the ranks, with one thread for each, by steps of few
/// iterations. Collective. The times are the best of many short samples, so that other work of the
/// machine disturbs them little, and the same on all ranks. Cost: a few seconds.
///
///   x  a point of the whole model
MeasuredTimes measure_times(const Communicator& ranks, const runtime::Model& model,
                            std::span<const double> x);

/// The rates that explain the times of one rank. An iteration's time is divided between the product
/// and the vectors by the bytes that they move.
///
///   tiny  times of a problem with next to no work
KernelRates rates_of(const runtime::Model& model, std::uint64_t chunks, const MeasuredTimes& times,
                     const MeasuredTimes& tiny);

/// Seconds to add one number of a chunk to a sum.
double measure_number_seconds();

}  // namespace topograd::distributed
