// Everything about arrays in one header.
#pragma once

#include <topograd/ir/language.hpp>

#include <topograd/ops/array.hpp>
#include <topograd/ops/device.hpp>
#include <topograd/ops/gather.hpp>
#include <topograd/ops/histogram.hpp>
#include <topograd/ops/map.hpp>
#include <topograd/ops/random.hpp>
#include <topograd/ops/reduce.hpp>
#include <topograd/ops/scan.hpp>
#include <topograd/ops/scope.hpp>
#include <topograd/ops/segments.hpp>
#include <topograd/ops/sort.hpp>
