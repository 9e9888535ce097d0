// Self-test of functions of functions.
#include "pairs.hpp"

#include "../../../ir/error.hpp"
#include "../../../solver/interrupts.hpp"

#include <algorithm>
#include <array>

namespace topograd::check {
namespace {

using runtime::Composition;

std::vector<Composition> sampled_pairs(const PairsOptions& options) {
  const std::vector<ir::Op> ops = runtime::composable_ops();
  std::vector<Composition> out;
  const std::uint64_t all = ops.size() * ops.size();
  for (std::uint64_t k = options.seed % options.every; k < all; k += options.every)
    out.push_back({ops[k / ops.size()], ops[k % ops.size()]});
  return out;
}

std::vector<Composition> drawn_triples(const PairsOptions& options) {
  const std::vector<ir::Op> ops = runtime::composable_ops();
  Random random(options.seed);
  std::vector<Composition> out(options.triples);
  for (Composition& triple : out) triple = {random.pick(ops), random.pick(ops), random.pick(ops)};
  return out;
}

void run(const Composition& composition, std::span<const Place> places, PairsReport& report) {
  bool wrong = false;
  for (const Precision precision : precisions_of(places)) {
    std::vector<runtime::RowPlace> same;
    for (const Place& place : places) {
      if (place.runner->precision() == precision)
        same.push_back({place.runner.get(), place.keeps_subnormals});
    }
    const auto found =
        runtime::check_composition(composition, runtime::composition_rows(precision), same);
    report.compared += found.compared;
    report.undecided += found.undecided;
    for (const runtime::WrongNumber& number : found.wrong) {
      report.failures.push_back({.backend = std::string(name(number.runner->backend())),
                                 .device = number.runner->device(),
                                 .precision = precision,
                                 .number = number});
      wrong = true;
    }
  }
  if (wrong) report.wrong.push_back(runtime::text(composition));
}

}  // namespace

PairsReport check_pairs(const PairsOptions& options) {
  const std::vector<Place> places = open_places(options);
  return check_pairs(options, places);
}

PairsReport check_pairs(const PairsOptions& options, std::span<const Place> places) {
  if (options.every == 0)
    throw Error(ErrorCode::InvalidArgument, "check pairs: expected every >= 1, got 0");
  PairsReport report;
  for (const Composition& pair : sampled_pairs(options)) {
    if (Interrupts::came()) break;
    run(pair, places, report);
    ++report.pairs;
  }
  for (const Composition& triple : drawn_triples(options)) {
    if (Interrupts::came()) break;
    run(triple, places, report);
    ++report.triples;
  }
  return report;
}

}  // namespace topograd::check
