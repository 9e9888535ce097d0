// 1 / ln 2; ln 2 as a short part and the rest, so that k times the short part is exact.
const double tg_inverse_ln2_f64 = 1.4426950408889634lf;
const double tg_ln2_short_f64 = 0.6931471805598903lf;
const double tg_ln2_rest_f64 = 5.497923018708371e-14lf;
