// All that the library offers, but for Ceres' names, in one header.
#pragma once

#include <topograd/api/hybrid.hpp>
#include <topograd/api/topograd.hpp>
#include <topograd/ops/arrays.hpp>
#include <topograd/ops/tensors.hpp>
