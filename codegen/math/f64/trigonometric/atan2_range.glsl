// Below this ratio atan(r) rounds to r.
const double tg_atan2_flat_f64 = 8.673617379884035e-19lf;
