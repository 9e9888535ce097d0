// Every call of an engine, handed to another one.
#include "forwarding_engine.hpp"

namespace topograd::runtime {

Backend ForwardingEngine::backend() const { return target().backend(); }
std::string ForwardingEngine::device() const { return target().device(); }
EngineStats ForwardingEngine::stats() const { return target().stats(); }
std::string ForwardingEngine::accumulation() const { return target().accumulation(); }
PreconditionerUse ForwardingEngine::preconditioner() const { return target().preconditioner(); }
NormalMatrixUse ForwardingEngine::normal_matrix() const { return target().normal_matrix(); }
PlanRecord ForwardingEngine::plan() const { return target().plan(); }
bool ForwardingEngine::prepare(KernelKind kind) { return target().prepare(kind); }
bool ForwardingEngine::prepare_step() { return target().prepare_step(); }
std::unique_ptr<RowRunner> ForwardingEngine::row_runner() const { return target().row_runner(); }
void ForwardingEngine::refresh(const Model& model) { target().refresh(model); }
void ForwardingEngine::set_point(std::span<const double> x) { target().set_point(x); }
void ForwardingEngine::begin_solve() { target().begin_solve(); }
void ForwardingEngine::point(std::span<double> x) { target().point(x); }
bool ForwardingEngine::last_known_point(std::span<double> x) {
  return target().last_known_point(x);
}
std::uint64_t ForwardingEngine::steps_after_known_point() const {
  return target().steps_after_known_point();
}
double ForwardingEngine::cost() { return target().cost(); }
void ForwardingEngine::residuals(std::span<double> out) { target().residuals(out); }
void ForwardingEngine::gradient(std::span<double> out) { target().gradient(out); }
void ForwardingEngine::evaluate(const Values& wanted) { target().evaluate(wanted); }
void ForwardingEngine::jacobian(std::size_t term, std::span<double> values) {
  target().jacobian(term, values);
}
void ForwardingEngine::jvp(std::span<const double> p, std::span<double> out) {
  target().jvp(p, out);
}
void ForwardingEngine::vjp(std::span<const double> seeds, std::span<double> out) {
  target().vjp(seeds, out);
}
void ForwardingEngine::jtjp(std::span<const double> p, std::span<double> out) {
  target().jtjp(p, out);
}
std::unique_ptr<Pending> ForwardingEngine::begin(KernelKind kind, std::span<const double> x,
                                                 std::span<const double> p, std::span<double> out) {
  return target().begin(kind, x, p, out);
}
bool ForwardingEngine::runs_asynchronously() const { return target().runs_asynchronously(); }
void ForwardingEngine::hvp(std::span<const double> p, std::span<double> out) {
  target().hvp(p, out);
}
void ForwardingEngine::hessian(std::size_t term, bool project, std::span<double> values) {
  target().hessian(term, project, values);
}
std::uint64_t ForwardingEngine::failed_guards() { return target().failed_guards(); }
std::vector<std::uint32_t> ForwardingEngine::failed_instances(std::size_t term, At at) {
  return target().failed_instances(term, at);
}
double ForwardingEngine::trial_cost() { return target().trial_cost(); }
PointReport ForwardingEngine::linearize() { return target().linearize(); }
StepReport ForwardingEngine::try_step(const StepRequest& request) {
  return target().try_step(request);
}
StepReport ForwardingEngine::try_step(std::span<const double> delta) {
  return target().try_step(delta);
}
void ForwardingEngine::trial_point(std::span<double> x) { target().trial_point(x); }
void ForwardingEngine::set_gradient(std::span<const double> g) { target().set_gradient(g); }
void ForwardingEngine::hold(std::span<const std::uint8_t> held) { target().hold(held); }
void ForwardingEngine::last_step(std::span<double> delta) { target().last_step(delta); }
bool ForwardingEngine::can_rescale_step() const { return target().can_rescale_step(); }
StepReport ForwardingEngine::rescale_step(double length) { return target().rescale_step(length); }
void ForwardingEngine::accept() { target().accept(); }
Timing ForwardingEngine::time(KernelKind kind, int warm_ups, int samples) {
  return target().time(kind, warm_ups, samples);
}
Timing ForwardingEngine::time_step(int iterations, double damping, int samples) {
  return target().time_step(iterations, damping, samples);
}
double ForwardingEngine::copy_rate() { return target().copy_rate(); }
std::vector<MemoryUse> ForwardingEngine::memory() const { return target().memory(); }

}  // namespace topograd::runtime
