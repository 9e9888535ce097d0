// 1 / ln 10 as an unevaluated sum; log10(2) as a short part and the rest.
const double tg_log10_e_high_f64 = 0.4342944819032518lf;
const double tg_log10_e_low_f64 = 1.098319650216765e-17lf;
const double tg_log10_2_short_f64 = 0.30102999566395283lf;
const double tg_log10_2_rest_f64 = 2.8363394551044964e-14lf;
