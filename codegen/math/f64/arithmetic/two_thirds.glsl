// 2/3 as an unevaluated sum.
const double tg_two_thirds_high_f64 = 0.6666666666666666lf;
const double tg_two_thirds_low_f64 = 3.700743415417188e-17lf;
