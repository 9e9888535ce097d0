// of the GLSL f1f22f0d053f0a38150cf6062049511e
// and the SPIR-V module afaa429df265fa1b53d0e9d7cd5cf6a5, without doubles
struct PushConstants_ {
  count_: u32,
  first_: u32,
  stride_: u32,
  out_stride_: u32,
  out_first_: u32,
  x_first_: u32,
  overwrite_: u32,
  zero_bits_: u32,
}
struct IndexColumnsBuffer_ {
  index_columns_: array<u32>,
}
struct XBuffer_ {
  x_: array<vec2<u32>>,
}
struct DataColumnsBuffer_ {
  data_columns_: array<vec2<u32>>,
}
struct ResultsBuffer_ {
  results_: array<vec2<u32>>,
}
struct v_537 {
  m0: u32,
  m1: u32,
}

@group(1) @binding(0) var<uniform> v_18: PushConstants_;
@group(0) @binding(1) var<storage, read> v_38: IndexColumnsBuffer_;
@group(0) @binding(0) var<storage, read> v_57: XBuffer_;
@group(0) @binding(2) var<storage, read> v_92: DataColumnsBuffer_;
@group(0) @binding(3) var<storage, read_write> v_147: ResultsBuffer_;

fn tg_mul_extended_v_537(a: u32, b: u32) -> v_537 {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let low = al * bl;
  let middle = ah * bl + (low >> 16u);
  let other = al * bh + (middle & 0xffffu);
  return v_537(a * b, ah * bh + (middle >> 16u) + (other >> 16u));
}

fn v_162(v_166: vec2<u32>, v_167: vec2<u32>) -> vec2<u32> {
  var v_169: vec2<u32>;
  var v_171: i32;
  var v_172: i32;
  let v_173 = v_174(v_166);
  let v_175 = v_174(v_167);
  let v_176 = v_177(v_173, v_175);
  let v_178 = v_179(v_176, v_167, v_166);
  let v_180 = v_174(v_178);
  let v_181 = v_179(v_176, v_166, v_167);
  let v_182 = v_174(v_181);
  let v_186 = ((v_166[1] ^ v_167[1]) >= 2147483648u);
  let v_188 = v_189(v_180, &v_171);
  let v_190 = v_171;
  let v_191 = v_192(v_188, 9u);
  v_169 = v_191;
  let v_194 = v_189(v_182, &v_172);
  let v_195 = v_172;
  let v_196 = v_192(v_194, 9u);
  let v_199 = v_200(v_196, bitcast<u32>((v_190 - v_195)));
  let v_201 = v_202(vec2<u32>(0u, 0u), v_199);
  let v_205 = v_169;
  let v_206 = v_179(v_186, v_201, v_199);
  let v_207 = v_208(v_205, v_206);
  v_169 = v_207;
  let v_214 = ((v_169[0] | v_169[1]) == 0u);
  let v_216 = v_217(v_169);
  let v_221 = min((bitcast<i32>(v_216) - i32(1)), v_190);
  let v_224 = v_192(v_169, bitcast<u32>(v_221));
  v_169 = v_224;
  let v_228 = v_229((v_214 && v_186), 0u, (v_178[1] & 2147483648u));
  let v_231 = v_232(v_214, i32(0), (v_190 - v_221));
  let v_235 = v_236(v_228, v_231, v_169);
  let v_238 = (v_180[1] >= 2146435072u);
  let v_242 = (v_186 && (v_182[1] == 2146435072u));
  let v_243 = v_244(v_180);
  let v_246 = v_179((v_243 || v_242), vec2<u32>(0u, 2146959360u), v_178);
  let v_249 = v_179(v_238, v_246, v_235);
  return v_249;
}

fn v_229(v_251: bool, v_252: u32, v_253: u32) -> u32 {
  return select(v_253, v_252, v_251);
}

fn v_232(v_257: bool, v_258: i32, v_259: i32) -> i32 {
  return select(v_259, v_258, v_257);
}

