// erf rounds to 1 from here on.
const float tg_erf_max_f32 = 4.0f;
