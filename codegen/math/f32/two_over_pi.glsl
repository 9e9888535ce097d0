// The bits of 2/pi behind the binary point, 32 to a word, after two words of zeros.
const uint tg_two_over_pi_f32[11] = {
    0x00000000u, 0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
    0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u, 0xb7246e3au};