fn v_179(v_263: bool, v_264: vec2<u32>, v_265: vec2<u32>) -> vec2<u32> {
  let v_269 = v_229(v_263, v_264[0], v_265[0]);
  let v_272 = v_229(v_263, v_264[1], v_265[1]);
  return vec2<u32>(v_269, v_272);
}

fn v_208(v_274: vec2<u32>, v_275: vec2<u32>) -> vec2<u32> {
  let v_277 = v_274[0];
  let v_279 = (v_277 + v_275[0]);
  let v_283 = (v_274[1] + v_275[1]);
  let v_284 = v_229((v_279 < v_277), 1u, 0u);
  return vec2<u32>(v_279, (v_283 + v_284));
}

fn v_202(v_288: vec2<u32>, v_289: vec2<u32>) -> vec2<u32> {
  let v_291 = v_288[0];
  let v_292 = v_289[0];
  let v_294 = (v_291 - v_292);
  let v_297 = (v_288[1] - v_289[1]);
  let v_298 = v_229((v_291 < v_292), 1u, 0u);
  return vec2<u32>(v_294, (v_297 - v_298));
}

fn v_177(v_302: vec2<u32>, v_303: vec2<u32>) -> bool {
  let v_305 = v_302[1];
  let v_306 = v_303[1];
  return ((v_305 < v_306) || ((v_305 == v_306) && (v_302[0] < v_303[0])));
}

fn v_192(v_315: vec2<u32>, v_316: u32) -> vec2<u32> {
  let v_318 = (v_316 & 31u);
  let v_320 = v_315[0];
  let v_321 = (v_320 << u32(v_318));
  let v_328 = (v_316 < 32u);
  let v_327 = ((v_315[1] << u32(v_318)) | ((v_320 >> u32(1u)) >> u32((31u - v_318))));
  let v_330 = v_229(v_328, v_321, 0u);
  let v_331 = v_229(v_328, v_327, v_321);
  return vec2<u32>(v_330, v_331);
}

fn v_200(v_333: vec2<u32>, v_334: u32) -> vec2<u32> {
  let v_336 = min(v_334, 63u);
  let v_338 = (v_336 & 31u);
  let v_340 = ((1u << u32(v_338)) - 1u);
  let v_341 = v_333[0];
  let v_343 = v_333[1];
  let v_348 = (v_343 >> u32(v_338));
  let v_349 = (v_336 < 32u);
  let v_347 = ((v_341 >> u32(v_338)) | ((v_343 << u32(1u)) << u32((31u - v_338))));
  let v_353 = v_229(v_349, (v_341 & v_340), (v_341 | (v_343 & v_340)));
  let v_354 = (v_353 != 0u);
  let v_355 = v_229(v_349, v_347, v_348);
  let v_356 = v_229(v_354, 1u, 0u);
  let v_357 = (v_355 | v_356);
  let v_358 = v_229(v_349, v_348, 0u);
  return vec2<u32>(v_357, v_358);
}

fn v_217(v_361: vec2<u32>) -> u32 {
  let v_363 = v_361[1];
  let v_364 = (v_363 != 0u);
  let v_365 = v_229(v_364, 31u, 63u);
  let v_367 = v_229(v_364, v_363, v_361[0]);
  return (v_365 - bitcast<u32>(bitcast<i32>(firstLeadingBit(v_367))));
}

fn v_174(v_372: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(v_372[0], (v_372[1] & 2147483647u));
}

fn v_244(v_380: vec2<u32>) -> bool {
  let v_384 = v_380[1];
  let v_385 = v_229((v_380[0] != 0u), 1u, 0u);
  return ((v_384 + v_385) > 2146435072u);
}

fn v_189(v_389: vec2<u32>, v_390: ptr<function, i32>) -> vec2<u32> {
  let v_392 = v_389[1];
  let v_395 = bitcast<i32>((v_392 >> u32(20u)));
  let v_396 = (v_395 > i32(0));
  (*v_390) = max(v_395, i32(1));
  let v_398 = v_389[0];
  let v_399 = (v_392 & 1048575u);
  let v_401 = v_229(v_396, 1048576u, 0u);
  return vec2<u32>(v_398, (v_399 | v_401));
}

