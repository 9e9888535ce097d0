// The CPU backend: an engine that runs every kernel on the tile interpreter.
#pragma once

#include "../engine/engine.hpp"

#include <memory>

namespace topograd::runtime::cpu {

/// An engine for `model` on options.threads threads (0 = all) in options.precision.
///
/// Results are the same bits for any number of threads. In f32 the point, the data and everything
/// computed from them are float; sums over instances are taken in double. `accumulation` has no
/// effect: terms of gradients are stored and gathered by owner in fixed order. Constant scalars are
/// taken out of every derivative: their columns of J are zero.
///
/// Throws Error{InvalidArgument} if a batch's indices lie outside of the model, Error{NoParameters}
/// if there is nothing to move.
std::unique_ptr<Engine> make_cpu_engine(const Model& model, const EngineOptions& options);

}  // namespace topograd::runtime::cpu
