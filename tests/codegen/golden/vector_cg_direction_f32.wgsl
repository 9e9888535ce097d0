// of the GLSL 873b68d8950895659c7ed446ccfbd091
// and the SPIR-V module e86f6ac94482dcba7dbc3f20f71384b5, without doubles
struct ScalarsBuffer_ {
  scalars_: array<f32>,
}
struct DecisionBuffer_ {
  decision_: array<f32>,
}
struct PushConstants_ {
  count_: u32,
  first_: u32,
  sums_first_: u32,
  sums_count_: u32,
  sums_stride_: u32,
}
struct PartialsBuffer_ {
  partials_: array<f32>,
}
struct PreconditionedBuffer_ {
  preconditioned_: array<f32>,
}
struct DirectionBuffer_ {
  direction_: array<f32>,
}

var<private> tg_zero: u32;
var<private> gl_LocalInvocationIndex_: u32;
var<workgroup> partial_totals_: array<vec2<f32>, 256u>;
@group(0) @binding(1) var<storage, read> v_189: ScalarsBuffer_;
@group(0) @binding(4) var<storage, read_write> v_211: DecisionBuffer_;
@group(1) @binding(0) var<uniform> v_225: PushConstants_;
@group(0) @binding(2) var<storage, read> v_236: PartialsBuffer_;
@group(0) @binding(3) var<storage, read> v_416: PreconditionedBuffer_;
@group(0) @binding(0) var<storage, read_write> v_424: DirectionBuffer_;

fn tg_rounded_f32(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ u32(tg_zero));
}

fn tg_is_inf_f32_(x_: ptr<function, f32>) -> bool {
  return ((bitcast<u32>((*x_)) & 2147483647u) == 2139095040u);
}

fn tg_is_nan_f32_(x_13: ptr<function, f32>) -> bool {
  return ((bitcast<u32>((*x_13)) & 2147483647u) > 2139095040u);
}

fn compensated_add_(a_: ptr<function, vec2<f32>>, b_: ptr<function, vec2<f32>>) -> vec2<f32> {
  var sum_: f32;
  var shift_: f32;
  var rest_: f32;
  var left_63: f32;
  var right_: f32;
  var rounding_: f32;
  var errors_: f32;
  var error_: f32;
  sum_ = tg_rounded_f32(((*a_)[0u] + (*b_)[0u]));
  shift_ = tg_rounded_f32((sum_ - (*a_)[0u]));
  rest_ = tg_rounded_f32((sum_ - shift_));
  left_63 = tg_rounded_f32(((*a_)[0u] - rest_));
  right_ = tg_rounded_f32(((*b_)[0u] - shift_));
  rounding_ = tg_rounded_f32((left_63 + right_));
  errors_ = tg_rounded_f32(((*a_)[1u] + (*b_)[1u]));
  error_ = tg_rounded_f32((errors_ + rounding_));
  return vec2<f32>(sum_, error_);
}

fn workgroup_totals_(total_0_: ptr<function, vec2<f32>>, total_1_: ptr<function, vec2<f32>>) {
  var self_: u32;
  var width_: u32;
  var at_: u32;
  var v_132: u32;
  var sum_142: vec2<f32>;
  var param_147: vec2<f32>;
  var param_150: vec2<f32>;
  self_ = gl_LocalInvocationIndex_;
  workgroupBarrier();
  let v_104 = self_;
  partial_totals_[v_104] = (*total_0_);
  let v_110 = (self_ + 128u);
  partial_totals_[v_110] = (*total_1_);
  width_ = 64u;
  loop {
    if ((width_ > 0u)) {
      workgroupBarrier();
      if ((self_ < (2u * width_))) {
        if ((self_ < width_)) {
          v_132 = self_;
        } else {
          v_132 = ((self_ - width_) + 128u);
        }
        at_ = v_132;
        let v_143 = at_;
        let v_146 = (at_ + width_);
        param_147 = partial_totals_[v_143];
        param_150 = partial_totals_[v_146];
        let v_153 = compensated_add_(&param_147, &param_150);
        sum_142 = v_153;
        let v_154 = at_;
        partial_totals_[v_154] = sum_142;
      }
    } else {
      break;
    }
    continuing {
      width_ = (width_ >> u32(1u));
    }
  }
  workgroupBarrier();
  (*total_0_) = partial_totals_[i32(0)];
  (*total_1_) = partial_totals_[i32(128)];
  return;
}

fn pair_float_(sum_29: ptr<function, vec2<f32>>) -> f32 {
  var value_: f32;
  var param_172: f32;
  var v_175: f32;
  value_ = tg_rounded_f32(((*sum_29)[0u] + (*sum_29)[1u]));
  param_172 = value_;
  let v_174 = tg_is_nan_f32_(&param_172);
  if (v_174) {
    v_175 = (*sum_29)[0u];
  } else {
    v_175 = value_;
  }
  return v_175;
}

