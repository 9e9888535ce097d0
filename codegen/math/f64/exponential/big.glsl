// From here on sqrt(x^2 + 1) and sqrt(x^2 - 1) round to x.
const double tg_big_f64 = 268435456.0lf;
