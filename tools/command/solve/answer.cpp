// The answer of a solve: parameters, rows of residuals, standard errors, and their quantiles.
#include "answer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <span>
#include <sstream>

#include "../../../ir/error.hpp"
#include "../../../solver/covariance.hpp"
#include "../../../solver/evaluator.hpp"
#include "html_report.hpp"

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
  const Place located = problem.locate(row);
  const bool host = located.topology == Place::kHost;
  std::string label(located.label);
  if (label.empty()) label = host ? "host" : "residual" + std::to_string(located.topology);
  return text(label, before(located) + located.instance, located.output,
              host || problem.topology(located.topology).program.outputs.size() > 1);
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

  std::uint64_t of(const Problem& problem, const Place& located) const {
    const std::string hash = to_string(problem.topology(located.topology).hash);
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
  std::string lines_here;  // a line for each row that is here
  std::uint64_t k = 0;
  for (std::uint64_t row = 0; wanted >> row; ++k) {
    if (row < earlier.rows || row >= earlier.rows + problem.residual_count()) continue;
    const auto of = [&](const Place& located) { return earlier.of(problem, located); };
    lines_here +=
        std::to_string(k) + " " + label_in_problem(problem, row - earlier.rows, of) + "\n";
  }
  std::vector<std::string> out(k);
  for (const std::string& lines : shares.gather(lines_here)) {
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line);) {
      const std::size_t space = line.find(' ');
      out[std::strtoull(line.c_str(), nullptr, 10)] = line.substr(space + 1);
    }
  }
  return out;
}

constexpr double kLeast = 1e-300;
constexpr double kPrecision = 1e-15;
constexpr int kMostTerms = 20'000;

/// The continued fraction of A&S 26.5.8, from its first term on, by Lentz's method.
double beta_fraction(double x, double a, double b) {
  double numerator = 1, denominator = 1 - (a + b) * x / (a + 1);
  if (std::abs(denominator) < kLeast) denominator = kLeast;
  denominator = 1 / denominator;
  double value = denominator;
  const auto step = [&](double term) {
    denominator = 1 + term * denominator;
    if (std::abs(denominator) < kLeast) denominator = kLeast;
    denominator = 1 / denominator;
    numerator = 1 + term / numerator;
    if (std::abs(numerator) < kLeast) numerator = kLeast;
    const double factor = numerator * denominator;
    value *= factor;
    return std::abs(factor - 1);
  };
  for (int m = 1; m < kMostTerms; ++m) {
    step(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    if (step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))) < kPrecision) break;
  }
  return value;
}

/// The regularised incomplete beta function I_x(a, b).
double beta_share(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(x, a, b) / a;
  return 1 - front * beta_fraction(1 - x, b, a) / b;
}

/// The regularised incomplete gamma function P(a, x), by its power series (A&S 6.5.29).
double gamma_share(double a, double x) {
  if (x <= 0) return 0;
  double term = 1 / a, sum = term;
  for (int n = 1; n < kMostTerms && term > kPrecision * sum; ++n) {
    term *= x / (a + n);
    sum += term;
  }
  return sum * std::exp(a * std::log(x) - x - std::lgamma(a));
}

double share_below(double f, double numerator, double denominator) {
  if (std::isinf(denominator)) return gamma_share(numerator / 2, f * numerator / 2);
  const double scaled = numerator * f;
  return beta_share(scaled / (scaled + denominator), numerator / 2, denominator / 2);
}

/// The number that a variable of the F distribution does not exceed with a probability.
///
///   probability  in (0, 1)
///   numerator    degrees of freedom, > 0
///   denominator  likewise; infinity: χ² of `numerator` degrees of freedom, divided by them
///
/// Student's t of two sides is its root with one degree of freedom in the numerator. Relative error
/// below 1e-10. Source: Abramowitz & Stegun, 26.5.8 and 26.6.2.
double f_quantile(double probability, double numerator, double denominator) {
  double low = 0, high = 1;
  while (share_below(high, numerator, denominator) < probability && high < 1e300) high *= 2;
  for (int k = 0; k < 200; ++k) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (share_below(middle, numerator, denominator) < probability ? low : high) = middle;
  }
  return high;
}

