// x to a power of greater magnitude is 0, 1 or infinite.
const double tg_pow_max_f64 = 36893488147419103232.0lf;
