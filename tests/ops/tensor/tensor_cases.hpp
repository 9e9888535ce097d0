// Results of tensor operations, for the CPU and for a device.
#pragma once

#include "../../../ops/backend/device.hpp"

#include <string>
#include <vector>

namespace topograd::ops::test {

void check_elementwise(const Device& device);
void check_reductions(const Device& device);
void check_matmul(const Device& device);
void check_rows(const Device& device);
void check_fft(const Device& device);
void check_conv(const Device& device);
void check_search(const Device& device);
void check_parts(const Device& device);
void check_half(const Device& device);
void check_optimizers(const Device& device);
/// Tensors of one number, which need no memory before they are read.
void check_same_numbers(const Device& device);
void check_nearest(const Device& device);
void check_nearest_runs(const Device& device);
void check_training(const Device& device);
void check_data_parallel(const Device& device);
void check_networks_of_run_time(const Device& device);
/// Traffic and launches of steps on a device.
///   timestamps  the device has them; if not, it is waited for around timed runs
void check_step_costs(const Device& device, bool timestamps);
void check_losses(const Device& device);
void check_activations(const Device& device);
/// Real and two-dimensional transforms against direct sums.
void check_transforms(const Device& device);
/// Products with small and with large tiles.
void check_product_tiles(const Device& device);
void check_nan(const Device& device);
void check_random(const Device& device);
/// Every operation with options: the forced device, and statistics.
void check_options(const Device& device);

// Operations from a table, at odd sizes and on views.
void check_rows_and_losses_of_views(const Device& device);
void check_axes_of_views(const Device& device);
void check_products_of_views(const Device& device);
void check_parts_of_views(const Device& device);
void check_transforms_of_views(const Device& device);
/// Their derivatives.
void check_activations_of_views(const Device& device);
/// The largest number of C++ numbers in an expression.
void check_many_numbers(const Device& device);
/// Products of more matrices than one launch takes, with an odd number of elements each.
void check_batches(const Device& device);

/// Derivatives by backward() on the CPU against central differences.
void check_gradients_against_differences();
/// The same derivatives on a device against the CPU's.
void check_gradients_against_cpu(const Device& device);
/// Operation, or operation and variant.
std::vector<std::string> gradient_case_names();

}  // namespace topograd::ops::test
