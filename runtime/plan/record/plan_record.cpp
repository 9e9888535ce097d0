// Names of choices, and the plan record as JSON.
#include "plan_record.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <optional>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/formatted.hpp"
#include "../../cache/json_values.hpp"
#include "plan_json_value.hpp"

namespace topograd::runtime {
namespace {

/// The whole number under a key; if missing, `otherwise`, or an error without it.
template <class T>
T whole(const Json& json, const char* key, std::optional<T> otherwise = std::nullopt) {
  if (otherwise && !json.contains(key)) return *otherwise;
  const auto value = whole_number<T>(json.at(key));
  if (value) return *value;
  throw Error(ErrorCode::Parse, std::string("plan: expected a whole number from 0 as ") + key +
                                    ", got " + shown(json.at(key)));
}

PlanCandidate candidate(const Json& json) {
  return {.accumulation = codegen::parse_accumulation(json.at("accumulation").get<std::string>()),
          .estimate = json.value("estimate", 0.0),
          .measured_us = json.value("measured_us", 0.0),
          .one_pass = json.value("one_pass", false)};
}

PlanChoice choice(const Json& json) {
  PlanChoice made{
      .topology = json.at("topology").get<std::string>(),
      .name = json.value("name", std::string()),
      .pass = json.at("pass").get<std::string>(),
      .instances = whole<std::uint64_t>(json, "instances"),
      .accumulation = codegen::parse_accumulation(json.at("accumulation").get<std::string>()),
      .by = parse_enum<ChosenBy>("plan: chosen_by", json.value("chosen_by", std::string("given"))),
      .candidates = {},
      .one_pass = json.value("one_pass", false),
      .entries = whole<std::uint64_t>(json, "entries", 0),
      .operations = whole<std::uint64_t>(json, "operations", 0),
      .bytes = whole<std::uint64_t>(json, "bytes", 0)};
  if (json.contains("candidates")) {
    for (const Json& one : json.at("candidates")) made.candidates.push_back(candidate(one));
  }
  return made;
}

}  // namespace

using codegen::Accumulation;

std::string PlanChoice::text() const {
  const bool sweeps = std::ranges::any_of(candidates, &PlanCandidate::one_pass);
  const auto way = [&](Accumulation strategy, bool once) {
    return sweeps ? std::string(once ? "one sweep" : "sweeps of their own")
                  : std::string(codegen::name(strategy));
  };
  std::string out = name + ", " + pass + ": " + way(accumulation, one_pass) + " (" +
                    std::string(runtime::name(by));
  for (const PlanCandidate& one : candidates) {
    if (one.measured_us <= 0) continue;
    out += ", " + way(one.accumulation, one.one_pass) +
           platform::formatted(" %.1f us", one.measured_us);
  }
  return out + ")";
}

std::uint32_t size_class(std::uint64_t instances) {
  return instances == 0 ? 0 : static_cast<std::uint32_t>(std::bit_width(instances) - 1);
}

Json plan_value(const PlanRecord& plan) {
  Json batches = Json::array();
  for (const PlanChoice& made : plan.batches) {
    Json candidates = Json::array();
    for (const PlanCandidate& one : made.candidates) {
      candidates.push_back({{"accumulation", codegen::name(one.accumulation)},
                            {"estimate", one.estimate},
                            {"measured_us", one.measured_us}});
      if (one.one_pass) candidates.back()["one_pass"] = true;
    }
    batches.push_back({{"topology", made.topology},
                       {"name", made.name},
                       {"pass", made.pass},
                       {"instances", made.instances},
                       {"accumulation", codegen::name(made.accumulation)},
                       {"chosen_by", name(made.by)},
                       {"candidates", std::move(candidates)},
                       {"entries", made.entries},
                       {"operations", made.operations},
                       {"bytes", made.bytes}});
    if (made.one_pass) batches.back()["one_pass"] = true;
  }
  Json value = {{"device", plan.device},
                {"precision", plan.precision},
                {"workgroup_size", plan.workgroup_size},
                {"product", plan.product},
                {"batches", std::move(batches)}};
  for (const KernelFigures& kernel : plan.kernels) {
    Json figures = Json::object();
    for (const auto& figure : kernel.figures) figures[figure.name] = figure.value;
    value["kernels"].push_back({{"name", kernel.name},
                                {"workgroup_size", kernel.workgroup_size},
                                {"glsl_ms", kernel.glsl_ms},
                                {"spirv_ms", kernel.spirv_ms},
                                {"pipeline_ms", kernel.pipeline_ms},
                                {"origin", kernel.origin}});
    if (!figures.empty()) value["kernels"].back()["figures"] = std::move(figures);
  }
  return value;
}

std::string to_json(const PlanRecord& plan) { return plan_value(plan).dump(2) + "\n"; }

PlanRecord parse_plan(std::string_view text) {
  try {
    const Json json = parse_json(text);
    PlanRecord plan{.device = json.value("device", std::string()),
                    .precision = json.value("precision", std::string()),
                    .workgroup_size = whole<std::uint32_t>(json, "workgroup_size", 0),
                    .product = json.value("product", std::string()),
                    .batches = {}};
    for (const Json& one : json.at("batches")) plan.batches.push_back(choice(one));
    return plan;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::Parse,
                "plan: expected a plan record in JSON: " + json_error_text(error.what(), true));
  }
}

}  // namespace topograd::runtime
