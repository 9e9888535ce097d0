// The includes of each of these programs.
#pragma once

#include <topograd/frontend/eigen.hpp>
#include <topograd/frontend/problem.hpp>

#include <array>
#include <cmath>
#include <list>
#include <string>
#include <vector>

namespace tg = topograd;
