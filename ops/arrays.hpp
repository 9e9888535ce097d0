// All array headers.
#pragma once

#include "../ir/language.hpp"

#include "array/array.hpp"
#include "array/gather.hpp"
#include "array/map.hpp"
#include "array/random.hpp"
#include "array/reduce/histogram.hpp"
#include "array/reduce/reduce.hpp"
#include "array/reduce/scan.hpp"
#include "array/reduce/segments.hpp"
#include "array/sort/sort.hpp"
#include "backend/device.hpp"
#include "scope.hpp"
