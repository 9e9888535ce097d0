store_sum(0, g_squared, partials);
store_sum(1, x_squared, partials);
store_sum(2, step_squared, partials);
store_maximum(3, greatest, partials);
