// 1 / ln 2 as an unevaluated sum.
const double tg_log2_e_high_f64 = 1.4426950408889634lf;
const double tg_log2_e_low_f64 = 2.0355273740931033e-17lf;
