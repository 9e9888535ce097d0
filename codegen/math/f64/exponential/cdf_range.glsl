// Below the negative of the first the distribution rounds to 0; the others are k and
// f(0) of its tail.
const double tg_cdf_max_f64 = 38.6lf;
const double tg_cdf_tail_f64 = 4.625lf;
const double tg_cdf_tail_middle_f64 = 0.7648792113800259lf;
