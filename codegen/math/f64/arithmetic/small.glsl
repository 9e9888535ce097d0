// Below this magnitude odd functions x + O(x^3) round to x.
const double tg_small_f64 = 3.725290298461914e-9lf;
