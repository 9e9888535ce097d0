// 2 / sqrt(pi), the slope of erf at 0, and a magnitude below which it is all that is left and the
// terms of a longer form could be subnormal.
const double tg_erf_slope_f64 = 1.1283791670955126lf;
const double tg_erf_linear_f64 = 1.1830521861667747e-271lf;
