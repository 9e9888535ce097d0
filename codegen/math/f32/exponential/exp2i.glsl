// 2 to the power of k for -126 <= k <= 127, exact.
float tg_exp2i_f32(int k) { return uintBitsToFloat(uint(k + 127) << 23); }