fn v_236(v_406: u32, v_407: i32, v_408: vec2<u32>) -> vec2<u32> {
  let v_410 = v_408[0];
  let v_411 = (v_410 + 512u);
  let v_414 = v_408[1];
  let v_415 = v_229((v_411 < 512u), 1u, 0u);
  let v_416 = (v_414 + v_415);
  let v_420 = (v_407 > i32(2045));
  let v_422 = v_229(((v_410 & 1023u) == 512u), 1u, 0u);
  let v_433 = ((bitcast<u32>(v_407) << u32(20u)) + (v_416 >> u32(10u)));
  let v_434 = v_229(v_420, 0u, (((v_411 >> u32(10u)) | (v_416 << u32(22u))) & (~v_422)));
  let v_435 = v_229(v_420, 2146435072u, v_433);
  return vec2<u32>(v_434, (v_406 | v_435));
}

fn v_160(v_438: vec2<u32>, v_439: vec2<u32>) -> vec2<u32> {
  let v_441 = v_442(v_439);
  let v_443 = v_162(v_438, v_441);
  return v_443;
}

fn v_442(v_444: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(v_444[0], (v_444[1] ^ 2147483648u));
}

fn v_161(v_450: vec2<u32>, v_451: vec2<u32>) -> vec2<u32> {
  var v_453: vec2<u32>;
  var v_454: i32;
  var v_455: i32;
  let v_456 = v_174(v_450);
  let v_457 = v_174(v_451);
  let v_461 = ((v_450[1] ^ v_451[1]) & 2147483648u);
  let v_462 = v_463(v_456, &v_454);
  let v_464 = v_454;
  v_453 = v_462;
  let v_465 = v_463(v_457, &v_455);
  let v_466 = v_455;
  let v_468 = v_192(v_453, 10u);
  let v_469 = v_192(v_465, 11u);
  let v_472 = v_473(v_468, v_469);
  let v_478 = v_472[2];
  let v_479 = v_229(((v_472[0] | v_472[1]) != 0u), 1u, 0u);
  v_453 = vec2<u32>((v_478 | v_479), v_472[3]);
  let v_485 = (v_453[1] < 1073741824u);
  let v_499 = v_179(v_485, vec2<u32>((v_453[0] << u32(1u)), ((v_453[1] << u32(1u)) | (v_453[0] >> u32(31u)))), v_453);
  v_453 = v_499;
  let v_501 = ((v_464 + v_466) - i32(1023));
  let v_503 = v_232(v_485, i32(1), i32(0));
  let v_506 = v_507(v_461, (v_501 - v_503), v_453);
  let v_509 = v_456[1];
  let v_513 = v_457[1];
  let v_516 = (((v_456[0] | v_509) == 0u) || ((v_457[0] | v_513) == 0u));
  let v_518 = (max(v_509, v_513) >= 2146435072u);
  let v_519 = v_244(v_456);
  let v_520 = v_244(v_457);
  let v_525 = v_179(((v_519 || v_520) || v_516), vec2<u32>(0u, 2146959360u), vec2<u32>(0u, (v_461 | 2146435072u)));
  let v_527 = v_179(v_516, vec2<u32>(0u, v_461), v_506);
  let v_528 = v_179(v_518, v_525, v_527);
  return v_528;
}

