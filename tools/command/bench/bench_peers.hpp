// Runs other solvers on the same problem.
#pragma once

#include "bench_report.hpp"

#include "../../../runtime/model/model.hpp"

#include <nlohmann/json_fwd.hpp>

namespace topograd::command {

/// Runs the peers whose libraries are in the program's folder, for springs, arap and smooth with up
/// to four million rows, in f64 on the CPU. Returns a list of {name, version, libraries, threads,
/// build_s, initial_cost, copy_gb_s, ..._us, ..._share_of_copy, share_of_copy}, empty for other
/// problems.
///
///   model  model of the problem that `arguments` select
nlohmann::ordered_json run_peers(const BenchArguments& arguments, const runtime::Model& model);

}  // namespace topograd::command
