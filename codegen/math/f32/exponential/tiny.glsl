// Below this magnitude expm1(x) and log1p(x) round to x.
const float tg_tiny_f32 = 2.98023224e-8f;