constexpr std::size_t kSmallProblem = 40;  // all unknowns are shown
constexpr std::size_t kSmallArray = 12;    // all scalars of an array are shown
constexpr std::size_t kMostWorst = 5;
constexpr std::size_t kMostCurves = 4;
constexpr std::size_t kCurvePoints = 200;

std::string array_name(std::span<const ParameterArray> arrays, std::size_t number) {
  const std::string& name = arrays[number].name;
  return name.empty() ? "array" + std::to_string(number) : name;
}

std::string scalar_name(std::span<const ParameterArray> arrays, std::size_t number,
                        std::size_t scalar) {
  const ParameterArray& array = arrays[number];
  std::string name = array_name(arrays, number);
  if (array.blocks > 1) name += "[" + std::to_string(scalar / array.width) + "]";
  if (array.width > 1) name += "[" + std::to_string(scalar % array.width) + "]";
  return name;
}

/// Note about scalar `at` of x; empty if it is free.
std::string note_of(const Problem& problem, std::size_t at, double value) {
  const auto constants = problem.constant_mask();
  if (!constants.empty() && constants[at] != 0) return "constant";
  const auto lower = problem.lower_bounds(), upper = problem.upper_bounds();
  if (!lower.empty() && value <= lower[at]) return "at its lower bound";
  if (!upper.empty() && value >= upper[at]) return "at its upper bound";
  return "";
}

ArrayExtremes extremes_of(const ParameterArray& array, const std::string& name, std::uint32_t k) {
  ArrayExtremes out{.name = name + (array.width == 1 ? "" : "[.][" + std::to_string(k) + "]"),
                    .blocks = array.blocks,
                    .smallest = array.values[k],
                    .largest = array.values[k]};
  for (std::size_t b = 1; b < array.blocks; ++b) {
    const double value = array.values[b * array.width + k];
    if (value < out.smallest) out.smallest = value, out.smallest_block = b;
    if (value > out.largest) out.largest = value, out.largest_block = b;
  }
  return out;
}

void add_unknowns(const Problem& problem, Answer& answer) {
  const std::span<const ParameterArray> arrays = problem.arrays();
  const bool small = problem.parameter_count() <= kSmallProblem;
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    const ParameterArray& array = arrays[a];
    if (array.values == nullptr) continue;  // gap of a removed array
    const std::size_t scalars = std::size_t{array.blocks} * array.width;
    if (small || scalars <= kSmallArray) {
      for (std::size_t k = 0; k < scalars; ++k)
        answer.unknowns.push_back({.name = scalar_name(arrays, a, k),
                                   .value = array.values[k],
                                   .error = {},
                                   .note = note_of(problem, array.offset + k, array.values[k])});
    } else {
      for (std::uint32_t k = 0; k < array.width; ++k)
        answer.extremes.push_back(extremes_of(array, array_name(arrays, a), k));
    }
  }
}

SolverOptions on_the_cpu() { return {.backend = Backend::cpu, .precision = Precision::f64}; }

ResidualStatistics statistics_of(NamedProblem& named, const Summary& summary,
                                 const ShareGroup* shares) {
  const std::vector<double> rows = residual_rows(named, shares);
  const Eigen::Map<const Eigen::VectorXd> r(rows.data(), static_cast<Eigen::Index>(rows.size()));
  ResidualStatistics out{.rows = static_cast<std::uint64_t>(r.size()),
                         .left_out = summary.left_out,
                         .degrees_of_freedom = summary.degrees_of_freedom()};
  const auto counted = static_cast<double>(out.rows - out.left_out);
  if (counted > 0) out.rmse = std::sqrt(r.squaredNorm() / counted);
  if (out.degrees_of_freedom > 0 && summary.energies == 0)
    out.reduced_chi2 = 2 * summary.final_cost / static_cast<double>(out.degrees_of_freedom);
  std::vector<Eigen::Index> order(static_cast<std::size_t>(r.size()));
  std::iota(order.begin(), order.end(), Eigen::Index{0});
  const auto most = static_cast<std::ptrdiff_t>(std::min(kMostWorst, order.size()));
  std::ranges::partial_sort(order, order.begin() + most, [&](Eigen::Index a, Eigen::Index b) {
    const double left = std::abs(r[a]), right = std::abs(r[b]);
    return left > right || (left == right && a < b);
  });
  std::vector<std::uint64_t> worst;
  for (std::ptrdiff_t k = 0; k < most && r[order[static_cast<std::size_t>(k)]] != 0; ++k)
    worst.push_back(static_cast<std::uint64_t>(order[static_cast<std::size_t>(k)]));
  const std::vector<std::string> labels = row_labels(named, worst, shares);
  for (std::size_t k = 0; k < worst.size(); ++k) out.worst.push_back({labels[k], rows[worst[k]]});
  return out;
}

