// Rates of this machine and of a device, divisions into up to 1024 parts, and the curves.
#include "scaling.hpp"

#include "../../distributed/cost_model.hpp"
#include "../../distributed/local_model.hpp"
#include "../../solver/model/model.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace topograd::command {
namespace {

using distributed::Communicator;
using distributed::Divided;
using distributed::KernelRates;
using distributed::MeasuredTimes;
using distributed::Network;
using distributed::ScalingPoint;
using nlohmann::ordered_json;

constexpr double kUs = 1e6, kGb = 1e-9;

/// An assumption: InfiniBand NDR, a port of 400 Gb/s for each rank (DGX H100 User Guide) used to
/// 90 %, and 2 µs for a small message of MPI through a few switches.
constexpr Network kNdr{.latency_seconds = 2e-6, .seconds_per_byte = 1 / 45e9};

/// An H200 in f64, from docs/performance.md and docs/notes. Each kind has
///
///   product, vectors  by springs 1000 (46.8 of 114.5 µs an iteration), arap on spot and on spot
///                     subdivided four times (16 and 539 µs), and a scene of 5,001,946 observations
///                     (1.6 ms, which include the vectors)
///   step              gradient and residuals of these; the scene's is 1.3 s for five steps of
///                     28,987,644 observations
///
/// 16 µs an iteration and 1.3 ms a step are floors on small problems. 35 µs is a round trip between
/// host and device.
const std::map<std::string, KernelRates>& h200() {
  const auto rates = [](double product, double step) {
    return KernelRates{.product_seconds = product,
                       .vector_seconds = 19.9e-12,
                       .step_seconds = step,
                       .number_seconds = 0.5e-9,
                       .iteration_overhead = 16e-6,
                       .step_overhead = 1.3e-3,
                       .exchange_overhead = 35e-6};
  };
  static const std::map<std::string, KernelRates> kTable = {{"springs", rates(13e-12, 27.5e-12)},
                                                            {"arap", rates(116e-12, 102e-12)},
                                                            {"bundle", rates(317e-12, 9e-9)}};
  return kTable;
}

/// Ranks on H100s in f64, derived from runs of one rank (docs/distributed.md, "On two GPUs"): a
/// product and the vectors explain an iteration of 10 and 30 million springs, of arap on 4.0
/// million residuals and of scenes of 7.2 and 29.0 million observations, beside three exchanges of
/// 35 µs between host and device, which a rank without others makes as well. Steps are those of
/// h200().
const std::map<std::string, KernelRates>& h100() {
  static const std::map<std::string, KernelRates> kTable = [] {
    std::map<std::string, KernelRates> table = h200();
    for (auto& [name, rates] : table) {
      rates.vector_seconds = 51e-12;
      rates.iteration_overhead = 3 * 35e-6;
      rates.exchange_overhead = 0;
    }
    table.at("springs").product_seconds = 24e-12;
    table.at("arap").product_seconds = 193e-12;
    table.at("bundle").product_seconds = 260e-12;
    return table;
  }();
  return kTable;
}

/// Ghosts of devices go through memory of the host, where PetscSF packs, copies and unpacks them
/// with one thread: 53 MB for about half of the 20.1 ms of an iteration on two H100.
constexpr Network kThroughHosts{.latency_seconds = 2e-6, .seconds_per_byte = 1 / 5e9};

struct Machine {
  std::string name;
  KernelRates rates;
  Network network;
};

ordered_json describe(const KernelRates& rates) {
  constexpr double kNs = 1e9;
  return {{"product_ns_per_residual", kNs * rates.product_seconds},
          {"vectors_ns_per_unknown", kNs * rates.vector_seconds},
          {"step_ns_per_residual", kNs * rates.step_seconds},
          {"sum_ns_per_number", kNs * rates.number_seconds},
          {"iteration_overhead_us", kUs * rates.iteration_overhead},
          {"step_overhead_us", kUs * rates.step_overhead},
          {"exchange_overhead_us", kUs * rates.exchange_overhead}};
}

ordered_json describe(const Network& network) {
  return {{"latency_us", kUs * network.latency_seconds},
          {"gb_per_s", network.seconds_per_byte > 0 ? ordered_json(kGb / network.seconds_per_byte)
                                                    : ordered_json()},
          {"allgather", name(network.allgather)}};
}

/// The rank that computes longest, and what all have together.
ordered_json describe(const Divided& divided) {
  std::uint64_t residuals = 0, again = 0, ghosts = 0, senders = 0, all = 0, empty = 0;
  for (const distributed::PartSize& part : divided.parts) {
    residuals = std::max(residuals, part.residuals);
    ghosts = std::max(ghosts, part.ghost_blocks);
    senders = std::max(senders, part.senders);
    all += part.residuals;
    again += part.again;
    empty += part.blocks == 0 ? 1 : 0;
  }
  return {{"most_residuals", residuals},
          {"evaluated_twice_share", static_cast<double>(again) / static_cast<double>(all - again)},
          {"most_ghosts", ghosts},
          {"most_messages", senders},
          {"ranks_without_blocks", empty}};
}

/// A problem with all of its divisions.
class Subject {
 public:
  Subject(const Communicator& ranks, const ScaledProblem& of, int most_ranks)
      : ranks_(ranks), of_(of), made_(make_model("check scaling", *of.problem)) {
    const runtime::Model& model = made_.model;
    x_.resize(model.scalars);
    of.problem->read_x(x_);
    chunks_ = runtime::chunks_of(model.arrays);
    graph_ = distributed::chunk_graph(model, chunks_);
    for (int count = 1; count <= most_ranks; count *= 2)
      divided_.emplace_back(count, divide(count));
  }

