// |x| 2/pi modulo 4 for finite |x| >= 2^10, as 96 bits: two before the binary point, then the
// fraction. x = M 2^e with a whole M of 24 bits; the four words of 2/pi that matter start at a bit
// that e selects, so that the product of 128 bits loses only multiples of 4.
// Source: Payne & Hanek, Radian reduction for trigonometric functions, 1983.
// needs: two_over_pi
void tg_trig_window_f32(float x, out uint window[3]) {
  uint bits = floatBitsToUint(x);
  int start = int((bits >> 23) & 0xffu) - 88;
  int first = start >> 5;
  uint shift = uint(start) & 31u;
  uint m = (bits & 0x007fffffu) | 0x00800000u;

  uint product[4];  // lowest word first
  for (int k = 0; k < 4; ++k) product[k] = 0u;
  uint carry = 0u;
  for (int at = first + 3; at >= first; --at) {
    uint high, low;
    umulExtended(m, tg_two_over_pi_f32(at), high, low);
    for (int k = 0; k < 3; ++k) product[k] = product[k + 1];
    product[3] = low + carry;
    carry = high + (product[3] < low ? 1u : 0u);
  }
  for (int i = 0; i < 3; ++i) {
    uint above = product[3 - i];
    uint below = product[2 - i];
    window[i] = shift == 0u ? above : (above << shift) | (below >> (32u - shift));
  }
}
