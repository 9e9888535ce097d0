// Positive infinity.
float tg_inf_f32() { return uintBitsToFloat(0x7f800000u); }
