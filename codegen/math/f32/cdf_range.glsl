// Below the negative of the first the distribution rounds to 0; the other is k of its tail.
const float tg_cdf_max_f32 = 14.5f;
const float tg_cdf_tail_f32 = 2.5f;
