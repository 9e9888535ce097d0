// 2/pi; pi/2 as three short parts and the rest, so that n times a short part is exact; the range.
const double tg_inverse_half_pi_f64 = 0.6366197723675814lf;
const double tg_half_pi_1_f64 = 1.5707963267341256lf;
const double tg_half_pi_2_f64 = 6.077100506303966e-11lf;
const double tg_half_pi_3_f64 = 2.0222662487111665e-21lf;
const double tg_half_pi_4_f64 = 8.4784276603689e-32lf;
const double tg_trig_near_f64 = 1048576.0lf;
