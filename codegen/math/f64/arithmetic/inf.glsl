// Positive infinity.
double tg_inf_f64() { return packDouble2x32(uvec2(0u, 0x7ff00000u)); }