fn v_473(v_530: vec2<u32>, v_531: vec2<u32>) -> vec4<u32> {
  var v_533: vec2<u32>;
  var v_534: vec2<u32>;
  let v_535 = v_530[0];
  let v_536 = v_531[0];
  let v_538 = tg_mul_extended_v_537(v_535, v_536);
  let v_541 = v_531[1];
  let v_542 = tg_mul_extended_v_537(v_535, v_541);
  let v_545 = v_530[1];
  let v_546 = tg_mul_extended_v_537(v_545, v_536);
  let v_549 = tg_mul_extended_v_537(v_545, v_541);
  let v_539 = v_538.m0;
  let v_547 = v_546.m0;
  let v_548 = v_546.m1;
  let v_550 = v_549.m0;
  let v_551 = v_549.m1;
  let v_554 = v_208(vec2<u32>(v_542.m0, v_542.m1), vec2<u32>(v_538.m1, 0u));
  v_533 = v_554;
  let v_559 = v_208(vec2<u32>(v_550, v_551), vec2<u32>(v_533[1], 0u));
  v_534 = v_559;
  let v_564 = v_208(vec2<u32>(v_547, v_548), vec2<u32>(v_533[0], 0u));
  v_533 = v_564;
  let v_569 = v_208(v_534, vec2<u32>(v_533[1], 0u));
  v_534 = v_569;
  return vec4<u32>(v_539, v_533[0], v_534[0], v_534[1]);
}

fn v_463(v_577: vec2<u32>, v_578: ptr<function, i32>) -> vec2<u32> {
  var v_580: vec2<u32>;
  var v_581: i32;
  let v_582 = v_189(v_577, &v_581);
  (*v_578) = v_581;
  v_580 = v_582;
  if ((v_580[1] < 1048576u)) {
    let v_590 = v_217(v_580);
    let v_592 = min((v_590 - 11u), 52u);
    (*v_578) = ((*v_578) - bitcast<i32>(v_592));
    let v_598 = v_192(v_580, v_592);
    v_580 = v_598;
  }
  return v_580;
}

fn v_507(v_600: u32, v_601: i32, v_602: vec2<u32>) -> vec2<u32> {
  var v_609: vec2<u32>;
  var v_610: vec2<u32>;
  if ((v_601 < i32(0))) {
    v_609 = v_200(v_602, bitcast<u32>((-v_601)));
    v_610 = v_609;
  } else {
    v_610 = v_602;
  }
  let v_612 = v_236(v_600, max(v_601, i32(0)), v_610);
  return v_612;
}

fn v_163(v_613: vec2<u32>) -> vec2<u32> {
  var v_615: vec2<u32>;
  var v_616: i32;
  var v_617: vec2<u32>;
  var v_618: vec2<u32>;
  var v_619: vec2<u32>;
  var v_620: vec2<u32>;
  var v_621: vec2<u32>;
  var v_622: vec2<u32>;
  var v_623: vec2<u32>;
  let v_624 = v_174(v_613);
  let v_625 = v_463(v_624, &v_616);
  let v_626 = v_616;
  v_615 = v_625;
  let v_628 = (i32(1) - (v_626 & i32(1)));
  let v_633 = v_192(v_615, bitcast<u32>((i32(10) + v_628)));
  v_615 = v_633;
  let v_643 = (min(u32((7.0368744e+13f * inverseSqrt(f32(max(v_615[1], 1073741824u))))), 2147483647u) << u32(1u));
  let v_648 = tg_mul_extended_v_537(tg_mul_extended_v_537(v_643, v_643).m1, v_615[1]);
  let v_652 = v_202(vec2<u32>(0u, 1073741824u), vec2<u32>(v_648.m0, v_648.m1));
  let v_654 = v_655(v_643, v_652);
  let v_656 = (v_654 - 6u);
  let v_660 = tg_mul_extended_v_537(v_615[1], v_656);
  let v_665 = ((v_660.m1 << u32(1u)) | (v_660.m0 >> u32(31u)));
  let v_666 = tg_mul_extended_v_537(v_665, v_665);
  let v_671 = v_202(v_615, vec2<u32>(v_666.m0, v_666.m1));
  v_617 = v_671;
  let v_686 = v_208(vec2<u32>((v_665 << u32(23u)), (v_665 >> u32(9u))), vec2<u32>(tg_mul_extended_v_537(((v_617[0] >> u32(9u)) | (v_617[1] << u32(23u))), v_656).m1, 0u));
  v_618 = v_686;
  let v_688 = v_202(v_618, vec2<u32>(1u, 0u));
  v_618 = v_688;
  let v_694 = tg_mul_extended_v_537(v_618[0], v_618[0]);
  let v_711 = v_202(vec2<u32>(0u, (v_615[0] << u32(14u))), vec2<u32>(v_694.m0, (v_694.m1 + ((2u * v_618[0]) * v_618[1]))));
  v_617 = v_711;
  let v_712 = v_618;
  v_619 = v_617;
  let v_714 = v_715(v_712, &v_619);
  v_617 = v_619;
  v_618 = v_714;
  let v_717 = v_618;
  v_620 = v_617;
  let v_719 = v_715(v_717, &v_620);
  v_617 = v_620;
  v_618 = v_719;
  let v_721 = v_618;
  v_621 = v_617;
  let v_723 = v_715(v_721, &v_621);
  v_617 = v_621;
  v_618 = v_723;
  let v_725 = v_618;
  v_622 = v_617;
  let v_727 = v_715(v_725, &v_622);
  v_617 = v_622;
  v_618 = v_727;
  let v_729 = v_618;
  v_623 = v_617;
  let v_731 = v_715(v_729, &v_623);
  v_617 = v_623;
  v_618 = v_731;
  let v_742 = ((((v_626 - i32(1023)) - v_628) >> u32(i32(1))) + i32(1022));
  let v_746 = (v_618[0] << u32(8u));
  let v_748 = v_229(((v_617[0] | v_617[1]) != 0u), 1u, 0u);
  let v_759 = v_236(0u, v_742, vec2<u32>((v_746 | v_748), ((v_618[1] << u32(8u)) | (v_618[0] >> u32(24u)))));
  let v_760 = v_761(v_613);
  let v_762 = v_613[1];
  let v_764 = (v_760 || (v_762 == 2146435072u));
  let v_765 = (v_762 >= 2147483648u);
  let v_766 = v_767(v_613);
  let v_768 = (v_765 || v_766);
  let v_769 = v_179(v_768, vec2<u32>(0u, 2146959360u), v_613);
  let v_770 = v_179(v_760, v_613, v_769);
  let v_772 = v_179((v_764 || v_768), v_770, v_759);
  return v_772;
}

