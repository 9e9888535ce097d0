// A fraction of 160 bits, highest word first and at most 64 of them zeros in front, as an
// unevaluated sum.
// needs: fast_two_sum pair_scale exp2i
dvec2 tg_fraction_pair_f64(uint fraction[5]) {
  int exponent = 0;
  for (int i = 0; i < 2; ++i) {
    if (fraction[0] == 0u) {
      for (int k = 0; k < 4; ++k) fraction[k] = fraction[k + 1];
      fraction[4] = 0u;
      exponent -= 32;
    }
  }
  uint zeros = uint(31 - findMSB(fraction[0]));
  if (zeros > 0u) {
    for (int i = 0; i < 3; ++i) {
      fraction[i] = (fraction[i] << zeros) | (fraction[i + 1] >> (32u - zeros));
    }
    exponent -= int(zeros);
  }
  precise double high = double(fraction[0]) * 2.3283064365386963e-10lf;
  precise double middle = double(fraction[1]) * 5.421010862427522e-20lf;
  precise double low = double(fraction[2]) * 1.262177448353619e-29lf;
  dvec2 sum = tg_fast_two_sum_f64(high, middle);
  precise double rest = sum.y + low;
  return tg_pair_scale_f64(dvec2(sum.x, rest), tg_exp2i_f64(exponent));
}