/// The blocks with a free scalar, and the free scalars by index in the blocks' covariance.
struct FreeScalars {
  std::vector<ParameterBlock> blocks;
  std::vector<std::size_t> positions;
  std::vector<std::string> names;
  // The same of blocks that the residuals do not determine.
  std::vector<ParameterBlock> undetermined_blocks;
  std::vector<std::string> undetermined;
};

/// Adds one block, whose scalars follow `before` others in the covariance of determined blocks;
/// returns how many it adds to these.
std::size_t add_block(const Problem& problem, const Covariance& covariance, std::size_t array,
                      std::size_t number, std::size_t before, FreeScalars& out) {
  const std::span<const ParameterArray> arrays = problem.arrays();
  const auto constants = problem.constant_mask();
  const std::size_t width = arrays[array].width, first = number * width;
  std::vector<std::size_t> free;
  for (std::size_t k = 0; k < width; ++k)
    if (constants.empty() || constants[arrays[array].offset + first + k] == 0) free.push_back(k);
  if (free.empty()) return 0;
  const ParameterBlock block = problem.parameters(array).block(number);
  const bool determined = covariance.determines(block);
  (determined ? out.blocks : out.undetermined_blocks).push_back(block);
  for (const std::size_t k : free) {
    (determined ? out.names : out.undetermined).push_back(scalar_name(arrays, array, first + k));
    if (determined) out.positions.push_back(before + k);
  }
  return determined ? width : 0;
}

FreeScalars free_scalars(const Problem& problem, const Covariance& covariance) {
  FreeScalars out;
  const std::span<const ParameterArray> arrays = problem.arrays();
  std::size_t before = 0;
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    if (arrays[a].values == nullptr) continue;
    for (std::size_t b = 0; b < arrays[a].blocks; ++b)
      before += add_block(problem, covariance, a, b, before, out);
  }
  return out;
}

void add_confidence(const ResidualStatistics& residuals, std::size_t rank, Uncertainty& out) {
  const double freedom = out.scaled ? static_cast<double>(residuals.degrees_of_freedom)
                                    : std::numeric_limits<double>::infinity();
  const double wide = std::sqrt(f_quantile(kConfidence, 1, freedom));
  for (const double error : out.errors) out.half_intervals.push_back(wide * error);
  out.dimension = rank;
  const auto dimension = static_cast<double>(rank);
  if (rank > 0) out.region = dimension * f_quantile(kConfidence, dimension, freedom);
}

Uncertainty uncertainty_of(Problem& problem, const ResidualStatistics& residuals) {
  const std::optional<double>& reduced_chi2 = residuals.reduced_chi2;
  Uncertainty out;
  out.scaled = reduced_chi2.has_value();
  try {
    const Covariance covariance(problem, {.solver = on_the_cpu()});
    const FreeScalars free = free_scalars(problem, covariance);
    // If none is determined, this is the error that says so.
    const Eigen::MatrixXd C =
        covariance.matrix(free.blocks.empty() ? free.undetermined_blocks : free.blocks);
    const auto at = [&](std::size_t i, std::size_t j) {
      return C(static_cast<Eigen::Index>(free.positions[i]),
               static_cast<Eigen::Index>(free.positions[j]));
    };
    out.names = free.names;
    out.undetermined = free.undetermined;
    for (std::size_t i = 0; i < free.names.size(); ++i) {
      out.errors.push_back(std::sqrt(std::max(at(i, i), 0.0) * reduced_chi2.value_or(1)));
      for (std::size_t j = 0; j < free.names.size(); ++j) {
        const double scale = std::sqrt(std::max(at(i, i) * at(j, j), 0.0));
        out.correlation.push_back(i == j ? 1 : scale > 0 ? at(i, j) / scale : 0);
      }
    }
    const bool partial = !free.undetermined.empty() && problem.constraint_count() == 0;
    add_confidence(residuals,
                   partial ? static_cast<std::size_t>(covariance.tangent_matrix(free.blocks).rows())
                           : covariance.rank(),
                   out);
  } catch (const Error& error) {
    out = {.failure = error.what()};
  }
  return out;
}

