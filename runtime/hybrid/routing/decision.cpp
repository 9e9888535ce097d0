// Names of reasons, and decisions as text.
#include "scheduler.hpp"

#include "../../../ir/machine/formatted.hpp"

namespace topograd::runtime::hybrid {
namespace {

std::string line(const char* format, auto... values) {
  return platform::formatted(format, values...);
}

std::string prediction(std::string_view target, const Prediction& p) {
  const std::string head = line("  %-20.20s", std::string(target).c_str());
  if (!p.known() && p.terms.kernel == 0) return head + "  nothing known\n";
  const char* how = p.measured ? "measured" : (p.guessed ? "guessed" : "first run alone");
  return head + line(
                    "%12.1f µs = queue %.1f + upload %.1f + submit %.1f + kernel %.1f + "
                    "read-back %.1f  (%s, confidence %.2f)\n",
                    p.terms.total(), p.terms.queue, p.terms.upload, p.terms.submit, p.terms.kernel,
                    p.terms.read_back, how, p.confidence);
}

}  // namespace

std::string explain(const Decision& decision, std::string_view device) {
  std::string text = std::string(decision.target == kCpu ? "cpu" : device) + " (" +
                     std::string(name(decision.reason)) + ")";
  if (decision.needed > 0)
    text += line(": speed-up %.2f of the device, %.2f needed at confidence %.2f", decision.speed_up,
                 decision.needed, decision.confidence);
  else if (decision.speed_up > 0)
    text += line(": speed-up %.2f of the device", decision.speed_up);
  text += "\n" + prediction("cpu", decision.on_cpu);
  if (decision.device != kCpu) text += prediction(device, decision.on_device);
  return text;
}

}  // namespace topograd::runtime::hybrid
