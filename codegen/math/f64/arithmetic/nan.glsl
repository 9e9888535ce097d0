// A quiet NaN.
double tg_nan_f64() { return packDouble2x32(uvec2(0u, 0x7ff80000u)); }
