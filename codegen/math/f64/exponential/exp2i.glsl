// 2 to the power of k for -1022 <= k <= 1023, exact.
double tg_exp2i_f64(int k) { return packDouble2x32(uvec2(0u, uint(k + 1023) << 20)); }
