// A fraction of 96 bits, highest word first and at most 32 of them zeros in front, as an
// unevaluated sum of two numbers of 24 bits.
// needs: pair_scale exp2i
vec2 tg_fraction_pair_f32(uint high, uint middle, uint low) {
  int exponent = 0;
  if (high == 0u) {
    high = middle;
    middle = low;
    low = 0u;
    exponent -= 32;
  }
  uint zeros = uint(31 - findMSB(high));
  if (zeros > 0u) {
    high = (high << zeros) | (middle >> (32u - zeros));
    middle = (middle << zeros) | (low >> (32u - zeros));
    exponent -= int(zeros);
  }
  precise float head = float(high >> 8) * 5.96046448e-8f;
  precise float rest = float(((high & 0xffu) << 16) | (middle >> 16)) * 3.55271368e-15f;
  return tg_pair_scale_f32(vec2(head, rest), tg_exp2i_f32(exponent));
}
