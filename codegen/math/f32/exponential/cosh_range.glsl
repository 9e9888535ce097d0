// Beyond this bound sinh and cosh are infinite.
const float tg_cosh_max_f32 = 90.0f;
