// 2/3 as an unevaluated sum.
const float tg_two_thirds_high_f32 = 0.666666687f;
const float tg_two_thirds_low_f32 = -1.98682155e-8f;
