// Below this ratio atan(r) rounds to r.
const float tg_atan2_flat_f32 = 9.31322575e-10f;
