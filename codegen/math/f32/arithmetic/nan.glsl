// A quiet NaN.
float tg_nan_f32() { return uintBitsToFloat(0x7fc00000u); }
