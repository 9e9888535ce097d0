// True for NaN, decided on the bits.
bool tg_is_nan_f32(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
