// Advice after a solve that reached its limit of steps.
#pragma once

#include <string_view>

namespace topograd {

struct Summary;

enum class Advice {
#define TG_ADVICE(advice, sentence) advice,
#include "advice.def"
};

/// Derives advice from the history: the decrease of the cost in the last steps, the number of
/// rejected ones, and the model's predictions.
Advice advise(const Summary& summary);
/// One sentence for the report; empty for none.
std::string_view text(Advice advice);

}  // namespace topograd