fn v_767(v_773: vec2<u32>) -> bool {
  let v_775 = v_174(v_773);
  let v_776 = v_244(v_775);
  return v_776;
}

fn v_761(v_777: vec2<u32>) -> bool {
  return ((v_777[0] | (v_777[1] & 2147483647u)) == 0u);
}

fn v_655(v_785: u32, v_786: vec2<u32>) -> u32 {
  let v_789 = (v_786[1] >= 2147483648u);
  let v_790 = v_202(vec2<u32>(0u, 0u), v_786);
  let v_791 = v_179(v_789, v_790, v_786);
  let v_801 = (tg_mul_extended_v_537(v_785, ((v_791[0] >> u32(13u)) | (v_791[1] << u32(19u)))).m1 >> u32(18u));
  let v_805 = v_229(v_789, (v_785 - v_801), (v_785 + v_801));
  return v_805;
}

fn v_715(v_807: vec2<u32>, v_808: ptr<function, vec2<u32>>) -> vec2<u32> {
  var v_810: vec2<u32>;
  let v_811 = v_807[0];
  let v_818 = vec2<u32>(((v_811 << u32(1u)) | 1u), ((v_807[1] << u32(1u)) | (v_811 >> u32(31u))));
  v_810 = (*v_808);
  let v_820 = v_821(v_818, &v_810);
  (*v_808) = v_810;
  let v_824 = v_208(v_807, vec2<u32>(v_820, 0u));
  return v_824;
}

fn v_821(v_826: vec2<u32>, v_827: ptr<function, vec2<u32>>) -> u32 {
  let v_830 = v_177((*v_827), v_826);
  let v_831 = (*v_827);
  let v_833 = v_202((*v_827), v_826);
  let v_834 = v_179(v_830, v_831, v_833);
  (*v_827) = v_834;
  let v_835 = v_229(v_830, 0u, 1u);
  return v_835;
}

