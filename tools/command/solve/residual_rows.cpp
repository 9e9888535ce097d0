// Evaluates and names rows of residuals.
#include "residual_rows.hpp"

#include "../../../solver/evaluator.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace topograd::command {
namespace {

std::string text(const std::string& label, std::uint64_t instance, std::uint64_t output,
                 bool several) {
  return "\"" + label + "\" #" + std::to_string(instance) +
         (several ? ", row " + std::to_string(output) : "");
}

std::string label_in_file(const ProblemFile& file, std::uint64_t row) {
  const auto& blocks = file.residuals;
  const auto after = std::ranges::upper_bound(blocks, row, {}, &ProblemFile::Block::first_row);
  const ProblemFile::Block& block = *(after - 1);
  const std::uint64_t local = row - block.first_row;
  const std::string number = std::to_string(after - 1 - blocks.begin());
  return text(block.label.empty() ? "residuals/" + number : block.label, local / block.rows,
              local % block.rows, block.rows > 1);
}

/// The name of a row of this process.
///
///   before  instances of the row's topology in the processes before this one
template <class Before>
std::string label_in_problem(const Problem& problem, std::uint64_t row, const Before& before) {
  const Place place = problem.locate(row);
  const bool host = place.topology == Place::kHost;
  std::string label(place.label);
  if (label.empty()) label = host ? "host" : "residual" + std::to_string(place.topology);
  return text(label, before(place) + place.instance, place.output,
              host || problem.topology(place.topology).program.outputs.size() > 1);
}

/// "HASH COUNT" of each topology, and the number of rows.
std::string counts_text(const Problem& problem) {
  std::string out = std::to_string(problem.residual_count());
  for (std::size_t t = 0; t < problem.topology_count(); ++t)
    if (!problem.is_energy(t))
      out +=
          " " + to_string(problem.topology(t).hash) + " " + std::to_string(problem.batch(t).size());
  return out;
}

/// The residuals of the processes before this one.
struct Before {
  std::uint64_t rows = 0;
  std::vector<std::pair<std::string, std::uint64_t>> instances;  // by hash of the topology

  std::uint64_t of(const Problem& problem, const Place& place) const {
    const std::string hash = to_string(problem.topology(place.topology).hash);
    std::uint64_t sum = 0;
    for (const auto& [other, count] : instances) sum += other == hash ? count : 0;
    return sum;
  }
};

Before before(const Problem& problem, const ShareGroup& shares) {
  Before out;
  const std::vector<std::string> all = shares.gather(counts_text(problem));
  for (std::uint64_t process = 0; process < shares.share().number; ++process) {
    std::istringstream words(all[process]);
    std::uint64_t rows = 0, count = 0;
    words >> rows;
    out.rows += rows;
    for (std::string hash; words >> hash >> count;) out.instances.emplace_back(hash, count);
  }
  return out;
}

std::vector<std::string> labels_of_all(const Problem& problem, std::span<const std::uint64_t> rows,
                                       const ShareGroup& shares) {
  std::string asked;
  for (const std::uint64_t row : rows) asked += std::to_string(row) + " ";
  std::istringstream wanted(shares.gather(asked).front());
  const Before earlier = before(problem, shares);
  std::string told;  // a line for each row that is here
  std::uint64_t k = 0;
  for (std::uint64_t row = 0; wanted >> row; ++k) {
    if (row < earlier.rows || row >= earlier.rows + problem.residual_count()) continue;
    const auto of = [&](const Place& place) { return earlier.of(problem, place); };
    told += std::to_string(k) + " " + label_in_problem(problem, row - earlier.rows, of) + "\n";
  }
  std::vector<std::string> out(k);
  for (const std::string& lines : shares.gather(told)) {
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line);) {
      const std::size_t space = line.find(' ');
      out[std::strtoull(line.c_str(), nullptr, 10)] = line.substr(space + 1);
    }
  }
  return out;
}

}  // namespace

std::vector<double> residual_rows(NamedProblem& named, const ShareGroup* shares) {
  std::vector<double> here;
  if (named.problem().residual_count() > 0) {
    const SolverOptions on_the_cpu{.backend = Backend::cpu, .precision = Precision::f64};
    const Eigen::VectorXd r = Evaluator(named.problem(), on_the_cpu, Losses::ignored).residuals();
    here.assign(r.begin(), r.end());
  }
  return shares == nullptr ? here : shares->gather_at_first(here);
}

std::vector<std::string> row_labels(NamedProblem& named, std::span<const std::uint64_t> rows,
                                    const ShareGroup* shares) {
  const Problem& problem = named.problem();
  const ProblemFile* const file = named.file();  // each process knows all of its rows
  if (shares != nullptr && file == nullptr) return labels_of_all(problem, rows, *shares);
  std::vector<std::string> out;
  for (const std::uint64_t row : rows)
    out.push_back(file != nullptr
                      ? label_in_file(*file, row)
                      : label_in_problem(problem, row, [](const Place&) { return 0U; }));
  return out;
}

}  // namespace topograd::command
