// Cube roots of 2 and 4.
const double tg_cbrt_2_f64 = 1.2599210498948732lf;
const double tg_cbrt_4_f64 = 1.5874010519681996lf;