Answer::FittedCurve fitted(const Curve& curve) {
  Answer::FittedCurve out{.label = curve.label,
                          .x_name = curve.x_name,
                          .y_name = curve.y_name,
                          .x = curve.x,
                          .y = curve.y,
                          .left_out = std::vector<bool>(curve.x.size()),
                          .fit_x = {},
                          .fit_y = {}};
  for (const std::size_t instance : curve.left_out) out.left_out[instance] = true;
  const auto [low, high] = std::ranges::minmax(curve.x);
  for (std::size_t k = 0; k <= kCurvePoints; ++k)
    out.fit_x.push_back(low + (high - low) * static_cast<double>(k) / kCurvePoints);
  out.fit_y = curve.fit(out.fit_x);
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

void check_covariance(const std::string& name, const Problem& problem) {
  if (problem.energy_count() > 0)
    throw Error(ErrorCode::Unsupported, name + ": --covariance expects residuals, got energies");
  if (problem.parameter_count() > kMostCovariances)
    throw Error(ErrorCode::InvalidArgument,
                name + ": --covariance expects at most " + std::to_string(kMostCovariances) +
                    " unknowns, got " + std::to_string(problem.parameter_count()));
}

Answer find_answer(NamedProblem& named, const Summary& summary, bool covariance,
                   const ShareGroup* shares) {
  Answer answer;
  Problem& problem = named.problem();
  add_unknowns(problem, answer);
  if (summary.residuals > 0) answer.residuals = statistics_of(named, summary, shares);
  if (covariance && answer.residuals) {
    answer.uncertainty = uncertainty_of(problem, *answer.residuals);
    const Uncertainty& found = *answer.uncertainty;
    for (UnknownValue& unknown : answer.unknowns) {
      const auto at = std::ranges::find(found.names, unknown.name);
      if (at != found.names.end())
        unknown.error = found.errors[static_cast<std::size_t>(at - found.names.begin())];
      else if (unknown.note.empty() &&
               std::ranges::find(found.undetermined, unknown.name) != found.undetermined.end())
        unknown.note = "not determined by the residuals";
    }
  }
  answer.first_line = named.first_line();
  answer.lines = named.answer_lines();
  if (const ProblemFile* file = named.file()) answer.title = file->title;
  const std::span<const Curve> curves = named.curves();
  for (const Curve& curve : curves.first(std::min(curves.size(), kMostCurves)))
    answer.curves.push_back(fitted(curve));
  return answer;
}

namespace {

constexpr std::size_t kMostColumns = 8;  // of a matrix of correlations; for more columns
constexpr std::size_t kMostPairs = 10;   // the strongest pairs are shown

// snprintf to a string; all uses have literal formats.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* text, ...) {
  std::va_list arguments;
  va_start(arguments, text);
  std::va_list again;
  va_copy(again, arguments);
  std::string out(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, text, arguments)), '\0');
  std::vsnprintf(out.data(), out.size() + 1, text, again);
  va_end(again);
  va_end(arguments);
  return out;
}

std::string summary_row(const char* label, const std::string& value) {
  return formatted("%-14s %s\n", label, value.c_str());
}

std::size_t longest_name(const Answer& answer) {
  std::size_t longest = 0;
  for (const UnknownValue& u : answer.unknowns) longest = std::max(longest, u.name.size());
  for (const ArrayExtremes& e : answer.extremes) longest = std::max(longest, e.name.size());
  return longest;
}

