// The bits of 2/pi behind the binary point, 32 to a word, after two words of zeros: word `at`.
// Choices compile in a fraction of the time that software devices take for an array.
uint tg_two_over_pi_f64(int at) {
  uvec4 four = at < 4    ? uvec4(0x00000000u, 0x00000000u, 0xa2f9836eu, 0x4e441529u)
               : at < 8  ? uvec4(0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u)
               : at < 12 ? uvec4(0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x424dd2e0u)
               : at < 16 ? uvec4(0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu)
               : at < 20 ? uvec4(0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u)
               : at < 24 ? uvec4(0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu)
               : at < 28 ? uvec4(0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu)
               : at < 32 ? uvec4(0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du)
               : at < 36 ? uvec4(0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau)
                         : uvec4(0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0x00000000u);
  bool odd = (at & 1) != 0;
  return (at & 2) == 0 ? (odd ? four.y : four.x) : (odd ? four.w : four.z);
}
