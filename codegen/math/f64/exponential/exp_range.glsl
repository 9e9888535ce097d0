// Beyond these bounds exp is infinite or rounds to 0.
const double tg_exp_max_f64 = 710.0lf;
const double tg_exp_min_f64 = -746.0lf;
