// True if the sign bit of x is set, also of -0.
bool tg_sign_bit_f32(float x) { return (floatBitsToUint(x) & 0x80000000u) != 0u; }
