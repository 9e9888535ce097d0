// Evaluations whose results the host waits for.
#include "point_vectors.hpp"

#include <string>

namespace topograd::runtime::vulkan {

void PointVectors::residuals(std::span<double> out) {
  rows_.read(Pass::residual, terms_.operands(v_.x), out);
}

void PointVectors::jvp(std::span<const double> p, std::span<double> out) {
  problem_.write(v_.direction, p);
  rows_.read(Pass::jvp, terms_.operands(v_.x, &v_.direction), out);
}

void PointVectors::product(Pass pass, std::span<const double> p, std::span<double> out) {
  problem_.write(v_.direction, p);
  sum(pass, out);
}

void PointVectors::sum(Pass pass, std::span<double> out) {
  sums_.use(pass);
  recorder_.evaluate(std::string(name(pass)), [&](CommandList& list) {
    sums_.record(list, pass, terms_.operands(v_.x, &v_.direction), v_.result);
    readback_->record(context_, list, v_.result);
  });
  problem_.read(*readback_, recorder_.last(), v_.result, out);
}

}  // namespace topograd::runtime::vulkan
