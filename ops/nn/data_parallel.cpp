// Division of batches over devices, and the sum of derivatives.
#include "data_parallel.hpp"

#include "../../ir/error.hpp"
#include "../tensor/autograd.hpp"
#include "../tensor/state.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace topograd::ops::nn {
namespace {

void check_alike(const std::vector<Tensor>& first, const std::vector<Tensor>& other) {
  const bool alike = std::ranges::equal(first, other, [](const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && a.type() == b.type();
  });
  if (!alike)
    throw Error(ErrorCode::Shape,
                "data_parallel: expected networks with parameters of equal shapes and types");
}

std::int64_t rows_of(const Tensor& inputs, const Tensor& targets) {
  const Shape& x = detail::state_of("data_parallel", inputs).shape;
  const Shape& y = detail::state_of("data_parallel", targets).shape;
  if (x.empty() || y.empty() || x[0] == 0 || x[0] != y[0]) {
    throw Error(ErrorCode::Shape,
                "data_parallel: expected inputs and targets of as many rows, at least one, got " +
                    to_text(x) + " and " + to_text(y));
  }
  return x[0];
}

void copy(const std::vector<Tensor>& from, const std::vector<Tensor>& to, const Device& device) {
  for (std::size_t k = 0; k < from.size(); ++k) to[k].assign(from[k].detach().to(device));
}

}  // namespace

DataParallel::DataParallel(const std::function<Layer()>& make, std::vector<Device> devices)
    : devices_(std::move(devices)) {
  if (devices_.empty())
    throw Error(ErrorCode::InvalidArgument, "data_parallel: expected at least one device");
  for (const Device& device : devices_) {
    networks_.push_back(make());
    check_alike(parameters(), networks_.back().parameters());
    networks_.back().to(device);
  }
}

Tensor DataParallel::backward(const Tensor& inputs, const Tensor& targets, const Loss& loss) const {
  const std::int64_t rows = rows_of(inputs, targets);
  const auto count = static_cast<std::int64_t>(devices_.size());
  std::vector<Tensor> losses(devices_.size());
  // The first device is last, so that the others work meanwhile if it is the CPU.
  for (std::int64_t k = count; k-- > 0;) {
    const std::int64_t begin = rows * k / count, end = rows * (k + 1) / count;
    if (begin == end) continue;
    const auto at = static_cast<std::size_t>(k);
    const Device& device = devices_[at];
    const Layer& network = networks_[at];
    if (k > 0) {
      copy(parameters(), network.parameters(), device);
      for (const Tensor& parameter : network.parameters()) parameter.zero_grad();
    }
    const double share = static_cast<double>(end - begin) / static_cast<double>(rows);
    const Tensor x = inputs.slice(0, begin, end).to(device);
    const Tensor part = loss(network(x), targets.slice(0, begin, end).to(device)) * share;
    part.backward();
    losses[at] = part.detach();
  }
  const NoGrad guard;
  Tensor sum;
  for (std::size_t k = 0; k < devices_.size(); ++k) {
    if (!losses[k]) continue;
    const Tensor here = losses[k].to(devices_.front());
    sum = sum ? sum + here : here;
    if (k == 0) continue;
    const std::vector<Tensor>& own = networks_[k].parameters();
    for (std::size_t i = 0; i < own.size(); ++i)
      parameters()[i].backward(own[i].grad().to(devices_.front()));
  }
  return sum;
}

}  // namespace topograd::ops::nn
