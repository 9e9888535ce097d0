// All that the library offers, but for Ceres' names, in one header.
#pragma once

#include "../ops/arrays.hpp"
#include "../ops/tensors.hpp"
#include "hybrid.hpp"
#include "topograd.hpp"
