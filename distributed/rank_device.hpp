// The device of a rank, and the engine of its part there or on the CPU.
#pragma once

#include "communicator.hpp"

#include "../runtime/engine/engine.hpp"
#include "../runtime/model/model_part.hpp"
#include "../solver/options.hpp"

#include <memory>
#include <string>

namespace topograd::distributed {

/// The choice of the device on which a rank evaluates.
struct RankDevice {
  enum class Use {
    cpu,
    where_it_pays,  ///< on the device if all ranks have one, and enough residuals
    device          ///< asked for
  };
  Use use = Use::cpu;
  std::string name;       ///< as EngineOptions::device
  SolverOptions options;  ///< of the device
};

/// Ranks of one machine take its devices in turn, in the order of their UUIDs.
///
/// Throws Error{NoDevice}, or what the device lacks, if Backend::vulkan is asked for and there is
/// none.
RankDevice choose_device(const Communicator& ranks, const SolverOptions& options);

/// The engine of a rank's part, and what kept it from its device.
struct RankEngine {
  std::unique_ptr<runtime::Engine> engine;
  std::string problem;           ///< empty: nothing did
  bool some_on_devices = false;  ///< of the engines of all ranks
};

/// The engine of a part. A rank whose device fails to open or to hold the part evaluates on its
/// CPU, and says so in ModelPart::mixed if others do not. Collective.
///
///   options  of a CPU's engine, with its part
///   of       the same part
///
/// Throws the device's error if it is asked for and fails on all ranks.
RankEngine make_rank_engine(const Communicator& ranks, const runtime::Model& part,
                            const runtime::EngineOptions& options, runtime::ModelPart& of,
                            const RankDevice& device);

}  // namespace topograd::distributed
