// Everything about tensors in one header.
#pragma once

#include <topograd/ir/language.hpp>

#include <topograd/ops/device.hpp>
#include <topograd/ops/nn/layers.hpp>
#include <topograd/ops/nn/optimizer.hpp>
#include <topograd/ops/problem_data.hpp>
#include <topograd/ops/scope.hpp>
#include <topograd/ops/tensor/arrays.hpp>
#include <topograd/ops/tensor/autograd.hpp>
#include <topograd/ops/tensor/conv.hpp>
#include <topograd/ops/tensor/fft.hpp>
#include <topograd/ops/tensor/losses.hpp>
#include <topograd/ops/tensor/matmul.hpp>
#include <topograd/ops/tensor/nearest.hpp>
#include <topograd/ops/tensor/parts.hpp>
#include <topograd/ops/tensor/reduce.hpp>
#include <topograd/ops/tensor/search.hpp>
#include <topograd/ops/tensor/softmax.hpp>
#include <topograd/ops/tensor/tensor.hpp>
#include <topograd/ops/tensor/with_options.hpp>
