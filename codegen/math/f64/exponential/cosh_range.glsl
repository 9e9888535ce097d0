// Beyond this bound sinh and cosh are infinite.
const double tg_cosh_max_f64 = 711.0lf;
