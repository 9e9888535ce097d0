// History and counts of a solve as part of its checkpoint.
#pragma once

#include "../../ir/machine/state_record.hpp"
#include "../summary.hpp"

namespace topograd {

/// Saves or restores what the summary of a solve that goes on continues: history, costs, counts of
/// steps, times of its phases. Throws Error{Parse} for counts that cannot be.
void transfer_summary(ir::StateRecord& record, Summary& summary);

}  // namespace topograd