std::string parameter_part(const Answer& answer) {
  const int width = static_cast<int>(longest_name(answer));
  std::string out = "Parameters";
  if (answer.uncertainty && answer.uncertainty->failure.empty())
    out += answer.uncertainty->scaled
               ? " (value, standard error for residuals of equal, unknown variance)"
               : " (value, standard error for residuals of variance 1)";
  out += "\n";
  for (const UnknownValue& u : answer.unknowns) {
    out += formatted("  %-*s  %18.10g", width, u.name.c_str(), u.value);
    if (u.error) out += formatted("  %14.6g", *u.error);
    if (!u.note.empty()) out += "  " + u.note;
    out += "\n";
  }
  for (const ArrayExtremes& e : answer.extremes) {
    out += formatted("  %-*s  %18.10g (block %zu) to %.10g (block %zu), %zu blocks\n", width,
                     e.name.c_str(), e.smallest, e.smallest_block, e.largest, e.largest_block,
                     e.blocks);
  }
  return out;
}

struct Pair {
  std::size_t a, b;
};

std::vector<Pair> strongest_pairs(const Uncertainty& u) {
  const std::size_t n = u.names.size();
  std::vector<Pair> pairs;
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < a; ++b) pairs.push_back({a, b});
  const auto strength = [&](const Pair& p) { return -std::abs(u.correlation[p.a * n + p.b]); };
  const std::size_t most = std::min(kMostPairs, pairs.size());
  std::ranges::partial_sort(pairs, pairs.begin() + static_cast<std::ptrdiff_t>(most), {}, strength);
  pairs.resize(most);
  return pairs;
}

std::string correlation_part(const Answer& answer) {
  if (!answer.uncertainty) return "";
  const Uncertainty& u = *answer.uncertainty;
  if (!u.failure.empty()) return "No standard errors: " + u.failure + "\n\n";
  const std::size_t n = u.names.size();
  if (n < 2) return "";
  if (n > kMostColumns) {
    std::string out = "Strongest correlations\n";
    for (const Pair& p : strongest_pairs(u))
      out += formatted("  %8.5f  %s, %s\n", u.correlation[p.a * n + p.b], u.names[p.b].c_str(),
                       u.names[p.a].c_str());
    return out + "\n";
  }
  int width = 8;
  for (const std::string& name : u.names) width = std::max(width, static_cast<int>(name.size()));
  std::string out = "Correlations\n" + std::string(static_cast<std::size_t>(width) + 2, ' ');
  for (const std::string& name : u.names) out += formatted("  %*s", width, name.c_str());
  out += "\n";
  for (std::size_t a = 0; a < n; ++a) {
    out += formatted("  %-*s", width, u.names[a].c_str());
    for (std::size_t b = 0; b <= a; ++b)
      out += formatted("  %*.5f", width, u.correlation[a * n + b]);
    out += "\n";
  }
  return out + "\n";
}

/// Intervals of the unknowns that are shown with a standard error.
std::string confidence_part(const Answer& answer) {
  if (!answer.uncertainty || !answer.uncertainty->failure.empty()) return "";
  const Uncertainty& u = *answer.uncertainty;
  const int width = static_cast<int>(longest_name(answer));
  std::string out = formatted("Confidence intervals, %g %%\n", 100 * kConfidence);
  std::size_t shown = 0;
  for (const UnknownValue& one : answer.unknowns) {
    const auto at = std::ranges::find(u.names, one.name);
    if (at == u.names.end()) continue;
    const double half = u.half_intervals[static_cast<std::size_t>(at - u.names.begin())];
    out += formatted("  %-*s  %18.10g  to %.10g\n", width, one.name.c_str(), one.value - half,
                     one.value + half);
    ++shown;
  }
  if (shown == 0) return "";
  return out + formatted("  all together: (x - x*)' C^-1 (x - x*) <= %.6g, dimension %zu\n\n",
                         u.region, u.dimension);
}

std::string residual_part(const ResidualStatistics& r) {
  std::string out = "Residuals\n  " + std::to_string(r.rows) + " rows";
  if (r.left_out > 0) out += ", " + std::to_string(r.left_out) + " of them with weight 0";
  out += ", RMSE " + short_number(r.rmse, 6);
  if (r.reduced_chi2)
    out += ", reduced chi^2 " + short_number(*r.reduced_chi2, 6) + " (" +
           std::to_string(r.degrees_of_freedom) + " degrees of freedom)";
  out += "\n";
  for (const ResidualStatistics::Worst& w : r.worst)
    out += formatted("  %14.6g  %s\n", w.value, w.label.c_str());
  return out + "\n";
}

