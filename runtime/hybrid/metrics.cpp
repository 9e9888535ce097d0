// Metric families, and their two output formats.
#include "executor.hpp"

#include "../cache/content_hash.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <vector>

namespace topograd::runtime::hybrid {
namespace {

using Json = nlohmann::ordered_json;
using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  Labels labels;
  double value = 0;
  Histogram histogram;
};

struct Family {
  std::string name, type, help;
  std::vector<Sample> samples;
};

std::string number(double value) { return Json(value).dump(); }
std::string number(std::uint64_t value) { return std::to_string(value); }

/// Escapes backslash, quote and line feed, as the format requires.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string braces(const Labels& labels) {
  if (labels.empty()) return {};
  std::string text = "{";
  for (const auto& [name, value] : labels)
    text += (text.size() > 1 ? "," : "") + name + "=\"" + escaped(value) + '"';
  return text + "}";
}

void append_histogram(std::string& text, const std::string& name, const Sample& sample) {
  const Histogram& h = sample.histogram;
  const auto line = [&](const std::string& bound, std::uint64_t count) {
    Labels labels = sample.labels;
    labels.emplace_back("le", bound);
    text += name + "_bucket" + braces(labels) + " " + number(count) + "\n";
  };
  for (int k = 0; k < Histogram::kBuckets; ++k) line(number(h.bound(k)), h.up_to(k));
  line("+Inf", h.count());
  text += name + "_sum" + braces(sample.labels) + " " + number(h.sum()) + "\n";
  text += name + "_count" + braces(sample.labels) + " " + number(h.count()) + "\n";
}

Sample count(Labels labels, std::uint64_t value) {
  return {std::move(labels), static_cast<double>(value), Histogram()};
}

void add_operations(std::vector<Family>& out, const Telemetry::Counts& counts) {
  Family tasks{"topograd_tasks_total", "counter", "Tasks that ended, by result.", {}};
  Family seconds{
      "topograd_task_duration_seconds", "histogram", "Time of a task without waiting.", {}};
  Family sizes{"topograd_batch_size", "histogram", "Items of a task.", {}};
  Family items{"topograd_items_total", "counter", "Items of tasks that ended well.", {}};
  Family bytes{"topograd_transfer_bytes_total", "counter", "Bytes moved to and from devices.", {}};
  Family hits{"topograd_cache_hits_total", "counter", "Kernels and arrays that were there.", {}};
  for (const auto& [key, s] : counts.operations) {
    const Labels labels = {{"operation", key.first}, {"device", key.second}};
    const auto with = [&](const char* name, const char* value) {
      Labels more = labels;
      more.emplace_back(name, value);
      return more;
    };
    tasks.samples.push_back(count(with("result", "success"), s.tasks));
    tasks.samples.push_back(count(with("result", "failure"), s.failures));
    seconds.samples.push_back({labels, 0, s.duration});
    sizes.samples.push_back({labels, 0, s.batch});
    items.samples.push_back(count(labels, s.items));
    bytes.samples.push_back(count(with("direction", "up"), s.bytes_up));
    bytes.samples.push_back(count(with("direction", "down"), s.bytes_down));
    hits.samples.push_back(count(labels, s.cache_hits));
  }
  for (Family* family : {&tasks, &seconds, &sizes, &items, &bytes, &hits})
    out.push_back(std::move(*family));
}

void add_routing(std::vector<Family>& out, const Telemetry::Counts& counts) {
  Family routing{"topograd_routing_total", "counter", "Decisions, by device and reason.", {}};
  for (const auto& [key, n] : counts.routing) {
    routing.samples.push_back(
        count({{"device", key.first}, {"reason", std::string(name(key.second))}}, n));
  }
  Family fallbacks{"topograd_fallbacks_total", "counter", "Tasks finished by the CPU.", {}};
  for (const auto& [key, n] : counts.fallbacks)
    fallbacks.samples.push_back(count({{"device", key.first}, {"error", key.second}}, n));
  out.push_back(std::move(routing));
  out.push_back(std::move(fallbacks));
  out.push_back({"topograd_coalesced_tasks_total",
                 "counter",
                 "Tasks that shared a dispatch.",
                 {count({}, counts.coalesced_tasks)}});
  out.push_back({"topograd_coalesced_dispatches_total",
                 "counter",
                 "Dispatches that tasks shared.",
                 {count({}, counts.coalesced_dispatches)}});
  out.push_back({"topograd_split_tasks_total",
                 "counter",
                 "Tasks that ran on both sides.",
                 {count({}, counts.split_tasks)}});
  out.push_back({"topograd_state_files_total",
                 "counter",
                 "Histories read and written.",
                 {count({{"event", "loaded"}}, counts.state_loads),
                  count({{"event", "rejected"}}, counts.state_rejected),
                  count({{"event", "written"}}, counts.state_writes),
                  count({{"event", "write_failed"}}, counts.state_write_failures)}});
}

