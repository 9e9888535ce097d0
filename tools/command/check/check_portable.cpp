// topograd check repeat --portable: problems whose bits are the same on every machine.
#include "check_portable.hpp"

#include "child.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/cache/content_hash.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/solve.hpp"
#include "../../problems/portable.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <vector>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;
using problems::PortableProblem;
using problems::PortableRow;

struct Stored {
  std::string_view name, rows, sums, solve;
};
constexpr Stored kStored[] = {
#define TG_PORTABLE(name, rows, sums, solve) {name, rows, sums, solve},
#include "portable_hashes.def"
#undef TG_PORTABLE
    {},
};

constexpr std::string_view kKinds[] = {"rows", "sums", "solve"};

/// Bits of numbers; all NaN are one.
class Bits64 {
 public:
  void add(std::span<const double> numbers) {
    for (const double number : numbers)
      all_.push_back(std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number);
  }
  void add(double number) { add(std::span(&number, 1)); }
  void add(const Eigen::VectorXd& v) {
    add(std::span(v.data(), static_cast<std::size_t>(v.size())));
  }
  std::string hash() const {
    return runtime::hex(runtime::hash_bytes(std::as_bytes(std::span(all_)))).substr(0, 16);
  }

 private:
  std::vector<double> all_;
};

/// Residuals and Jacobian at the start, whose numbers are of one residual each.
std::string rows_of(Evaluator& at) {
  Bits64 bits;
  bits.add(at.residuals());
  const Evaluator::SparseMatrix jacobian = at.jacobian();
  bits.add(std::span(jacobian.valuePtr(), static_cast<std::size_t>(jacobian.nonZeros())));
  return bits.hash();
}

/// Cost, gradient and JᵀJ·p at the start.
std::string sums_of(Evaluator& at) {
  Bits64 bits;
  bits.add(at.cost());
  const Eigen::VectorXd gradient = at.gradient();
  bits.add(gradient);
  Eigen::VectorXd p(gradient.size());
  for (Eigen::Index k = 0; k < p.size(); ++k) p[k] = 1.0 / static_cast<double>(k + 1);
  bits.add(at.jtjp(std::span<const double>(p.data(), static_cast<std::size_t>(p.size()))));
  return bits.hash();
}

std::string solve_of(PortableProblem& made) {
  const Summary summary = solve(made.problem, made.options);
  Bits64 bits;
  for (const std::vector<double>& x : made.x) bits.add(x);
  bits.add(summary.final_cost);
  for (const IterationSummary& step : summary.iterations) bits.add(step.cost);
  return bits.hash();
}

SolverOptions for_values(SolverOptions options) {
  if (options.precision == Precision::mixed) options.precision = Precision::f64;
  return options;
}

/// Of one process: the place, and a row for each problem.
ordered_json on_cpu(int threads) {
  ordered_json out = {{"rows", ordered_json::array()}};
  for (const PortableRow& row : problems::portable_problems()) {
    const std::unique_ptr<PortableProblem> made = row.make();
    made->options.bits = Bits::portable;
    made->options.threads = threads;
    Evaluator at(made->problem, for_values(made->options));
    out["place"] = at.device();
    ordered_json& hashes = out["rows"].emplace_back();
    hashes = {{"name", row.name}, {"rows", rows_of(at)}, {"sums", sums_of(at)}};
    hashes["solve"] = solve_of(*made);
  }
  return out;
}

/// Residuals and Jacobians; empty without a device.
ordered_json on_device(const std::string& device, Float64 float64) {
  using Devices = PortableRow::Devices;
  const Devices least = float64 == Float64::emulated ? Devices::all : Devices::with_float64;
  ordered_json out = {{"rows", ordered_json::array()}};
  for (const PortableRow& row : problems::portable_problems()) {
    if (row.devices < least) continue;
    const std::unique_ptr<PortableProblem> made = row.make();
    SolverOptions options = for_values(made->options);
    options.backend = Backend::vulkan;
    options.device = device;
    options.float64 = float64;
    options.deterministic = true;
    try {
      Evaluator at(made->problem, options);
      out["place"] = at.device() + (float64 == Float64::emulated ? ", emulated float64" : "");
      out["rows"].push_back({{"name", row.name}, {"rows", rows_of(at)}});
    } catch (const Error& error) {
      const bool absent =
          error.code() == ErrorCode::NoLoader || error.code() == ErrorCode::NoDriver ||
          error.code() == ErrorCode::NoDevice || error.code() == ErrorCode::Unsupported;
      if (!absent || !device.empty()) throw;
      return {};
    }
  }
  return out;
}

const Stored* stored_of(std::string_view name) {
  for (const Stored& row : kStored)
    if (row.name == name) return &row;
  return nullptr;
}

/// Adds the places of a process to the rows of the report.
void add_place(ordered_json& report, const ordered_json& found) {
  if (found.is_null() || found["rows"].empty()) return;
  const std::string place = found["place"];
  report["places"].push_back(place);
  for (const ordered_json& from : found["rows"]) {
    ordered_json& to = report["results"][from["name"].get<std::string>()];
    for (const std::string_view kind : kKinds)
      if (from.contains(kind))
        to[std::string(kind)][from[kind].get<std::string>()].push_back(place);
  }
}

bool is_as_stored(const Stored& stored, const ordered_json& row) {
  const std::string_view expected[] = {stored.rows, stored.sums, stored.solve};
  for (std::size_t k = 0; k < std::size(kKinds); ++k) {
    const ordered_json& hashes = row[std::string(kKinds[k])];
    if (hashes.size() != 1 || hashes.begin().key() != expected[k]) return false;
  }
  return true;
}

}  // namespace

ordered_json portable_report(const std::string& device) {
  ordered_json report = {{"check", "repeat"},
                         {"bits", "portable"},
                         {"broken", false},
                         {"places", ordered_json::array()},
                         {"results", ordered_json::object()}};
  std::set<std::string> known;
  for (const char* set : {"baseline", "avx2", "avx512"}) {
    for (const int threads : {1, 2}) {
      if (Interrupts::came()) break;
      const ordered_json found = in_a_process("check repeat", [&] {
        platform::set_environment("TOPOGRAD_INSTRUCTIONS", set);
        return on_cpu(threads);
      });
      // A processor without the set has shown the one below it.
      if (known.insert(found["place"]).second) add_place(report, found);
    }
  }
  for (const Float64 float64 : {Float64::native, Float64::emulated}) {
    if (Interrupts::came()) break;
    add_place(report, in_a_process("check repeat", [&] { return on_device(device, float64); }));
  }
  for (const auto& [name, row] : report["results"].items()) {
    const Stored* const stored = stored_of(name);
    row["as_stored"] = stored != nullptr && is_as_stored(*stored, row);
    if (!row["as_stored"].get<bool>()) report["broken"] = true;
  }
  return report;
}

std::string portable_text(const ordered_json& report) {
  std::string text;
  for (const ordered_json& place : report["places"]) text += place.get<std::string>() + "\n";
  for (const auto& [name, row] : report["results"].items()) {
    std::string line = name;
    line.resize(22, ' ');
    for (const std::string_view kind : kKinds) {
      for (const auto& [hash, places] : row[std::string(kind)].items()) {
        line += " " + hash;
        if (row[std::string(kind)].size() == 1) continue;
        line += " (";
        for (const ordered_json& place : places) line += place.get<std::string>() + "; ";
        line.replace(line.size() - 2, 2, ")");
      }
    }
    text += line + (row["as_stored"].get<bool>() ? "  as stored\n" : "  BROKEN: not as stored\n");
  }
  return text;
}

}  // namespace topograd::command
