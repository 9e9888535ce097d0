// Running error bounds of programs at rows of numbers.
#include "row_answers.hpp"

#include <algorithm>

namespace topograd::runtime {

template <class T>
std::vector<Answer> find_answers(const ir::Program& program, const Rows& rows) {
  check_rows(program, rows);
  std::vector<Answer> all;
  std::vector<T> point(rows.parameters.size());
  for (std::size_t i = 0; i < rows.count; ++i) {
    for (std::size_t k = 0; k < point.size(); ++k) point[k] = static_cast<T>(rows.parameters[k][i]);
    const ir::RunningError error = ir::running_error<T>(program, {.parameters = point});
    const bool lost = std::ranges::any_of(error.nodes, [](const ir::Enclosure& e) {
      return is_tiny(static_cast<T>(e.value)) || (e.value != 0 && static_cast<T>(e.value) == 0);
    });
    for (const ir::Id output : program.outputs) {
      const ir::Enclosure& enclosure = error.nodes[output];
      all.push_back({enclosure, error.decided && enclosure.known(), lost});
    }
  }
  return all;
}

template <class T>
ir::Deviation deviation(const Answer& answer, T got) {
  if (!answer.compare) return {answer.enclosure.value, 0, true};
  const bool within = answer.enclosure.contains(got);
  const long double expected = answer.enclosure.value;
  double far = within ? 0 : std::numeric_limits<double>::infinity();
  if (std::isfinite(expected) && std::isfinite(got)) {
    far = static_cast<double>(std::fabs(got - expected) / ir::ulp<T>(expected));
  }
  return {expected, far, within};
}

template std::vector<Answer> find_answers<float>(const ir::Program&, const Rows&);
template std::vector<Answer> find_answers<double>(const ir::Program&, const Rows&);
template ir::Deviation deviation<float>(const Answer&, float);
template ir::Deviation deviation<double>(const Answer&, double);

}  // namespace topograd::runtime
