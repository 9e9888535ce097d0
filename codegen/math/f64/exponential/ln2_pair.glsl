// ln 2 as an unevaluated sum.
const double tg_ln2_high_f64 = 0.6931471805599453lf;
const double tg_ln2_low_f64 = 2.3190468138462996e-17lf;
