// exp(x) - 1 rounds to -1 below the first; 2^-k may be left out of sums with 1 beyond the second.
const double tg_expm1_min_f64 = -40.0lf;
const int tg_scale_max_f64 = 100;