std::string solve_part(const Summary& s) {
  const std::string rejected = s.num_unsuccessful_steps == 0
                                   ? ""
                                   : ", " + std::to_string(s.num_unsuccessful_steps) + " rejected";
  std::string out = summary_row("Cost", short_number(s.final_cost, 10) + ", from " +
                                            short_number(s.initial_cost, 10)) +
                    summary_row("Steps", std::to_string(s.num_iterations()) + rejected + " (" +
                                             std::string(name(s.method)) + ", " +
                                             std::string(linear_solver_name(s)) + ", " +
                                             std::string(codegen::name(s.precision)) + ")") +
                    summary_row("Backend", s.backend + ", " + s.device) + "  why: " + s.why + "\n";
  if (!s.method_note.empty()) out += "  method: " + s.method_note + "\n";
  for (const std::string& name : s.unread_names) out += "Nothing reads " + name + ": unchanged\n";
  if (s.unread_blocks.size() > s.unread_names.size())
    out += "  and " + std::to_string(s.unread_blocks.size() - s.unread_names.size()) +
           " more that nothing reads\n";
  if (s.cross_check.compared > 0)
    out +=
        summary_row("Cross-check", std::to_string(s.cross_check.compared) + " outputs compared, " +
                                       std::to_string(s.cross_check.differences) + " differences");
  return out + summary_row("Time", short_number(s.times.total_seconds, 4) + " s") +
         summary_row("Termination", std::string(name(s.termination)) + " (" + s.message + ")");
}

}  // namespace

std::string report(const Answer& answer, const Summary& summary) {
  std::string out = answer.first_line.empty() ? "" : answer.first_line + "\n\n";
  if (!answer.title.empty()) out += answer.title + "\n\n";
  out += parameter_part(answer) + "\n" + confidence_part(answer) + correlation_part(answer);
  if (answer.residuals) out += residual_part(*answer.residuals);
  for (const std::string& line : answer.lines) out += line + "\n";
  if (!answer.lines.empty()) out += "\n";
  return out + solve_part(summary);
}

void describe(const Answer& answer, nlohmann::ordered_json& report) {
  if (answer.residuals) {
    const ResidualStatistics& r = *answer.residuals;
    nlohmann::ordered_json& statistics = report["residual_statistics"];
    statistics = {{"rows", r.rows},
                  {"left_out", r.left_out},
                  {"rmse", r.rmse},
                  {"degrees_of_freedom", r.degrees_of_freedom}};
    statistics["reduced_chi2"] =
        r.reduced_chi2 ? nlohmann::ordered_json(*r.reduced_chi2) : nlohmann::ordered_json();
    report["worst_residuals"] = nlohmann::ordered_json::array();
    for (const ResidualStatistics::Worst& w : r.worst)
      report["worst_residuals"].push_back({{"residual", w.label}, {"value", w.value}});
  }
  if (!answer.uncertainty) return;
  const Uncertainty& u = *answer.uncertainty;
  nlohmann::ordered_json& covariance = report["covariance"];
  covariance = nlohmann::ordered_json::object();
  if (!u.failure.empty()) {
    covariance["failure"] = u.failure;
    return;
  }
  covariance["scaled_by_reduced_chi2"] = u.scaled;
  covariance["parameters"] = u.names;
  if (!u.undetermined.empty()) covariance["undetermined"] = u.undetermined;
  covariance["standard_errors"] = u.errors;
  covariance["confidence_level"] = kConfidence;
  covariance["confidence_half_widths"] = u.half_intervals;
  covariance["confidence_region"] = {{"bound", u.region}, {"dimension", u.dimension}};
  nlohmann::ordered_json& rows = covariance["correlations"] = nlohmann::ordered_json::array();
  for (std::size_t a = 0; a < u.names.size(); ++a) {
    const auto begin = u.correlation.begin() + static_cast<std::ptrdiff_t>(a * u.names.size());
    rows.push_back(std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(u.names.size())));
  }
}

}  // namespace topograd::command
