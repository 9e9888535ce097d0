// atan(1) and atan(1/2) as unevaluated sums.
const float tg_atan_1_high_f32 = 0.785398185f;
const float tg_atan_1_low_f32 = -2.18556941e-8f;
const float tg_atan_half_high_f32 = 0.463647604f;
const float tg_atan_half_low_f32 = 5.01215869e-9f;
