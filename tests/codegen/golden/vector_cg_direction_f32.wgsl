// of the GLSL be3ec33d50171bae997380c0d1715246
// and the SPIR-V module 597acc6fe7dc8ec111ba86cf96426fe1, without doubles
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
var<workgroup> partial_pairs_: array<vec2<f32>, 128u>;
var<workgroup> workgroup_value_: f32;
@group(0) @binding(1) var<storage, read> v_188: ScalarsBuffer_;
@group(0) @binding(4) var<storage, read_write> v_212: DecisionBuffer_;
@group(1) @binding(0) var<uniform> v_233: PushConstants_;
@group(0) @binding(2) var<storage, read> v_242: PartialsBuffer_;
@group(0) @binding(3) var<storage, read> v_390: PreconditionedBuffer_;
@group(0) @binding(0) var<storage, read_write> v_398: DirectionBuffer_;

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
  var left_69: f32;
  var right_: f32;
  var rounding_: f32;
  var errors_: f32;
  var error_: f32;
  sum_ = tg_rounded_f32(((*a_)[0u] + (*b_)[0u]));
  shift_ = tg_rounded_f32((sum_ - (*a_)[0u]));
  rest_ = tg_rounded_f32((sum_ - shift_));
  left_69 = tg_rounded_f32(((*a_)[0u] - rest_));
  right_ = tg_rounded_f32(((*b_)[0u] - shift_));
  rounding_ = tg_rounded_f32((left_69 + right_));
  errors_ = tg_rounded_f32(((*a_)[1u] + (*b_)[1u]));
  error_ = tg_rounded_f32((errors_ + rounding_));
  return vec2<f32>(sum_, error_);
}

fn workgroup_pair_(value_: ptr<function, vec2<f32>>) -> vec2<f32> {
  var self_: u32;
  var width_: u32;
  var param_133: vec2<f32>;
  var param_136: vec2<f32>;
  self_ = gl_LocalInvocationIndex_;
  workgroupBarrier();
  let v_110 = self_;
  partial_pairs_[v_110] = (*value_);
  width_ = 64u;
  loop {
    if ((width_ > 0u)) {
      workgroupBarrier();
      if ((self_ < width_)) {
        let v_129 = self_;
        let v_128 = self_;
        let v_132 = (self_ + width_);
        param_133 = partial_pairs_[v_129];
        param_136 = partial_pairs_[v_132];
        let v_139 = compensated_add_(&param_133, &param_136);
        partial_pairs_[v_128] = v_139;
      }
    } else {
      break;
    }
    continuing {
      width_ = (width_ >> u32(1u));
    }
  }
  let v_143 = self_;
  return partial_pairs_[v_143];
}

fn pair_float_(sum_28: ptr<function, vec2<f32>>) -> f32 {
  var value_148: f32;
  var param_154: f32;
  var v_157: f32;
  value_148 = tg_rounded_f32(((*sum_28)[0u] + (*sum_28)[1u]));
  param_154 = value_148;
  let v_156 = tg_is_nan_f32_(&param_154);
  if (v_156) {
    v_157 = (*sum_28)[0u];
  } else {
    v_157 = value_148;
  }
  return v_157;
}

fn workgroup_sum_(value_31: ptr<function, vec2<f32>>) -> f32 {
  var param_167: vec2<f32>;
  var param_170: vec2<f32>;
  param_167 = (*value_31);
  let v_169 = workgroup_pair_(&param_167);
  param_170 = v_169;
  let v_171 = pair_float_(&param_170);
  return v_171;
}

fn workgroup_broadcast_(value_35: ptr<function, f32>) -> f32 {
  workgroupBarrier();
  if ((gl_LocalInvocationIndex_ == 0u)) {
    workgroup_value_ = (*value_35);
  }
  workgroupBarrier();
  return workgroup_value_;
}

