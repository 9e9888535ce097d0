// What the damped steps of every engine must satisfy.
#pragma once

#include "../../../runtime/engine/engine.hpp"

#include <functional>
#include <memory>

namespace topograd::test {

/// The column scaling of the first step holds at later points, wherever these come from.
void check_scaling_stays(
    const std::function<std::unique_ptr<runtime::Engine>(const runtime::Model&)>& make);

}  // namespace topograd::test
