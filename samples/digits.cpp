// Learns to read handwritten digits: a two-layer network on images of 8 x 8 pixels.
#include <topograd/ops/tensors.hpp>
#include <topograd/solver/interrupts.hpp>

#include "sample.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
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

// Reads rows of 64 pixels (0 to 16) and the digit; every fifth row is held out.
static void read_digits(const std::string& path, Digits& train, Digits& held_out) {
  std::ifstream file(path);
  std::string line;
  int rows = 0;
  for (; std::getline(file, line); ++rows) {
    Digits& set = rows % 5 == 0 ? held_out : train;
    std::ranges::replace(line, ',', ' ');
    std::istringstream fields(line);
    double field = 0;
    int count = 0;
    for (; fields >> field; ++count) (count < 64 ? set.images : set.labels).push_back(field);
    if (count != 65 || !fields.eof())
      throw std::runtime_error("row " + std::to_string(rows + 1) + " of " + path +
                               ": expected 65 numbers with commas between them");
  }
  if (rows < 2) throw std::runtime_error(path + ": expected two rows at least");
}

static double share_right(const nn::Layer& net, const ops::Tensor& x, const ops::Tensor& y) {
  const ops::NoGrad guard;
  return ops::mean(ops::equal(ops::argmax(net(x)), y)).item();
}

// A network of these layer widths between the 64 pixels and the 10 digits.
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
static int program(sample::Arguments& arguments) {
  const std::string path = arguments.file("samples/data/digits.csv");
  const ops::Device device = arguments.device();
  const int steps = arguments.count(200);
  std::vector<std::int64_t> widths;
  while (arguments.more()) widths.push_back(arguments.count<std::int64_t>(1));
  Digits train, held_out;
  read_digits(path, train, held_out);

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

int main(int argc, char** argv) {
  return sample::run(argc, argv, "digits [FILE.csv] [best|cpu|vulkan] [STEPS] [WIDTHS...]",
                     program);
}
