store_sum(0, g_squared, partials);
store_sum(1, x_squared, partials);
store_maximum(2, greatest, partials);
