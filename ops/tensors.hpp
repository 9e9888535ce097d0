// Everything about tensors in one header.
#pragma once

#include "../ir/language.hpp"

#include "device.hpp"
#include "nn/layers.hpp"
#include "nn/optimizer.hpp"
#include "problem_data.hpp"
#include "scope.hpp"
#include "tensor/arrays.hpp"
#include "tensor/autograd.hpp"
#include "tensor/conv.hpp"
#include "tensor/fft.hpp"
#include "tensor/losses.hpp"
#include "tensor/matmul.hpp"
#include "tensor/nearest.hpp"
#include "tensor/parts.hpp"
#include "tensor/reduce.hpp"
#include "tensor/search.hpp"
#include "tensor/softmax.hpp"
#include "tensor/tensor.hpp"
#include "tensors_with_options.hpp"
