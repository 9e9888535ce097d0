// 1 / ln 2; ln 2 as a short part and the rest, so that k times the short part is exact.
const float tg_inverse_ln2_f32 = 1.44269502f;
const float tg_ln2_short_f32 = 0.693145752f;
const float tg_ln2_rest_f32 = 1.42860677e-6f;
