// |x| 2/pi modulo 4 for finite |x| >= 2^20, as 192 bits: two before the binary point, then the
// fraction. x = M 2^e with a whole M of 53 bits; the seven words of 2/pi that matter start at a bit
// that e selects, so that the product of 224 bits loses only multiples of 4.
// Source: Payne & Hanek, Radian reduction for trigonometric functions, 1983.
// needs: two_over_pi
void tg_trig_window_f64(double x, out uint window[6]) {
  uvec2 bits = unpackDouble2x32(x);
  int start = int((bits.y >> 20) & 0x7ffu) - 1013;
  int first = start >> 5;
  uint shift = uint(start) & 31u;
  uint m_low = bits.x;
  uint m_high = (bits.y & 0x000fffffu) | 0x00100000u;

  uint product[7];  // lowest word first
  for (int k = 0; k < 7; ++k) product[k] = 0u;
  uint carry = 0u;
  uint carry_over = 0u;
  uint previous = 0u;
  for (int at = first + 6; at >= first; --at) {
    uint word = tg_two_over_pi_f64(at);
    uint a_high, a_low, b_high, b_low;
    umulExtended(m_low, word, a_high, a_low);
    umulExtended(m_high, previous, b_high, b_low);
    uint sum = carry + a_low;
    uint total = sum + b_low;
    uint over = (sum < a_low ? 1u : 0u) + (total < b_low ? 1u : 0u);
    uint high = carry_over + a_high;
    uint higher = high + b_high;
    carry = higher + over;
    carry_over = (high < a_high ? 1u : 0u) + (higher < b_high ? 1u : 0u) + (carry < over ? 1u : 0u);
    for (int k = 0; k < 6; ++k) product[k] = product[k + 1];
    product[6] = total;
    previous = word;
  }
  for (int i = 0; i < 6; ++i) {
    uint above = product[6 - i];
    uint below = product[5 - i];
    window[i] = shift == 0u ? above : (above << shift) | (below >> (32u - shift));
  }
}
