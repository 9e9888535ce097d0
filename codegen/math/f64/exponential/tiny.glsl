// Below this magnitude expm1(x) and log1p(x) round to x.
const double tg_tiny_f64 = 5.551115123125783e-17lf;
