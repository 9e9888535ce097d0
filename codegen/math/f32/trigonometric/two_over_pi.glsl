// The bits of 2/pi behind the binary point, 32 to a word, after two words of zeros: word `at`.
// Choices compile in a fraction of the time that software devices take for an array.
uint tg_two_over_pi_f32(int at) {
  uvec4 four = at < 4    ? uvec4(0x00000000u, 0x00000000u, 0xa2f9836eu, 0x4e441529u)
               : at < 8  ? uvec4(0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u)
                         : uvec4(0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x00000000u);
  bool odd = (at & 1) != 0;
  return (at & 2) == 0 ? (odd ? four.y : four.x) : (odd ? four.w : four.z);
}
