// Sentences of the report.
#include "report.hpp"

#include "../../ir/machine/formatted.hpp"

#include <array>
#include <cmath>
#include <span>
#include <string_view>

namespace topograd {
namespace {

namespace hybrid = runtime::hybrid;

std::string rounded(double number) { return platform::formatted("%.2g", number); }

/// Whole numbers as they are, others with three digits.
std::string number_text(double number) {
  return number == std::floor(number) ? platform::formatted("%.0f", number)
                                      : platform::formatted("%.3g", number);
}

/// A sentence with its numbers: {k} is one of them, {k:noun} that number of a noun.
std::string sentence(std::string_view form, std::span<const double> numbers) {
  std::string out;
  for (std::size_t at = 0; at < form.size();) {
    if (form[at] != '{') {
      out += form[at++];
      continue;
    }
    const double number = numbers[static_cast<std::size_t>(form[at + 1] - '0')];
    const std::size_t end = form.find('}', at);
    out += number_text(number);
    if (form[at + 2] == ':') {
      out += " " + std::string(form.substr(at + 3, end - at - 3)) + (number == 1 ? "" : "s");
    }
    at = end + 1;
  }
  return out;
}

constexpr std::string_view kPreconditionerReasons[] = {
#define TG_PRECONDITIONER_REASON(reason, sentence) sentence,
#include "../../runtime/linear/preconditioners.def"
};
constexpr std::string_view kMatrixReasons[] = {
#define TG_MATRIX_REASON(reason, sentence) sentence,
#include "../../runtime/linear/matrix_reasons.def"
};

std::string scheduler_text(const BackendChoice& choice) {
  const hybrid::Decision& measured = choice.measurements;
  const std::string device = "\"" + choice.device + "\"";
  switch (measured.reason) {
    case hybrid::Reason::slower:
      return device + platform::formatted(" is slower here (speed-up %.2f measured, %.2f needed)",
                                          measured.speed_up, measured.needed);
    case hybrid::Reason::breaker_open:
    case hybrid::Reason::success_rate:
      return device + " failed before and is left alone for a while";
    case hybrid::Reason::memory_limit:
      return "more memory than " + device + " has, or memory_limit allows";
    case hybrid::Reason::out_of_memory:
      return device + " ran out of memory before with a problem of this size";
    case hybrid::Reason::explored: return "to know how long it takes there, beside " + device;
    case hybrid::Reason::forced:
    case hybrid::Reason::below_minimum:
    case hybrid::Reason::no_device:
    case hybrid::Reason::unsupported:
    case hybrid::Reason::faster:
    case hybrid::Reason::below_threshold:
    case hybrid::Reason::unmeasured:
    case hybrid::Reason::guessed:
    case hybrid::Reason::together: break;
  }
  return device + " was not chosen (" + std::string(name(measured.reason)) + ")";
}

std::string eliminated_text(const LinearChoice& choice) {
  return std::to_string(choice.system.elimination->blocks) + " blocks eliminated, " +
         std::to_string(choice.system.elimination->kept) + " unknowns remain" +
         (choice.iterates ? ": conjugate gradients on products with their complement" : "");
}

std::string asked_text(const LinearChoice& choice, bool on_device) {
  const SystemFacts& system = choice.system;
  const LinearForm form = form_of(choice.kind);
  if (form == LinearForm::products) return "asked for";
  const bool by_blocks = form == LinearForm::elimination;
  std::string out = "asked for";
  if (by_blocks && system.hinted) out += " in the order given";
  if (choice.by_engine && form == LinearForm::factor) return out;
  if (choice.by_engine) return out + "; on the device, " + text(system.on_device->why);
  if (on_device) out += "; Jacobian and gradient are read back at each accepted point";
  if (by_blocks) out += "; " + eliminated_text(choice);
  if (system.on_device) out += " (not on the device: " + text(system.on_device->why) + ")";
  return out;
}

std::string newton_text(const LinearChoice& choice) {
  std::string solver = form_of(choice.kind) == LinearForm::products
                           ? "on products with the Hessian"
                           : "of projected Hessians, on the host";
  const std::string size = std::to_string(choice.system.unknowns) + " unknowns";
  switch (choice.reason) {
    case LinearReason::asked_for:
    case LinearReason::few_unknowns: return solver;
    case LinearReason::hessians_dear:
      return size + ": Hessians without negative eigenvalues take longer than products: " + solver;
    case LinearReason::mesh:
      return size + ", a mesh up to " + std::to_string(choice.system.elimination->reach) +
             " terms wide: " + solver;
    case LinearReason::nothing_to_solve:
    case LinearReason::steps_on_host:
    case LinearReason::from_gradients:
    case LinearReason::preconditioner:
    case LinearReason::many_unknowns:
    case LinearReason::no_mesh:
    case LinearReason::small_jacobian:
    case LinearReason::wide_residual:
    case LinearReason::data_on_device:
    case LinearReason::elimination:
    case LinearReason::no_elimination:
    case LinearReason::penalties:
    case LinearReason::fewer_seconds:
    case LinearReason::read_back:
    case LinearReason::factor_cheap:
    case LinearReason::factor_dear: break;
  }
  return size + ": " + solver;
}

}  // namespace

std::string lack_of_float64(const BackendChoice& choice) {
  const std::string whose = "device \"" + choice.device + "\" has no float64";
  if (choice.emulated_float64)
    return whose + " of its own, and deterministic choices do not emulate it";
  return whose + ", which precision " + std::string(name(choice.precision)) + " needs";
}

std::string backend_text(const BackendChoice& choice) {
  const std::string size = std::to_string(choice.instances) + " instances";
  const std::string threshold = " the threshold of " + std::to_string(choice.threshold);
  switch (choice.reason) {
    case BackendReason::asked_for:
      return choice.kernels_on_device ? "asked for; portable sums are taken on the CPU"
                                      : "asked for";
    case BackendReason::no_kernels: return "cpu: every residual runs on the host";
    case BackendReason::below_threshold: return "cpu: " + size + " are below" + threshold;
    case BackendReason::short_solve:
      return "cpu: " + size + ", about " + rounded(choice.cpu_seconds) +
             " s, less than a device takes to be found and opened";
    case BackendReason::no_device: return "cpu: " + choice.problem;
    case BackendReason::software_device:
      return "cpu: the only Vulkan device is software (" + choice.device + ") and was not named";
    case BackendReason::no_float64: return "cpu: " + lack_of_float64(choice);
    case BackendReason::scheduler: return "cpu: " + scheduler_text(choice);
    case BackendReason::reaches_threshold: return "vulkan: " + size + " reach" + threshold;
    case BackendReason::device_failed: return "cpu: the device failed: " + choice.problem;
  }
  return {};
}

std::string lack_of_device_factor(const Plan& plan) {
  const LinearChoice& choice = plan.linear;
  if (plan.backend.backend == Backend::cpu)
    return "the backend is cpu (" + backend_text(plan.backend) + ")";
  if (choice.of_hessian) return "newton factorises Hessians on the host";
  if (choice.reason == LinearReason::from_gradients) return "steps come from gradients";
  const bool factors = form_of(choice.kind) == LinearForm::factor;
  if (factors && choice.system.device_factor && !choice.system.device_factor->possible)
    return text(choice.system.device_factor->why);
  if (choice.needs.any()) return "steps are made on the host (" + text(choice.needs) + ")";
  if (!factors) return "the linear solver is " + std::string(name(choice.kind));
  return text(choice.system.device_factor->why);
}

std::string factor_text(const Plan& plan) {
  const FactorChoice& choice = plan.linear.factor;
  std::string seconds = rounded(choice.host_seconds) + " s expected on the host, " +
                        rounded(choice.device_seconds) + " s on the device";
  switch (choice.reason) {
    case FactorReason::asked_for: return "asked for";
    case FactorReason::no_device: return lack_of_device_factor(plan);
    case FactorReason::software: return "the device is the host's processor";
    case FactorReason::few:
      if (!plan.linear.system.factor)
        return std::to_string(plan.linear.system.unknowns) + " unknowns, too few for a device";
      return rounded(plan.linear.system.factor->operations) + " operations, too few for a device";
    case FactorReason::data_on_device:
      return "the data are there; " + rounded(choice.device_seconds) + " s expected";
    case FactorReason::not_possible:
      return "not on the device: " + text(plan.linear.system.device_factor->why);
    case FactorReason::slower:
    case FactorReason::faster: return seconds;
  }
  return {};
}

std::string linear_text(const Plan& plan) {
  const LinearChoice& choice = plan.linear;
  const SystemFacts& system = choice.system;
  const bool on_device = plan.backend.backend != Backend::cpu;
  if (choice.of_hessian) return newton_text(choice);
  std::string size = std::to_string(system.unknowns) + " unknowns";
  const bool costs = system.factor.has_value();
  std::string cost = costs ? size + ": a factor has " + rounded(system.factor->entries) +
                                 " entries and takes " + rounded(system.factor->operations) +
                                 " operations"
                           : size;
  std::string data = "the data are on the device";
  switch (choice.reason) {
    case LinearReason::nothing_to_solve: return "nothing to solve";
    case LinearReason::steps_on_host: return "steps on the host: " + text(choice.needs);
    case LinearReason::from_gradients: return "steps come from gradients";
    case LinearReason::asked_for: return asked_text(choice, on_device);
    case LinearReason::preconditioner: return "its preconditioner is asked for";
    case LinearReason::few_unknowns:
    case LinearReason::many_unknowns:
    case LinearReason::hessians_dear:
    case LinearReason::no_mesh: return size;
    case LinearReason::small_jacobian:
      return size + ": fewer than iterations are worth; the Jacobian is read back";
    case LinearReason::wide_residual:
      return size + ": a residual reads " + rounded(static_cast<double>(system.widest)) +
             ", whose part of a factor takes " + rounded(system.widest_operations()) +
             " operations";
    case LinearReason::data_on_device: return data;
    case LinearReason::elimination:
      return on_device ? data + "; " + text(system.on_device->why)
                       : size + ": " + eliminated_text(choice);
    case LinearReason::no_elimination:
      return data + "; no elimination: " + text(system.on_device->why);
    case LinearReason::mesh:
      return (on_device ? data : cost) + "; a mesh, up to " +
             std::to_string(system.elimination->reach) +
             " residuals wide: solved as exactly as the gradient falls";
    case LinearReason::factor_cheap:
      if (!choice.by_engine) return cost;
      return data + "; " + size + ": a factor there takes " +
             rounded(system.device_factor->operations) + " operations, less time than iterations";
    case LinearReason::factor_dear: return cost + ", too many";
    case LinearReason::penalties:
      return size + ": penalties of constraints take iterations ever longer";
    case LinearReason::fewer_seconds:
      if (system.iterations)
        return cost + "; " + std::to_string(system.iterations->count) +
               " iterations solve the first system";
      return cost + "; iterations are expected to take less time";
    case LinearReason::read_back:
      return size +
             ": iterations on the device are expected to take longer than the way of the "
             "Jacobian and a factor on the host";
  }
  return {};
}

std::string text(const HostNeeds& needs) {
  std::string out;
  const auto add = [&](bool there, std::string_view what) {
    if (there) out += (out.empty() ? "" : ", ") + std::string(what);
  };
  add(needs.bounds, "bounds");
  add(needs.manifolds, "manifolds");
  add(needs.host_residuals, "residuals on the host");
  add(needs.dogleg, "dogleg");
  add(needs.solver != LinearSolver::automatic, name(needs.solver));
  return out;
}

std::string preconditioner_text(const Plan& plan, const runtime::PreconditionerUse& use) {
  using Reason = runtime::PreconditionerReason;
  if (plan.preconditioner.why.reason != Reason::none) return text(plan.preconditioner.why);
  const bool adds = use.asked_for && use.why.reason != Reason::asked_for;
  return (adds ? "asked for; " : "") + text(use.why);
}

std::string text(const runtime::Why<runtime::PreconditionerReason>& why) {
  return sentence(kPreconditionerReasons[static_cast<std::size_t>(why.reason)], why.numbers);
}

std::string text(const runtime::Why<runtime::MatrixReason>& why) {
  return sentence(kMatrixReasons[static_cast<std::size_t>(why.reason)], why.numbers);
}

}  // namespace topograd
