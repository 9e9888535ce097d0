// Everything about arrays in one header.
#pragma once

#include "../ir/language.hpp"

#include "array.hpp"
#include "device.hpp"
#include "gather.hpp"
#include "histogram.hpp"
#include "map.hpp"
#include "random.hpp"
#include "reduce.hpp"
#include "scan.hpp"
#include "scope.hpp"
#include "segments.hpp"
#include "sort.hpp"
