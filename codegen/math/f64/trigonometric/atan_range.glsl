// Beyond this bound atan(x) and pi/2 - 1 / x round alike.
const double tg_atan_max_f64 = 1152921504606846976.0lf;
