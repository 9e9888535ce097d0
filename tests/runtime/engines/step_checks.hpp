// Checks of damped steps for all engines.
#pragma once

#include "../../../runtime/engine/engine.hpp"

#include <functional>
#include <memory>

namespace topograd::test {

/// The column scaling of the first step is also used at later points, however they are set.
void check_scaling_stays(
    const std::function<std::unique_ptr<runtime::Engine>(const runtime::Model&)>& make);

}  // namespace topograd::test
