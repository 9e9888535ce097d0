// of the GLSL bb86cc12eb7446c1b15b67c204701dad
// and the SPIR-V module 60b02718cd6a6048f3392095432077e1, without doubles
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
var<workgroup> partial_sums_: array<vec2<f32>, 128u>;
var<workgroup> workgroup_value_: f32;
@group(0) @binding(1) var<storage, read> v_173: ScalarsBuffer_;
@group(0) @binding(4) var<storage, read_write> v_197: DecisionBuffer_;
@group(1) @binding(0) var<uniform> v_218: PushConstants_;
@group(0) @binding(2) var<storage, read> v_227: PartialsBuffer_;
@group(0) @binding(3) var<storage, read> v_375: PreconditionedBuffer_;
@group(0) @binding(0) var<storage, read_write> v_383: DirectionBuffer_;

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
  var left_62: f32;
  var right_: f32;
  var rounding_: f32;
  var errors_: f32;
  var error_: f32;
  sum_ = tg_rounded_f32(((*a_)[0u] + (*b_)[0u]));
  shift_ = tg_rounded_f32((sum_ - (*a_)[0u]));
  rest_ = tg_rounded_f32((sum_ - shift_));
  left_62 = tg_rounded_f32(((*a_)[0u] - rest_));
  right_ = tg_rounded_f32(((*b_)[0u] - shift_));
  rounding_ = tg_rounded_f32((left_62 + right_));
  errors_ = tg_rounded_f32(((*a_)[1u] + (*b_)[1u]));
  error_ = tg_rounded_f32((errors_ + rounding_));
  return vec2<f32>(sum_, error_);
}

fn workgroup_sum_(value_: ptr<function, vec2<f32>>) -> f32 {
  var self_: u32;
  var width_: u32;
  var param_126: vec2<f32>;
  var param_129: vec2<f32>;
  var total_: vec2<f32>;
  var sum_140: f32;
  var param_146: f32;
  var v_149: f32;
  self_ = gl_LocalInvocationIndex_;
  workgroupBarrier();
  let v_103 = self_;
  partial_sums_[v_103] = (*value_);
  width_ = 64u;
  loop {
    if ((width_ > 0u)) {
      workgroupBarrier();
      if ((self_ < width_)) {
        let v_122 = self_;
        let v_121 = self_;
        let v_125 = (self_ + width_);
        param_126 = partial_sums_[v_122];
        param_129 = partial_sums_[v_125];
        let v_132 = compensated_add_(&param_126, &param_129);
        partial_sums_[v_121] = v_132;
      }
    } else {
      break;
    }
    continuing {
      width_ = (width_ >> u32(1u));
    }
  }
  let v_137 = self_;
  total_ = partial_sums_[v_137];
  sum_140 = tg_rounded_f32((total_[0u] + total_[1u]));
  param_146 = sum_140;
  let v_148 = tg_is_nan_f32_(&param_146);
  if (v_148) {
    v_149 = total_[0u];
  } else {
    v_149 = sum_140;
  }
  return v_149;
}

