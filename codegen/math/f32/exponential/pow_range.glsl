// x to a power of greater magnitude is 0, 1 or infinite.
const float tg_pow_max_f32 = 4294967296.0f;