fn v_164(v_836: vec2<u32>, v_837: vec2<u32>) -> bool {
  let v_839 = v_840(v_836, v_837);
  let v_841 = v_842(v_836, v_837);
  return (v_841 && (!v_839));
}

fn v_840(v_845: vec2<u32>, v_846: vec2<u32>) -> bool {
  let v_848 = v_767(v_845);
  let v_849 = v_767(v_846);
  return (v_848 || v_849);
}

fn v_842(v_851: vec2<u32>, v_852: vec2<u32>) -> bool {
  let v_854 = v_851[1];
  let v_855 = (v_854 >= 2147483648u);
  let v_856 = v_852[1];
  let v_864 = (((v_851[0] | v_852[0]) | ((v_854 | v_856) & 2147483647u)) == 0u);
  let v_865 = (v_855 == (v_856 >= 2147483648u));
  let v_866 = v_179(v_855, v_852, v_851);
  let v_867 = v_179(v_855, v_851, v_852);
  let v_868 = v_177(v_866, v_867);
  return select((v_855 && (!v_864)), v_868, v_865);
}

@compute @workgroup_size(128, 1, 1)
fn main(@builtin(global_invocation_id) gl_GlobalInvocationID_: vec3<u32>) {
  var i_: u32;
  var c0_: u32;
  var c1_: u32;
  var x_a_: vec2<u32>;
  var y_a_: vec2<u32>;
  var z_a_: vec2<u32>;
  var x_b_: vec2<u32>;
  var y_b_: vec2<u32>;
  var z_b_: vec2<u32>;
  var rest_length_: vec2<u32>;
  var t0_: vec2<u32>;
  var t1_: vec2<u32>;
  var t2_: vec2<u32>;
  var t3_: vec2<u32>;
  var t4_: vec2<u32>;
  var t5_: vec2<u32>;
  var t6_: vec2<u32>;
  var t7_: vec2<u32>;
  var t8_: vec2<u32>;
  var b9_: bool;
  var t10_: vec2<u32>;
  var t11_: vec2<u32>;
  i_ = (gl_GlobalInvocationID_[0u] + v_18.first_);
  if ((i_ >= v_18.count_)) {
    return;
  }
  let v_39 = i_;
  c0_ = v_38.index_columns_[v_39];
  let v_48 = (v_18.stride_ + i_);
  c1_ = v_38.index_columns_[v_48];
  let v_58 = c0_;
  x_a_ = v_57.x_[v_58];
  let v_65 = (c0_ + 1u);
  y_a_ = v_57.x_[v_65];
  let v_71 = (c0_ + 2u);
  z_a_ = v_57.x_[v_71];
  let v_75 = c1_;
  x_b_ = v_57.x_[v_75];
  let v_80 = (c1_ + 1u);
  y_b_ = v_57.x_[v_80];
  let v_85 = (c1_ + 2u);
  z_b_ = v_57.x_[v_85];
  let v_93 = i_;
  rest_length_ = v_92.data_columns_[v_93];
  let v_99 = v_160(x_a_, x_b_);
  t0_ = v_99;
  let v_103 = v_161(t0_, t0_);
  t1_ = v_103;
  let v_107 = v_160(y_a_, y_b_);
  t2_ = v_107;
  let v_111 = v_161(t2_, t2_);
  t3_ = v_111;
  let v_115 = v_162(t1_, t3_);
  t4_ = v_115;
  let v_119 = v_160(z_a_, z_b_);
  t5_ = v_119;
  let v_123 = v_161(t5_, t5_);
  t6_ = v_123;
  let v_127 = v_162(t4_, t6_);
  t7_ = v_127;
  let v_130 = v_163(t7_);
  t8_ = v_130;
  let v_135 = v_164(vec2<u32>(0u, 0u), t7_);
  b9_ = v_135;
  t10_ = select(vec2<u32>(0u, 0u), t8_, b9_);
  let v_143 = v_160(t10_, rest_length_);
  t11_ = v_143;
  let v_152 = (v_18.out_first_ + i_);
  v_147.results_[v_152] = t11_;
  return;
}
