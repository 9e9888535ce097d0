// Below this magnitude odd functions x + O(x^3) round to x.
const float tg_small_f32 = 0.000122070312f;
