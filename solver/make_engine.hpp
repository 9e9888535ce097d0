// How a solve gets its engine, where it is not one of the backends'.
#pragma once

#include <functional>
#include <memory>

namespace topograd {

namespace runtime {
class Engine;
struct EngineOptions;
struct Model;
}  // namespace runtime

/// Makes the engine that evaluates in the place of the interpreter, such as one that has a part of
/// the model and knows the others. The model outlives the engine.
using MakeEngine = std::function<std::unique_ptr<runtime::Engine>(const runtime::Model& model,
                                                                  const runtime::EngineOptions&)>;

}  // namespace topograd
