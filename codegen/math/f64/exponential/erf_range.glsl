// erf rounds to 1 from here on.
const double tg_erf_max_f64 = 6.0lf;
