// Bits of quotient that the remainder gets from one division.
const int tg_mod_bits_f32 = 19;
