// 2 / sqrt(pi), the slope of erf at 0, and a magnitude below which it is all that is left and the
// terms of a longer form could be subnormal.
const float tg_erf_slope_f32 = 1.12837917f;
const float tg_erf_linear_f32 = 7.88860905e-31f;
