// The summary of a solve as JSON.
#include "summary.hpp"

#include "../runtime/plan/record/plan_json_value.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace topograd {
namespace {

using Json = nlohmann::ordered_json;

Json history(const Summary& summary) {
  Json out = Json::array();
  for (const IterationSummary& i : summary.iterations) {
    out.push_back({{"iteration", i.iteration},
                   {"accepted", i.step_is_successful},
                   {"cost", i.cost},
                   {"cost_change", i.cost_change},
                   {"gradient_norm", i.gradient_norm},
                   {"gradient_max_norm", i.gradient_max_norm},
                   {"step_norm", i.step_norm},
                   {"gain_ratio", i.relative_decrease},
                   {"radius", i.trust_region_radius},
                   {"step_size", i.step_size},
                   {"evaluations", i.evaluations},
                   {"linear_iterations", i.linear_iterations},
                   {"step_time_s", i.iteration_time_in_seconds},
                   {"time_s", i.cumulative_time_in_seconds}});
  }
  return out;
}

Json topologies(const Summary& summary) {
  Json out = Json::array();
  for (const TopologySummary& t : summary.topologies) {
    out.push_back(
        {{"hash", t.hash}, {"name", t.name}, {"instances", t.instances}, {"outputs", t.outputs}});
  }
  return out;
}

Json long_expressions(const Summary& summary) {
  Json out = Json::array();
  for (const LongExpression& e : summary.long_expressions) {
    Json one = {{"label", e.label},
                {"blocks", e.blocks},
                {"rows", e.rows},
                {"unknowns", e.unknowns},
                {"operations", e.operations},
                {"bytes", e.bytes},
                {"loop", e.rolling == Rolling::loop},
                {"why", text(e)}};
    if (e.steps > 0) {
      one["steps"] = e.steps;
      one["states"] = e.states;
      one["step_operations"] = e.step_operations;
    }
    for (const LongLoop& loop : e.loops)
      one["loops"].push_back({{"levels", loop.levels()},
                              {"instances", loop.instances()},
                              {"operations", loop.operations},
                              {"states", loop.states}});
    if (e.rolling == Rolling::irregular) {
      one["repeated"] = e.repeated;
      one["given_up"] = e.given_up;
    }
    if (e.work_bytes > 0) one["work_bytes"] = e.work_bytes;
    out.push_back(std::move(one));
  }
  return out;
}

Json shared_values(const Summary& summary) {
  Json out = Json::array();
  for (const SharedValues& of : summary.shared_values) {
    out.push_back({{"label", of.label},
                   {"values", of.values},
                   {"groups", of.groups},
                   {"blocks", of.blocks},
                   {"stored", of.stored},
                   {"operations_stored", of.operations_stored},
                   {"operations_inlined", of.operations_inlined},
                   {"seconds_stored", of.seconds_stored},
                   {"seconds_inlined", of.seconds_inlined}});
  }
  return out;
}

void add_result(Json& json, const Summary& s) {
  json["initial_cost"] = s.initial_cost;
  json["final_cost"] = s.final_cost;
  json["optimality"] = s.optimality;
  json["iterations"] = s.num_iterations();
  json["successful_steps"] = s.num_successful_steps;
  json["unsuccessful_steps"] = s.num_unsuccessful_steps;
  json["nonfinite_steps"] = s.num_nonfinite_steps;
  json["repeated_steps"] = s.num_repeated_steps;
  json["escapes"] = s.num_escapes;
  json["linear_iterations"] = s.num_linear_iterations;
  json["flips"] = s.num_flips;
  json["retraces"] = s.num_retraces;
  json["termination"] = name(s.termination);
  json["message"] = s.message;
  if (s.advice != Advice::none) json["advice"] = text(s.advice);
}

void add_backend(Json& json, const Summary& s) {
  json["backend"] = s.backend;
  json["device"] = s.device;
  json["why"] = s.why;
  if (!s.plan.empty()) json["plan"] = runtime::plan_value(s.plan);
  json["precision"] = codegen::name(s.precision);
  if (s.emulated_float64) json["float64"] = codegen::name(codegen::Float64::emulated);
  json["method"] = name(s.method);
  json["method_note"] = s.method_note;
  json["linear_solver"] = linear_solver_name(s);
  json["linear_solver_note"] = s.linear_solver_note;
  if (s.expected_cholesky_seconds > 0 && s.expected_pcg_seconds > 0) {
    json["linear_solver_seconds_of_step"] = {{"expected_cholesky", s.expected_cholesky_seconds},
                                             {"expected_pcg", s.expected_pcg_seconds},
                                             {"measured", s.linear_seconds_of_step()}};
  }
  const LinearForm form = form_of(s.linear_solver);
  if (form == LinearForm::factor && !takes_energies(step_method(s))) {
    json["factor"] = name(s.factor);
    json["factor_note"] = s.factor_note;
    if (s.factor_bytes > 0) {
      json["factor_bytes"] = s.factor_bytes;
      json["predicted_factor_bytes"] = s.predicted_factor_bytes;
    }
  }
  if (form == LinearForm::products && !takes_energies(step_method(s))) {
    json["preconditioner"] = name(s.preconditioner);
    json["preconditioner_note"] = s.preconditioner_note;
    json["normal_matrix"] = name(s.normal_matrix);
    json["normal_matrix_note"] = s.normal_matrix_note;
  }
  json["accumulation"] = s.accumulation;
  json["unknowns"] = s.unknowns;
  json["parameters"] = s.parameters;
  json["residuals"] = s.residuals;
  json["left_out"] = s.left_out;
  json["degrees_of_freedom"] = s.degrees_of_freedom();
  json["host_residuals"] = s.host_residuals;
  if (!s.shared_values.empty()) json["shared_values"] = shared_values(s);
  if (!s.long_expressions.empty()) json["long_expressions"] = long_expressions(s);
  json["energies"] = s.energies;
  json["topologies"] = topologies(s);
  json["unread_blocks"] = s.unread_blocks.size();
}

// Multipliers beyond this many rows of one label are left out.
constexpr std::size_t kMostMultipliers = 1000;

// Components are listed up to this many.
constexpr std::size_t kMostComponents = 1000;

Json constraints(const ConstrainedSummary& c) {
  Json list = Json::array();
  for (const ConstraintSummary& one : c.constraints) {
    const std::size_t shown = std::min(one.multipliers.size(), kMostMultipliers);
    list.push_back({{"label", one.label},
                    {"kind", kind_name(one)},
                    {"outcome", name(one.outcome)},
                    {"rows", one.rows},
                    {"active", one.active},
                    {"redundant", one.redundant},
                    {"violation", one.violation},
                    {"largest_multiplier", one.largest_multiplier},
                    {"multipliers", std::vector<double>(one.multipliers.begin(),
                                                        one.multipliers.begin() +
                                                            static_cast<std::ptrdiff_t>(shown))}});
  }
  Json out = {{"outer_iterations", c.outer_iterations},   {"penalty", c.penalty},
              {"stationarity", c.kkt.stationarity},       {"feasibility", c.kkt.feasibility},
              {"complementarity", c.kkt.complementarity}, {"blocks", list}};
  if (c.barrier > 0) out["barrier"] = c.barrier;
  if (!c.infeasible.empty()) out["infeasible"] = c.infeasible;
  return out;
}

Json components(const ComponentsSummary& c) {
  Json out = {{"solved", c.separate ? "separate" : "together"}, {"why", c.why}};
  if (!c.separate) return out;
  out["count"] = c.count;
  out["groups"] = c.groups;
  out["largest"] = c.largest;
  Json ends = Json::object();
  for (const Termination end : c.termination) {
    Json& count = ends[std::string(name(end))];
    count = count.is_null() ? 1 : count.get<std::size_t>() + 1;
  }
  out["termination"] = ends;
  const bool shown = c.count <= kMostComponents;
  if (!shown) return out;
  Json list = Json::array();
  for (std::size_t k = 0; k < c.count; ++k)
    list.push_back({{"first_unknown", c.first_unknown[k]},
                    {"termination", name(c.termination[k])},
                    {"initial_cost", c.initial_cost[k]},
                    {"final_cost", c.final_cost[k]},
                    {"successful_steps", c.successful_steps[k]},
                    {"unsuccessful_steps", c.unsuccessful_steps[k]}});
  out["list"] = list;
  return out;
}

void add_times(Json& json, const PhaseTimes& t) {
  json["build_s"] = t.build_seconds;
  json["device_search_s"] = t.device_search_seconds;
  json["plan_s"] = t.plan_seconds;
  json["glsl_ms"] = t.glsl_ms;
  json["spirv_ms"] = t.spirv_ms;
  json["pipeline_ms"] = t.pipeline_ms;
  json["compile_ms"] = t.glsl_ms + t.spirv_ms + t.pipeline_ms;
  json["compile_wall_ms"] = t.compile_wall_ms;
  json["evaluation_s"] = t.evaluation_seconds;
  json["linear_solver_s"] = t.linear_solver_seconds;
  json["solve_s"] = t.total_seconds;
}

void add_counters(Json& json, const Summary& s) {
  json["kernels_on_cpu"] = s.kernels_on_cpu;
  json["kernels_on_device"] = s.kernels_on_device;
  json["submissions"] = s.submissions;
  json["readbacks"] = s.readbacks;
  json["bytes_up"] = s.bytes_up;
  json["bytes_down"] = s.bytes_down;
  json["shaders_compiled"] = s.shaders_compiled;
  json["shader_cache_hits"] = s.shader_cache_hits;
}

void add_profile(Json& json, const Summary& s) {
  if (!s.profile.measured) return;
  json["profile"] = {
      {"step_s", s.profile.step_us * 1e-6}, {"explained", explained_share(s)},
      {"copy_rate", s.profile.copy_rate},   {"note", s.profile.note},
      {"events", s.profile.events.size()},  {"events_left_out", s.profile.events_left_out}};
  Json list = Json::array();
  for (const runtime::KernelTime& one : s.kernels) {
    const double rate = one.us > 0 ? static_cast<double>(one.bytes) / (one.us * 1e-6) : 0;
    list.push_back(
        {{"name", one.name},
         {"topology", one.topology},
         {"on", name(one.work)},
         {"calls", one.calls},
         {"us", one.us},
         {"longest_us", one.longest_us},
         {"share_of_steps", s.profile.step_us > 0 ? one.us / s.profile.step_us : 0},
         {"bytes", one.bytes},
         {"share_of_copy_rate", s.profile.copy_rate > 0 ? rate / s.profile.copy_rate : 0},
         {"predicted_us", one.predicted_us}});
  }
  json["kernels"] = std::move(list);
}

}  // namespace

std::string to_json(const Summary& summary, int indent) {
  Json json;
  add_result(json, summary);
  add_backend(json, summary);
  add_times(json, summary.times);
  add_counters(json, summary);
  add_profile(json, summary);
  if (summary.cross_check.compared > 0) {
    json["cross_check"] = {{"compared", summary.cross_check.compared},
                           {"differences", summary.cross_check.differences},
                           {"messages", summary.cross_check.messages}};
  }
  if (!summary.components.why.empty()) json["components"] = components(summary.components);
  if (!summary.constrained.constraints.empty())
    json["constraints"] = constraints(summary.constrained);
  if (summary.resumed_step >= 0) json["resumed_step"] = summary.resumed_step;
  if (!summary.checkpoint_note.empty()) json["checkpoints"] = summary.checkpoint_note;
  if (!summary.checkpoint_warning.empty()) json["checkpoint_warning"] = summary.checkpoint_warning;
  json["history"] = history(summary);
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace topograd
