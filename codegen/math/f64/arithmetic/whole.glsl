// From this magnitude on every number is whole.
const double tg_whole_f64 = 4503599627370496.0lf;