@compute @workgroup_size(128, 1, 1)
fn main(@builtin(local_invocation_index) gl_LocalInvocationIndex_in: u32, @builtin(global_invocation_id) gl_GlobalInvocationID_: vec3<u32>, @builtin(num_workgroups) gl_NumWorkGroups_: vec3<u32>) {
  tg_zero = gl_NumWorkGroups_[0] >> 16u;
  gl_LocalInvocationIndex_ = gl_LocalInvocationIndex_in;
  var state_: f32;
  var rz_pair_: vec2<f32>;
  var rr_pair_: vec2<f32>;
  var k_: u32;
  var param_: vec2<f32>;
  var param_277: vec2<f32>;
  var param_289: vec2<f32>;
  var param_291: vec2<f32>;
  var param_295: vec2<f32>;
  var param_297: vec2<f32>;
  var rz_: f32;
  var param_303: vec2<f32>;
  var rr_: f32;
  var param_307: vec2<f32>;
  var iterations_: f32;
  var left_: f32;
  var param_337: f32;
  var param_344: f32;
  var quotient_: f32;
  var beta_: f32;
  var grid_: u32;
  var i_: u32;
  var k_406: u32;
  var p_: f32;
  var v_196: bool;
  var v_204: bool;
  var v_205: bool;
  var v_333: bool;
  var v_339: bool;
  var v_340: bool;
  var v_346: bool;
  var v_347: bool;
  state_ = v_189.scalars_[i32(24)];
  v_196 = (state_ != 0f);
  if (v_196) {
    v_204 = (gl_GlobalInvocationID_[0u] == 0u);
    v_205 = v_204;
  } else {
    v_205 = v_196;
  }
  if (v_205) {
    v_211.decision_[i32(0)] = state_;
  }
  if ((state_ != 0f)) {
    return;
  }
  rz_pair_ = vec2<f32>(0f, 0f);
  rr_pair_ = vec2<f32>(0f, 0f);
  if ((gl_LocalInvocationIndex_ < v_225.sums_count_)) {
    let v_241 = (v_225.sums_first_ + gl_LocalInvocationIndex_);
    rz_pair_ = vec2<f32>(v_236.partials_[v_241], 0f);
    let v_252 = ((v_225.sums_first_ + v_225.sums_stride_) + gl_LocalInvocationIndex_);
    rr_pair_ = vec2<f32>(v_236.partials_[v_252], 0f);
  }
  k_ = (gl_LocalInvocationIndex_ + 128u);
  loop {
    if ((k_ < v_225.sums_count_)) {
      let v_271 = (v_225.sums_first_ + k_);
      let v_274 = vec2<f32>(v_236.partials_[v_271], 0f);
      param_ = rz_pair_;
      param_277 = v_274;
      let v_278 = compensated_add_(&param_, &param_277);
      rz_pair_ = v_278;
      let v_285 = ((v_225.sums_first_ + v_225.sums_stride_) + k_);
      let v_288 = vec2<f32>(v_236.partials_[v_285], 0f);
      param_289 = rr_pair_;
      param_291 = v_288;
      let v_292 = compensated_add_(&param_289, &param_291);
      rr_pair_ = v_292;
    } else {
      break;
    }
    continuing {
      k_ = (k_ + 128u);
    }
  }
  param_295 = rz_pair_;
  param_297 = rr_pair_;
  workgroup_totals_(&param_295, &param_297);
  rz_pair_ = param_295;
  rr_pair_ = param_297;
  param_303 = rz_pair_;
  let v_305 = pair_float_(&param_303);
  rz_ = v_305;
  param_307 = rr_pair_;
  let v_309 = pair_float_(&param_307);
  rr_ = v_309;
  iterations_ = v_189.scalars_[i32(11)];
  left_ = select(rr_, rz_, (v_189.scalars_[i32(9)] != 0f));
  if ((left_ <= v_189.scalars_[i32(15)])) {
    state_ = 1f;
  } else {
    v_333 = (!(rz_ > 0f));
    if ((!v_333)) {
      param_337 = rz_;
      v_339 = tg_is_inf_f32_(&param_337);
      v_340 = v_339;
    } else {
      v_340 = v_333;
    }
    if ((!v_340)) {
      param_344 = rr_;
      v_346 = tg_is_nan_f32_(&param_344);
      v_347 = v_346;
    } else {
      v_347 = v_340;
    }
    if (v_347) {
      state_ = 2f;
    } else {
      if ((iterations_ >= v_189.scalars_[i32(8)])) {
        state_ = 3f;
      }
    }
  }
  if ((gl_GlobalInvocationID_[0u] == 0u)) {
    v_211.decision_[i32(0)] = state_;
    v_211.decision_[i32(13)] = rz_;
    v_211.decision_[i32(14)] = rr_;
  }
  if ((state_ != 0f)) {
    return;
  }
  quotient_ = tg_rounded_f32((rz_ / v_189.scalars_[i32(25)]));
  beta_ = select(quotient_, 0f, (iterations_ == 0f));
  grid_ = (gl_NumWorkGroups_[0u] * 128u);
  i_ = gl_GlobalInvocationID_[0u];
  loop {
    if ((i_ < v_225.count_)) {
      k_406 = (v_225.first_ + i_);
      let v_417 = k_406;
      let v_425 = k_406;
      p_ = tg_rounded_f32((v_416.preconditioned_[v_417] + tg_rounded_f32((beta_ * v_424.direction_[v_425]))));
      let v_430 = k_406;
      v_424.direction_[v_430] = p_;
    } else {
      break;
    }
    continuing {
      i_ = (i_ + grid_);
    }
  }
  return;
}
