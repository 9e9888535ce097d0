// Thresholds and factors that keep squares and quotients away from overflow and underflow:
// 2^40, 2^-40, 2^100, 2^-84.
const float tg_rescale_above_f32 = 1099511627776.0f;
const float tg_rescale_below_f32 = 9.09494702e-13f;
const float tg_rescale_up_f32 = 1.2676506e+30f;
const float tg_rescale_down_f32 = 5.16987883e-26f;
