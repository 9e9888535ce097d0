// The rows of a problem's residuals, of which each process may have a share.
#pragma once

#include "../input/named_problem.hpp"
#include "../input/share_group.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd::command {

/// The residuals as written, without losses, at the problem's present unknowns. With shares those
/// of all processes, on the first one; empty on the others. Collective then.
///
///   shares  null: the problem is whole
std::vector<double> residual_rows(NamedProblem& named, const ShareGroup* shares);

/// Names of rows: "point" #7, row 1. Named by the blocks of a file, otherwise by the number of the
/// residual among those of its topology.
///
///   rows  with shares those that the first process gives
std::vector<std::string> row_labels(NamedProblem& named, std::span<const std::uint64_t> rows,
                                    const ShareGroup* shares);

}  // namespace topograd::command
