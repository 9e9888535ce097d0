// Fingerprints of models and options.
#include "fingerprint.hpp"

#include <bit>
#include <cstdint>
#include <cstdio>

namespace topograd::distributed {
namespace {

/// FNV-1a over words. Source: Fowler, Noll, Vo, 1991.
class Hash {
 public:
  void add(std::uint64_t word) { value_ = (value_ ^ word) * 0x100000001b3ULL; }
  void add(double number) { add(std::bit_cast<std::uint64_t>(number)); }
  std::string text() const {
    char out[20];
    std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(value_));
    return out;
  }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace

std::string fingerprint(const runtime::Model& model) {
  std::string out =
      std::to_string(model.scalars) + " scalars, " + std::to_string(model.rows) + " rows";
  Hash hash;
  for (const runtime::Term& term : model.terms) {
    out += ", " + to_string(term.topology->hash) + " x " + std::to_string(term.batch->size());
    for (std::size_t i = 0; i < term.batch->size(); ++i) {
      for (std::uint32_t c = 0; c < term.batch->index_columns(); ++c)
        hash.add(std::uint64_t{term.batch->index(i, c)});
      for (std::uint32_t c = 0; c < term.batch->data_columns(); ++c)
        hash.add(term.batch->data(i, c));
    }
  }
  for (const double u : model.uniforms) hash.add(u);
  for (const std::uint8_t c : model.constant) hash.add(std::uint64_t{c});
  for (const std::vector<double>* bounds : {&model.lower, &model.upper})
    for (const double b : *bounds) hash.add(b);
  return out + ", contents " + hash.text();
}

std::string fingerprint(const SolverOptions& options) {
  char numbers[400];
  std::snprintf(numbers, sizeof numbers, "%d iterations, %d of CG, %.17g %.17g %.17g %.17g %.17g",
                options.max_iterations, options.max_linear_iterations, options.function_tolerance,
                options.gradient_tolerance, options.parameter_tolerance, options.linear_tolerance,
                options.initial_trust_region_radius);
  return std::string(name(options.precision)) + ", " + std::string(name(options.method)) + ", " +
         std::string(name(options.linear_solver)) + ", " + numbers;
}

}  // namespace topograd::distributed
