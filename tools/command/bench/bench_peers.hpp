// Other solvers on the same problem in the same run.
#pragma once

#include "bench_report.hpp"

#include "../../../runtime/model/model.hpp"

#include <nlohmann/json_fwd.hpp>

namespace topograd::command {

/// Runs the peers whose libraries lie beside this program on springs, arap and smooth of up to four
/// million rows, in f64 on the CPU: a list of {name, version, libraries, threads, build_s,
/// initial_cost, copy_gb_s, ..._us, ..._share_of_copy, share_of_copy}, empty for other problems.
///
///   model  of the problem that `arguments` name
nlohmann::ordered_json run_peers(const BenchArguments& arguments, const runtime::Model& model);

}  // namespace topograd::command
