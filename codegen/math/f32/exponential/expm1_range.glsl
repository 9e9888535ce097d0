// exp(x) - 1 rounds to -1 below the first; 2^-k may be left out of sums with 1 beyond the second.
const float tg_expm1_min_f32 = -20.0f;
const int tg_scale_max_f32 = 60;
