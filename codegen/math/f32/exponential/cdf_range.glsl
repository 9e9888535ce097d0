// Below the negative of the first the distribution rounds to 0; the others are k and the value in the
// middle of its tail.
const float tg_cdf_max_f32 = 14.5f;
const float tg_cdf_tail_f32 = 1.5f;
const float tg_cdf_tail_middle_f32 = 0.617341995f;