void add_targets(std::vector<Family>& out, const std::vector<TargetState>& targets) {
  Family state{"topograd_breaker_state", "gauge", "0 closed, 1 half open, 2 open.", {}};
  Family openings{"topograd_breaker_openings_total", "counter", "Times a breaker opened.", {}};
  Family rate{"topograd_success_rate", "gauge", "Share of the last tasks that ended well.", {}};
  Family queue{"topograd_queue_seconds", "gauge", "Work that waits, as predicted.", {}};
  Family drifts{"topograd_drifts_total", "counter", "Times a device as a whole changed.", {}};
  Family load{"topograd_load_factor", "gauge", "Times that it is slower now than usual.", {}};
  Family free{"topograd_free_bytes", "gauge", "Memory that a task could take now.", {}};
  for (const TargetState& t : targets) {
    const Labels labels = {{"device", t.target.name}};
    const double level = t.breaker == BreakerState::closed      ? 0
                         : t.breaker == BreakerState::half_open ? 1
                                                                : 2;
    state.samples.push_back({labels, level, {}});
    openings.samples.push_back(count(labels, t.breaker_openings));
    rate.samples.push_back({labels, t.success_rate, {}});
    queue.samples.push_back({labels, t.queued_us * 1e-6, {}});
    drifts.samples.push_back(count(labels, t.drifts));
    load.samples.push_back({labels, t.load, {}});
    if (t.free_bytes) free.samples.push_back(count(labels, *t.free_bytes));
  }
  for (Family* family : {&state, &openings, &rate, &queue, &drifts, &load, &free})
    out.push_back(std::move(*family));
}

/// Adds the devices' own figures: pools, caches.
void add_figures(std::vector<Family>& out, const std::vector<Figure>& figures) {
  std::map<std::string, std::size_t> known;
  for (const Figure& figure : figures) {
    const auto [entry, is_new] = known.try_emplace(figure.name, out.size());
    if (is_new) out.push_back({figure.name, figure.counter ? "counter" : "gauge", figure.help, {}});
    out[entry->second].samples.push_back({figure.labels, figure.value, {}});
  }
}

std::vector<Family> families(const Executor& executor) {
  std::vector<Family> out;
  const Telemetry::Counts counts = executor.telemetry().counts();
  add_operations(out, counts);
  add_routing(out, counts);
  add_targets(out, executor.scheduler().targets());
  add_figures(out, executor.figures());
  return out;
}

Json histogram_value(const Histogram& h) {
  Json buckets = Json::array();
  for (int k = 0; k < Histogram::kBuckets; ++k) buckets.push_back({h.bound(k), h.up_to(k)});
  return {{"count", h.count()}, {"sum", h.sum()}, {"buckets", std::move(buckets)}};
}

Json kernels_value(const Knowledge& knowledge) {
  Json kernels = Json::array();
  for (const Knowledge::Kernel& kernel : knowledge.kernels) {
    Json one = {{"hash", hex(kernel.hash)}, {"operation", kernel.operation}};
    for (const auto& [target, rows] : kernel.targets) {
      for (const History::Row& row : rows) {
        one["times"].push_back({{"device", target},
                                {"size", row.size},
                                {"us", row.us},
                                {"spread", row.spread},
                                {"count", row.count}});
      }
    }
    kernels.push_back(std::move(one));
  }
  return kernels;
}

Json capabilities_value(const std::vector<Capabilities>& list) {
  Json out = Json::array();
  for (const Capabilities& c : list) {
    out.push_back({{"name", c.name},
                   {"kind", c.kind},
                   {"driver", c.driver},
                   {"memory_bytes", c.memory_bytes},
                   {"features", c.features},
                   {"available", c.available},
                   {"problem", c.problem},
                   {"threads", c.threads},
                   {"simd", c.simd}});
  }
  return out;
}

}  // namespace

std::string prometheus_text(const Executor& executor) {
  std::string text;
  for (const Family& family : families(executor)) {
    text += "# HELP " + family.name + " " + family.help + "\n";
    text += "# TYPE " + family.name + " " + family.type + "\n";
    for (const Sample& sample : family.samples) {
      if (family.type == "histogram") {
        append_histogram(text, family.name, sample);
      } else {
        text += family.name + braces(sample.labels) + " " + number(sample.value) + "\n";
      }
    }
  }
  return text;
}

std::string metrics_json(const Executor& executor) {
  Json metrics = Json::object();
  for (const Family& family : families(executor)) {
    Json samples = Json::array();
    for (const Sample& sample : family.samples) {
      Json one = {{"labels", Json::object()}};
      for (const auto& [name, value] : sample.labels) one["labels"][name] = value;
      if (family.type == "histogram") {
        one["histogram"] = histogram_value(sample.histogram);
      } else {
        one["value"] = sample.value;
      }
      samples.push_back(std::move(one));
    }
    metrics[family.name] = {{"type", family.type}, {"samples", std::move(samples)}};
  }
  return Json{{"capabilities", capabilities_value(executor.capabilities())},
              {"metrics", std::move(metrics)},
              {"kernels", kernels_value(executor.scheduler().knowledge())}}
             .dump(1) +
         "\n";
}

}  // namespace topograd::runtime::hybrid
