// Beyond these bounds exp2 is infinite or rounds to 0.
const float tg_exp2_max_f32 = 129.0f;
const float tg_exp2_min_f32 = -151.0f;
