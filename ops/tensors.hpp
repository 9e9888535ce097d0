// All tensor headers.
#pragma once

#include "../ir/language.hpp"

#include "backend/device.hpp"
#include "nn/data_parallel.hpp"
#include "nn/layers.hpp"
#include "nn/optimizer.hpp"
#include "problem_data.hpp"
#include "scope.hpp"
#include "tensor/arrays.hpp"
#include "tensor/autograd.hpp"
#include "tensor/operations.hpp"
#include "tensor/search/nearest.hpp"
#include "tensor/tensor.hpp"
