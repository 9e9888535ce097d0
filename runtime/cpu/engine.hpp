// The CPU backend: an engine that runs every kernel on the tile interpreter.
#pragma once

#include "../engine/engine.hpp"
#include "../model/listed_system.hpp"
#include "../rows/rows.hpp"
#include "tiles/pool.hpp"

#include <memory>
#include <string>

namespace topograd::runtime::cpu {

/// Parts of a device. The engine uses its interpreter, or the host, in place of a part that is
/// null.
struct DeviceParts {
  std::unique_ptr<RowRunner> rows;
  std::unique_ptr<ListedSolver> solver;
};

/// Makes an engine for `model` on options.threads threads (0 = all) in options.precision.
///
/// Results have the same bits for any number of threads. In f32 the point, the data and everything
/// computed from them are float; sums over instances are taken in double. `accumulation` has no
/// effect: terms of gradients are stored and gathered by block in fixed order. Fixed scalars have
/// zero columns of J in every derivative.
///
/// Throws Error{InvalidArgument} if a batch's indices are outside the model, Error{NoParameters} if
/// there is no free scalar.
///
///   bits    portable: functions have the bits of every machine; with
///           EngineOptions::deterministic, so has all of it
///   device  runs the kernels of the residuals, in f64, and conjugate gradients with the bits that
///           they have here; other sums and systems stay here
std::unique_ptr<Engine> make_cpu_engine(const Model& model, const EngineOptions& options,
                                        Bits bits = Bits::native, DeviceParts device = {});

/// "interpreter, avx2, 2 threads": the device of this backend.
std::string interpreter_name(Precision precision, int threads, Bits bits = Bits::native);

}  // namespace topograd::runtime::cpu
