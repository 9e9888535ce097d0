// atan(1) and atan(1/2) as unevaluated sums.
const double tg_atan_1_high_f64 = 0.7853981633974483lf;
const double tg_atan_1_low_f64 = 3.061616997868383e-17lf;
const double tg_atan_half_high_f64 = 0.4636476090008061lf;
const double tg_atan_half_low_f64 = 2.2698777452961687e-17lf;