  const runtime::Model& model() const { return made_.model; }
  const std::vector<double>& x() const { return x_; }
  std::uint64_t chunks() const { return chunks_.size(); }

  Divided divide(int parts) const {
    const std::vector<int> rank_of_chunk =
        distributed::partition(ranks_, graph_, parts, distributed::PartitionMethod::scotch);
    return {.parts = distributed::part_sizes(model(), chunks_, rank_of_chunk, parts),
            .chunks = chunks_.size()};
  }

  ordered_json curve(const Machine& machine, bool weak, int iterations) const {
    std::vector<ScalingPoint> steps, single;
    ordered_json points = ordered_json::array();
    for (const auto& [count, strong] : divided_) {
      const Divided divided = weak ? distributed::similar(strong, count, of_.surface) : strong;
      single.push_back({count, predict_iteration(divided, machine.rates, machine.network)});
      steps.push_back({count, predict_step(divided, machine.rates, machine.network, iterations)});
      ordered_json point = {{"ranks", count},
                            {"iteration_us", kUs * single.back().time.total()},
                            {"step_us", kUs * steps.back().time.total()},
                            {"efficiency", efficiency(steps.front(), steps.back(), weak)}};
      for (std::size_t k = 0; k < distributed::kTimeParts; ++k)
        point["iteration_parts_us"][std::string(name(static_cast<distributed::TimePart>(k)))] =
            kUs * single.back().time.seconds[k];
      points.push_back(std::move(point));
    }
    const distributed::ScalingEnd end = scaling_end(steps, weak);
    return {{"machine", machine.name},      {"scaling", weak ? "weak" : "strong"},
            {"fastest_ranks", end.fastest}, {"efficient_ranks", end.efficient},
            {"limit", name(end.limit)},     {"points", std::move(points)}};
  }

  ordered_json divisions() const {
    ordered_json out = ordered_json::array();
    for (const auto& [count, divided] : divided_) {
      ordered_json row = {{"ranks", count}};
      row.update(describe(divided));
      out.push_back(std::move(row));
    }
    return out;
  }

