// Beyond this bound atan(x) and pi/2 - 1 / x round alike.
const float tg_atan_max_f32 = 1073741824.0f;
