// tanh rounds to 1 and sinh to exp / 2 from here on.
const double tg_tanh_max_f64 = 22.0lf;