 private:
  const Communicator& ranks_;
  const ScaledProblem& of_;
  ProblemModel made_;
  std::vector<double> x_;
  std::vector<runtime::Chunk> chunks_;
  distributed::ChunkGraph graph_;
  std::vector<std::pair<int, Divided>> divided_;
};

/// Two springs between three points on a line.
MeasuredTimes times_without_work(const Communicator& self) {
  std::vector<double> x = {0, 1, 3};
  Problem problem;
  const Parameters points = problem.add_parameters(x, 1);
  for (std::size_t k = 0; k < 2; ++k)
    problem.add_residual((points[k + 1] - points[k]) * (points[k + 1] - points[k]) - 1.0);
  for (std::size_t k = 0; k < 3; ++k) problem.add_residual(0.1 * points[k]);
  const ProblemModel made = make_model("check scaling", problem);
  return measure_times(self, made.model, x);
}

ordered_json compare(const Subject& subject, const Communicator& ranks, const Machine& here,
                     const MeasuredTimes& times, int iterations) {
  const Divided divided = subject.divide(ranks.size());
  const double predicted = predict_iteration(divided, here.rates, here.network).total();
  const double step = predict_step(divided, here.rates, here.network, iterations).total();
  const double measured_step = times.step_seconds + iterations * times.iteration_seconds;
  const double ratio = times.iteration_seconds / predicted;
  constexpr double kBound = 2;
  return {{"ranks", ranks.size()},
          {"iteration_us", kUs * times.iteration_seconds},
          {"predicted_iteration_us", kUs * predicted},
          {"step_us", kUs * measured_step},
          {"predicted_step_us", kUs * step},
          {"ratio", ratio},
          {"fitted", ranks.size() == 1},  // the rates come from this very measurement
          {"ghost_exchanges_per_iteration", times.iteration.ghosts},
          {"sums_per_iteration", times.iteration.sums},
          {"numbers_per_iteration", times.iteration.numbers},
          {"ghost_exchanges_per_step", times.step.ghosts},
          {"sums_per_step", times.step.sums},
          {"numbers_per_step", times.step.numbers},
          {"broken", ratio > kBound || ratio < 1 / kBound}};
}

}  // namespace

ordered_json Scaling::measure(std::span<const ScaledProblem> problems, int most_ranks,
                              int iterations) {
  const Communicator self(MPI_COMM_SELF);
  const Network network = measure_network(ranks_);
  ordered_json report = {
      {"ranks", ranks_.size()},
      {"iterations", iterations},
      {"network", ranks_.size() > 1 ? describe(network)
                                    : ordered_json{{"latency_us", nullptr}, {"gb_per_s", nullptr}}},
      {"assumed_network", describe(kNdr)},
      {"network_of_h100", describe(kThroughHosts)},
      {"problems", ordered_json::array()}};
  const MeasuredTimes tiny = times_without_work(self);
  for (const ScaledProblem& problem : problems) {
    const Subject subject(ranks_, problem, most_ranks);
    // All ranks measure at the same time, as they share the memory.
    const MeasuredTimes alone = measure_times(self, subject.model(), subject.x());
    const KernelRates rates = rates_of(subject.model(), subject.chunks(), alone, tiny);
    std::uint64_t residuals = 0;
    for (const runtime::Term& term : subject.model().terms) residuals += term.batch->size();
    ordered_json row = {{"problem", problem.name},
                        {"unknowns", subject.model().scalars},
                        {"residuals", residuals},
                        {"chunks", subject.chunks()},
                        {"rates",
                         {{"cpu", describe(rates)},
                          {"h200", describe(h200().at(problem.name))},
                          {"h100", describe(h100().at(problem.name))}}},
                        {"measured", ordered_json::array()},
                        {"divisions", subject.divisions()},
                        {"curves", ordered_json::array()}};
    const MeasuredTimes together =
        ranks_.size() == 1 ? alone : measure_times(ranks_, subject.model(), subject.x());
    row["measured"].push_back(
        compare(subject, ranks_, {"here", rates, network}, together, iterations));
    for (const Machine& machine :
         {Machine{"cpu", rates, kNdr}, Machine{"h200", h200().at(problem.name), kNdr},
          Machine{"h100", h100().at(problem.name), kThroughHosts}})
      for (const bool weak : {false, true})
        row["curves"].push_back(subject.curve(machine, weak, iterations));
    report["problems"].push_back(std::move(row));
  }
  return report;
}

}  // namespace topograd::command