fn workgroup_broadcast_(value_28: ptr<function, f32>) -> f32 {
  workgroupBarrier();
  if ((gl_LocalInvocationIndex_ == 0u)) {
    workgroup_value_ = (*value_28);
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
  var param_238: vec2<f32>;
  var param_251: vec2<f32>;
  var param_253: vec2<f32>;
  var rz_: f32;
  var param_258: vec2<f32>;
  var param_261: f32;
  var rr_: f32;
  var param_264: vec2<f32>;
  var param_267: f32;
  var iterations_: f32;
  var left_: f32;
  var param_296: f32;
  var param_303: f32;
  var quotient_: f32;
  var beta_: f32;
  var grid_: u32;
  var i_: u32;
  var k_365: u32;
  var p_: f32;
  var v_182: bool;
  var v_190: bool;
  var v_191: bool;
  var v_292: bool;
  var v_298: bool;
  var v_299: bool;
  var v_305: bool;
  var v_306: bool;
  state_ = v_173.scalars_[i32(24)];
  v_182 = (state_ != 0f);
  if (v_182) {
    v_190 = (gl_GlobalInvocationID_[0u] == 0u);
    v_191 = v_190;
  } else {
    v_191 = v_182;
  }
  if (v_191) {
    v_197.decision_[i32(0)] = state_;
  }
  if ((state_ != 0f)) {
    return;
  }
  rz_sum_ = vec2<f32>(0f, 0f);
  rr_sum_ = vec2<f32>(0f, 0f);
  k_ = gl_LocalInvocationIndex_;
  loop {
    if ((k_ < v_218.sums_count_)) {
      let v_232 = (v_218.sums_first_ + k_);
      let v_235 = vec2<f32>(v_227.partials_[v_232], 0f);
      param_ = rz_sum_;
      param_238 = v_235;
      let v_239 = compensated_add_(&param_, &param_238);
      rz_sum_ = v_239;
      let v_247 = ((v_218.sums_first_ + v_218.sums_stride_) + k_);
      let v_250 = vec2<f32>(v_227.partials_[v_247], 0f);
      param_251 = rr_sum_;
      param_253 = v_250;
      let v_254 = compensated_add_(&param_251, &param_253);
      rr_sum_ = v_254;
    } else {
      break;
    }
    continuing {
      k_ = (k_ + 128u);
    }
  }
  param_258 = rz_sum_;
  let v_260 = workgroup_sum_(&param_258);
  param_261 = v_260;
  let v_262 = workgroup_broadcast_(&param_261);
  rz_ = v_262;
  param_264 = rr_sum_;
  let v_266 = workgroup_sum_(&param_264);
  param_267 = v_266;
  let v_268 = workgroup_broadcast_(&param_267);
  rr_ = v_268;
  iterations_ = v_173.scalars_[i32(11)];
  left_ = select(rr_, rz_, (v_173.scalars_[i32(9)] != 0f));
  if ((left_ <= v_173.scalars_[i32(15)])) {
    state_ = 1f;
  } else {
    v_292 = (!(rz_ > 0f));
    if ((!v_292)) {
      param_296 = rz_;
      v_298 = tg_is_inf_f32_(&param_296);
      v_299 = v_298;
    } else {
      v_299 = v_292;
    }
    if ((!v_299)) {
      param_303 = rr_;
      v_305 = tg_is_nan_f32_(&param_303);
      v_306 = v_305;
    } else {
      v_306 = v_299;
    }
    if (v_306) {
      state_ = 2f;
    } else {
      if ((iterations_ >= v_173.scalars_[i32(8)])) {
        state_ = 3f;
      }
    }
  }
  if ((gl_GlobalInvocationID_[0u] == 0u)) {
    v_197.decision_[i32(0)] = state_;
    v_197.decision_[i32(13)] = rz_;
    v_197.decision_[i32(14)] = rr_;
  }
  if ((state_ != 0f)) {
    return;
  }
  quotient_ = tg_rounded_f32((rz_ / v_173.scalars_[i32(25)]));
  beta_ = select(quotient_, 0f, (iterations_ == 0f));
  grid_ = (gl_NumWorkGroups_[0u] * 128u);
  i_ = gl_GlobalInvocationID_[0u];
  loop {
    if ((i_ < v_218.count_)) {
      k_365 = (v_218.first_ + i_);
      let v_376 = k_365;
      let v_384 = k_365;
      p_ = tg_rounded_f32((v_375.preconditioned_[v_376] + tg_rounded_f32((beta_ * v_383.direction_[v_384]))));
      let v_389 = k_365;
      v_383.direction_[v_389] = p_;
    } else {
      break;
    }
    continuing {
      i_ = (i_ + grid_);
    }
  }
  return;
}
