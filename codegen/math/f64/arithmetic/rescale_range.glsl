// Thresholds and factors that keep squares and quotients away from overflow and underflow:
// 2^500, 2^-500, 2^600, 2^-600.
const double tg_rescale_above_f64 = 3.273390607896142e150lf;
const double tg_rescale_below_f64 = 3.054936363499605e-151lf;
const double tg_rescale_up_f64 = 4.149515568880993e180lf;
const double tg_rescale_down_f64 = 2.409919865102884e-181lf;
