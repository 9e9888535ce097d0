// Beyond these bounds exp2 is infinite or rounds to 0.
const double tg_exp2_max_f64 = 1025.0lf;
const double tg_exp2_min_f64 = -1076.0lf;
