// Values of a model for callers: vectors of their sizes, without derivatives by fixed scalars.
#include "values.hpp"

#include "../../runtime/engine/engine.hpp"
#include "../../runtime/plan/passes.hpp"

#include <cstdint>
#include <span>

namespace topograd {

void mask_fixed(const runtime::Model& model, Eigen::VectorXd& gradient) {
  for (std::size_t k = 0; k < model.constant.size(); ++k) {
    if (model.constant[k]) gradient[static_cast<Eigen::Index>(k)] = 0;
  }
}

Evaluation values_of(runtime::Engine& engine, const runtime::Model& model, const Wanted& wanted) {
  Evaluation out;
  if (wanted.residuals) out.residuals.resize(static_cast<Eigen::Index>(model.rows));
  if (wanted.gradient) out.gradient.resize(static_cast<Eigen::Index>(model.scalars));
  const auto span_of = [](Eigen::VectorXd& v) {
    return std::span<double>(v.data(), static_cast<std::size_t>(v.size()));
  };
  runtime::evaluate(engine, {.cost = wanted.cost ? &out.cost : nullptr,
                             .residuals = span_of(out.residuals),
                             .gradient = span_of(out.gradient)});
  if (wanted.gradient) mask_fixed(model, out.gradient);
  return out;
}

Evaluation values_at(Engines& engines, bool follows_branches, const runtime::Model& model,
                     Numbers x, const Wanted& wanted) {
  const runtime::Pass pass =
      runtime::pass_of_values(wanted.cost, wanted.residuals, wanted.gradient);
  runtime::Engine& engine = engines.at(pass, x);
  if (follows_branches) engine.cost();
  return values_of(engine, model, wanted);
}

}  // namespace topograd
