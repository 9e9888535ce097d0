// All tensor headers.
#pragma once

#include "../ir/language.hpp"

#include "backend/device.hpp"
#include "nn/layers.hpp"
#include "nn/optimizer.hpp"
#include "problem_data.hpp"
#include "scope.hpp"
#include "tensor/arrays.hpp"
#include "tensor/autograd.hpp"
#include "tensor/conv/conv.hpp"
#include "tensor/fft/fft.hpp"
#include "tensor/losses/losses.hpp"
#include "tensor/losses/softmax.hpp"
#include "tensor/matmul/matmul.hpp"
#include "tensor/parts/parts.hpp"
#include "tensor/reduce.hpp"
#include "tensor/search/nearest.hpp"
#include "tensor/search/search.hpp"
#include "tensor/tensor.hpp"
#include "tensors_with_options.hpp"
