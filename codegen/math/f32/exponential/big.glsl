// From here on sqrt(x^2 + 1) and sqrt(x^2 - 1) round to x.
const float tg_big_f32 = 8192.0f;
