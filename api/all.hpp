// Includes all headers of the library except those with Ceres' names.
#pragma once

#include "../ops/arrays.hpp"
#include "../ops/tensors.hpp"
#include "hybrid.hpp"
#include "topograd.hpp"
