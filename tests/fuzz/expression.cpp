// Expressions as text: their formulas read back with the same meaning.
#include "target.hpp"

#include "../../api/expression/expression.hpp"
#include "../../ir/evaluate.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace topograd::fuzz {
namespace {

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const bool nans = std::isnan(a[k]) && std::isnan(b[k]);
    if (!nans && std::bit_cast<std::uint64_t>(a[k]) != std::bit_cast<std::uint64_t>(b[k]))
      return false;
  }
  return true;
}

std::vector<double> values(const ir::Program& program) {
  static constexpr double kParameters[] = {0.5, -1.25, 3, 0};
  static constexpr double kData[] = {2, 1e-3};
  static constexpr double kUniforms[] = {-0.75};
  return ir::evaluate<double>(program, {.parameters = kParameters,
                                        .data = kData,
                                        .uniforms = kUniforms,
                                        .tangents = {},
                                        .seeds = {}});
}

}  // namespace

void expression(std::string_view text) {
  const ExpressionNames names = {
      .parameters = {"a[0]", "a[1]", "a[2]", "b"}, .data = {"d", "length"}, .uniforms = {"weight"}};
  ir::Program program;
  if (!reads([&] { program = parse(text, names); }, {ErrorCode::Parse})) return;
  const ir::Program again = parse(formulas(program, names).text(), names);
  require(same(values(program), values(again)), "formulas of another meaning");
}

}  // namespace topograd::fuzz
