// True if the sign bit of x is set, also of -0.
bool tg_sign_bit_f64(double x) { return (unpackDouble2x32(x).y & 0x80000000u) != 0u; }
