// 1 / ln 2 as an unevaluated sum.
const float tg_log2_e_high_f32 = 1.44269502f;
const float tg_log2_e_low_f32 = 1.92596303e-8f;