@compute @workgroup_size(128, 1, 1)
fn main(@builtin(local_invocation_index) gl_LocalInvocationIndex_in: u32, @builtin(global_invocation_id) gl_GlobalInvocationID_: vec3<u32>, @builtin(num_workgroups) gl_NumWorkGroups_: vec3<u32>) {
  tg_zero = gl_NumWorkGroups_[0] >> 16u;
  gl_LocalInvocationIndex_ = gl_LocalInvocationIndex_in;
  var state_: f32;
  var rz_sum_: vec2<f32>;
  var rr_sum_: vec2<f32>;
  var k_: u32;
  var param_: vec2<f32>;
  var param_253: vec2<f32>;
  var param_266: vec2<f32>;
  var param_268: vec2<f32>;
  var rz_: f32;
  var param_273: vec2<f32>;
  var param_276: f32;
  var rr_: f32;
  var param_279: vec2<f32>;
  var param_282: f32;
  var iterations_: f32;
  var left_: f32;
  var param_311: f32;
  var param_318: f32;
  var quotient_: f32;
  var beta_: f32;
  var grid_: u32;
  var i_: u32;
  var k_380: u32;
  var p_: f32;
  var v_197: bool;
  var v_205: bool;
  var v_206: bool;
  var v_307: bool;
  var v_313: bool;
  var v_314: bool;
  var v_320: bool;
  var v_321: bool;
  state_ = v_188.scalars_[i32(24)];
  v_197 = (state_ != 0f);
  if (v_197) {
    v_205 = (gl_GlobalInvocationID_[0u] == 0u);
    v_206 = v_205;
  } else {
    v_206 = v_197;
  }
  if (v_206) {
    v_212.decision_[i32(0)] = state_;
  }
  if ((state_ != 0f)) {
    return;
  }
  rz_sum_ = vec2<f32>(0f, 0f);
  rr_sum_ = vec2<f32>(0f, 0f);
  k_ = gl_LocalInvocationIndex_;
  loop {
    if ((k_ < v_233.sums_count_)) {
      let v_247 = (v_233.sums_first_ + k_);
      let v_250 = vec2<f32>(v_242.partials_[v_247], 0f);
      param_ = rz_sum_;
      param_253 = v_250;
      let v_254 = compensated_add_(&param_, &param_253);
      rz_sum_ = v_254;
      let v_262 = ((v_233.sums_first_ + v_233.sums_stride_) + k_);
      let v_265 = vec2<f32>(v_242.partials_[v_262], 0f);
      param_266 = rr_sum_;
      param_268 = v_265;
      let v_269 = compensated_add_(&param_266, &param_268);
      rr_sum_ = v_269;
    } else {
      break;
    }
    continuing {
      k_ = (k_ + 128u);
    }
  }
  param_273 = rz_sum_;
  let v_275 = workgroup_sum_(&param_273);
  param_276 = v_275;
  let v_277 = workgroup_broadcast_(&param_276);
  rz_ = v_277;
  param_279 = rr_sum_;
  let v_281 = workgroup_sum_(&param_279);
  param_282 = v_281;
  let v_283 = workgroup_broadcast_(&param_282);
  rr_ = v_283;
  iterations_ = v_188.scalars_[i32(11)];
  left_ = select(rr_, rz_, (v_188.scalars_[i32(9)] != 0f));
  if ((left_ <= v_188.scalars_[i32(15)])) {
    state_ = 1f;
  } else {
    v_307 = (!(rz_ > 0f));
    if ((!v_307)) {
      param_311 = rz_;
      v_313 = tg_is_inf_f32_(&param_311);
      v_314 = v_313;
    } else {
      v_314 = v_307;
    }
    if ((!v_314)) {
      param_318 = rr_;
      v_320 = tg_is_nan_f32_(&param_318);
      v_321 = v_320;
    } else {
      v_321 = v_314;
    }
    if (v_321) {
      state_ = 2f;
    } else {
      if ((iterations_ >= v_188.scalars_[i32(8)])) {
        state_ = 3f;
      }
    }
  }
  if ((gl_GlobalInvocationID_[0u] == 0u)) {
    v_212.decision_[i32(0)] = state_;
    v_212.decision_[i32(13)] = rz_;
    v_212.decision_[i32(14)] = rr_;
  }
  if ((state_ != 0f)) {
    return;
  }
  quotient_ = tg_rounded_f32((rz_ / v_188.scalars_[i32(25)]));
  beta_ = select(quotient_, 0f, (iterations_ == 0f));
  grid_ = (gl_NumWorkGroups_[0u] * 128u);
  i_ = gl_GlobalInvocationID_[0u];
  loop {
    if ((i_ < v_233.count_)) {
      k_380 = (v_233.first_ + i_);
      let v_391 = k_380;
      let v_399 = k_380;
      p_ = tg_rounded_f32((v_390.preconditioned_[v_391] + tg_rounded_f32((beta_ * v_398.direction_[v_399]))));
      let v_404 = k_380;
      v_398.direction_[v_404] = p_;
    } else {
      break;
    }
    continuing {
      i_ = (i_ + grid_);
    }
  }
  return;
}
