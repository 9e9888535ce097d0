// ln 2 as an unevaluated sum.
const float tg_ln2_high_f32 = 0.693147182f;
const float tg_ln2_low_f32 = -1.90465421e-9f;
