// Beyond these bounds exp is infinite or rounds to 0.
const float tg_exp_max_f32 = 89.0f;
const float tg_exp_min_f32 = -104.0f;
