// 1 / ln 10 as an unevaluated sum; log10(2) as a short part and the rest.
const float tg_log10_e_high_f32 = 0.434294492f;
const float tg_log10_e_low_f32 = -1.010305e-8f;
const float tg_log10_2_short_f32 = 0.301025391f;
const float tg_log10_2_rest_f32 = 4.60503907e-6f;
