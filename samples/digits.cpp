// Learns to read handwritten digits: a network of two layers on images of 8 x 8.
#include <topograd/ops/tensors.hpp>
#include <topograd/solver/interrupts.hpp>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace ops = topograd::ops;
namespace nn = topograd::ops::nn;

struct Digits {
  std::vector<double> images, labels;

  ops::Tensor pixels() const {
    return ops::tensor(images, {static_cast<std::int64_t>(labels.size()), 64}) / 16.0;
  }
  ops::Tensor classes() const {
    return ops::tensor(labels, {static_cast<std::int64_t>(labels.size())});
  }
};

// Rows of 64 pixels (0 to 16) and the digit; every fifth row is held out.
static bool read_digits(const std::string& path, Digits& train, Digits& held_out) {
  std::ifstream file(path);
  std::string line;
  for (int row = 0; std::getline(file, line); ++row) {
    Digits& set = row % 5 == 0 ? held_out : train;
    std::istringstream fields(line);
    std::string field;
    for (int k = 0; std::getline(fields, field, ','); ++k)
      (k < 64 ? set.images : set.labels).push_back(std::stod(field));
  }
  return !train.labels.empty();
}

static double share_right(const nn::Layer& net, const ops::Tensor& x, const ops::Tensor& y) {
  const ops::NoGrad guard;
  return ops::mean(ops::equal(ops::argmax(net(x)), y)).item();
}

// Layers of these widths between the 64 pixels and the 10 digits.
static nn::Sequential network_of(const std::vector<std::int64_t>& widths) {
  nn::Sequential net;
  std::int64_t inputs = 64;
  for (const std::int64_t width : widths) {
    net.add(nn::Dense(inputs, width)).add(ops::relu);
    inputs = width;
  }
  return net.add(nn::Dense(inputs, 10));
}

// digits FILE [best|cpu|vulkan] [steps] [widths of layers...]
int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : "samples/data/digits.csv";
  const std::string where = argc > 2 ? argv[2] : "best";
  const int steps = argc > 3 ? std::atoi(argv[3]) : 200;
  std::vector<std::int64_t> widths;
  for (int k = 4; k < argc; ++k) widths.push_back(std::atoll(argv[k]));
  Digits train, held_out;
  if (!read_digits(path, train, held_out)) {
    std::cerr << "digits: no rows in " << path << "\n";
    return 2;
  }
  const ops::Device device = where == "cpu"      ? ops::Device::cpu()
                             : where == "vulkan" ? ops::Device::vulkan()
                                                 : ops::Device::best();

  const ops::Tensor x = train.pixels().to(device), y = train.classes().to(device);
  nn::Sequential net{nn::Dense(64, 128), ops::relu, nn::Dense(128, 10)};
  if (!widths.empty()) net = network_of(widths);
  net.to(device);
  nn::Adam adam(net.parameters(), {.rate = 0.01});
  const topograd::Interrupts interrupts;  // Ctrl-C ends the training
  for (int step = 0; step < steps && !interrupts.came(); ++step) {
    const ops::Tensor loss = ops::cross_entropy(net(x), y);
    adam.zero_grad();
    loss.backward();
    adam.step();
    if (step % 50 == 0) std::cout << "step " << step << "  loss " << loss.item() << "\n";
  }

  const double right =
      share_right(net, held_out.pixels().to(device), held_out.classes().to(device));
  std::cout << "on " << device.name() << ": " << 100 * right << " % of " << held_out.labels.size()
            << " held-out digits are right\n";
  return right >= 0.97 ? 0 : 1;
}
