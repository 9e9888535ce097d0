// of the GLSL 34ffff44142ba55173b89fbc9c6b155b
// and the SPIR-V module 61f7416e9016fadeabf9bf4c1ad03ca6, without doubles
struct DecisionBuffer_ {
  decision_: array<vec2<u32>>,
}
struct ScalarsBuffer_ {
  scalars_: array<vec2<u32>>,
}
struct PushConstants_ {
  count_: u32,
  first_: u32,
  inverse_first_: u32,
  masked_: u32,
  out_first_: u32,
  out_stride_: u32,
  sums_first_: u32,
  sums_count_: u32,
}
struct CurvatureBuffer_ {
  curvature_: array<vec2<u32>>,
}
struct DeltaBuffer_ {
  delta_: array<vec2<u32>>,
}
struct DirectionBuffer_ {
  direction_: array<vec2<u32>>,
}
struct ResidualBuffer_ {
  residual_: array<vec2<u32>>,
}
struct ProductBuffer_ {
  product_: array<vec2<u32>>,
}
struct FixedScalarsBuffer_ {
  fixed_scalars_: array<u32>,
}
struct InverseBlocksBuffer_ {
  inverse_blocks_: array<vec2<u32>>,
}
struct PreconditionedBuffer_ {
  preconditioned_: array<vec2<u32>>,
}
struct PartialsBuffer_ {
  partials_: array<vec2<u32>>,
}
struct v_1038 {
  m0: u32,
  m1: u32,
}

var<private> gl_LocalInvocationIndex_: u32;
var<workgroup> partial_totals_: array<vec2<u32>, 128u>;
var<workgroup> partial_sums_: array<vec2<u32>, 128u>;
@group(0) @binding(9) var<storage, read> v_134: DecisionBuffer_;
@group(0) @binding(1) var<storage, read_write> v_155: ScalarsBuffer_;
@group(1) @binding(0) var<uniform> v_168: PushConstants_;
@group(0) @binding(10) var<storage, read> v_179: CurvatureBuffer_;
@group(0) @binding(4) var<storage, read_write> v_321: DeltaBuffer_;
@group(0) @binding(0) var<storage, read> v_329: DirectionBuffer_;
@group(0) @binding(5) var<storage, read_write> v_363: ResidualBuffer_;
@group(0) @binding(6) var<storage, read> v_371: ProductBuffer_;
@group(0) @binding(3) var<storage, read> v_410: FixedScalarsBuffer_;
@group(0) @binding(8) var<storage, read> v_436: InverseBlocksBuffer_;
@group(0) @binding(7) var<storage, read_write> v_561: PreconditionedBuffer_;
@group(0) @binding(2) var<storage, read_write> v_617: PartialsBuffer_;

fn tg_mul_extended_v_1038(a: u32, b: u32) -> v_1038 {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let low = al * bl;
  let middle = ah * bl + (low >> 16u);
  let other = al * bh + (middle & 0xffffu);
  return v_1038(a * b, ah * bh + (middle >> 16u) + (other >> 16u));
}

fn tg_is_inf_f64_(x_: ptr<function, vec2<u32>>) -> bool {
  var bits_: vec2<u32>;
  var v_34: bool;
  var v_40: bool;
  var v_41: bool;
  bits_ = (*x_);
  v_34 = ((bits_[1u] & 2147483647u) == 2146435072u);
  if (v_34) {
    v_40 = (bits_[0u] == 0u);
    v_41 = v_40;
  } else {
    v_41 = v_34;
  }
  return v_41;
}

fn workgroup_totals_(total_0_14: ptr<function, vec2<u32>>) {
  var self_: u32;
  var width_: u32;
  var sum_: vec2<u32>;
  self_ = gl_LocalInvocationIndex_;
  workgroupBarrier();
  let v_54 = self_;
  partial_totals_[v_54] = (*total_0_14);
  width_ = 64u;
  loop {
    if ((width_ > 0u)) {
      workgroupBarrier();
      if ((self_ < width_)) {
        let v_73 = self_;
        let v_78 = (self_ + width_);
        let v_81 = v_660(partial_totals_[v_73], partial_totals_[v_78]);
        sum_ = v_81;
        let v_82 = self_;
        partial_totals_[v_82] = sum_;
      }
    } else {
      break;
    }
    continuing {
      width_ = (width_ >> u32(1u));
    }
  }
  workgroupBarrier();
  (*total_0_14) = partial_totals_[i32(0)];
  return;
}

fn workgroup_sum_(value_: ptr<function, vec2<u32>>) -> vec2<u32> {
  var self_91: u32;
  var width_97: u32;
  var sum_110: vec2<u32>;
  self_91 = gl_LocalInvocationIndex_;
  workgroupBarrier();
  let v_94 = self_91;
  partial_sums_[v_94] = (*value_);
  width_97 = 64u;
  loop {
    if ((width_97 > 0u)) {
      workgroupBarrier();
      if ((self_91 < width_97)) {
        let v_111 = self_91;
        let v_116 = (self_91 + width_97);
        let v_119 = v_660(partial_sums_[v_111], partial_sums_[v_116]);
        sum_110 = v_119;
        let v_120 = self_91;
        partial_sums_[v_120] = sum_110;
      }
    } else {
      break;
    }
    continuing {
      width_97 = (width_97 >> u32(1u));
    }
  }
  let v_125 = self_91;
  return partial_sums_[v_125];
}

fn v_660(v_667: vec2<u32>, v_668: vec2<u32>) -> vec2<u32> {
  var v_670: vec2<u32>;
  var v_672: i32;
  var v_673: i32;
  let v_674 = v_675(v_667);
  let v_676 = v_675(v_668);
  let v_677 = v_678(v_674, v_676);
  let v_679 = v_680(v_677, v_668, v_667);
  let v_681 = v_675(v_679);
  let v_682 = v_680(v_677, v_667, v_668);
  let v_683 = v_675(v_682);
  let v_687 = ((v_667[1] ^ v_668[1]) >= 2147483648u);
  let v_689 = v_690(v_681, &v_672);
  let v_691 = v_672;
  let v_692 = v_693(v_689, 9u);
  v_670 = v_692;
  let v_695 = v_690(v_683, &v_673);
  let v_696 = v_673;
  let v_697 = v_693(v_695, 9u);
  let v_700 = v_701(v_697, bitcast<u32>((v_691 - v_696)));
  let v_702 = v_703(vec2<u32>(0u, 0u), v_700);
  let v_706 = v_670;
  let v_707 = v_680(v_687, v_702, v_700);
  let v_708 = v_709(v_706, v_707);
  v_670 = v_708;
  let v_715 = ((v_670[0] | v_670[1]) == 0u);
  let v_717 = v_718(v_670);
  let v_722 = min((bitcast<i32>(v_717) - i32(1)), v_691);
  let v_725 = v_693(v_670, bitcast<u32>(v_722));
  v_670 = v_725;
  let v_729 = v_730((v_715 && v_687), 0u, (v_679[1] & 2147483648u));
  let v_732 = v_733(v_715, i32(0), (v_691 - v_722));
  let v_736 = v_737(v_729, v_732, v_670);
  let v_739 = (v_681[1] >= 2146435072u);
  let v_743 = (v_687 && (v_683[1] == 2146435072u));
  let v_744 = v_745(v_681);
  let v_747 = v_680((v_744 || v_743), vec2<u32>(0u, 2146959360u), v_679);
  let v_750 = v_680(v_739, v_747, v_736);
  return v_750;
}

fn v_730(v_752: bool, v_753: u32, v_754: u32) -> u32 {
  return select(v_754, v_753, v_752);
}

fn v_733(v_758: bool, v_759: i32, v_760: i32) -> i32 {
  return select(v_760, v_759, v_758);
}

fn v_680(v_764: bool, v_765: vec2<u32>, v_766: vec2<u32>) -> vec2<u32> {
  let v_770 = v_730(v_764, v_765[0], v_766[0]);
  let v_773 = v_730(v_764, v_765[1], v_766[1]);
  return vec2<u32>(v_770, v_773);
}

fn v_709(v_775: vec2<u32>, v_776: vec2<u32>) -> vec2<u32> {
  let v_778 = v_775[0];
  let v_780 = (v_778 + v_776[0]);
  let v_784 = (v_775[1] + v_776[1]);
  let v_785 = v_730((v_780 < v_778), 1u, 0u);
  return vec2<u32>(v_780, (v_784 + v_785));
}

fn v_703(v_789: vec2<u32>, v_790: vec2<u32>) -> vec2<u32> {
  let v_792 = v_789[0];
  let v_793 = v_790[0];
  let v_795 = (v_792 - v_793);
  let v_798 = (v_789[1] - v_790[1]);
  let v_799 = v_730((v_792 < v_793), 1u, 0u);
  return vec2<u32>(v_795, (v_798 - v_799));
}

fn v_678(v_803: vec2<u32>, v_804: vec2<u32>) -> bool {
  let v_806 = v_803[1];
  let v_807 = v_804[1];
  return ((v_806 < v_807) || ((v_806 == v_807) && (v_803[0] < v_804[0])));
}

fn v_693(v_816: vec2<u32>, v_817: u32) -> vec2<u32> {
  let v_819 = (v_817 & 31u);
  let v_821 = v_816[0];
  let v_822 = (v_821 << u32(v_819));
  let v_829 = (v_817 < 32u);
  let v_828 = ((v_816[1] << u32(v_819)) | ((v_821 >> u32(1u)) >> u32((31u - v_819))));
  let v_831 = v_730(v_829, v_822, 0u);
  let v_832 = v_730(v_829, v_828, v_822);
  return vec2<u32>(v_831, v_832);
}

fn v_701(v_834: vec2<u32>, v_835: u32) -> vec2<u32> {
  let v_837 = min(v_835, 63u);
  let v_839 = (v_837 & 31u);
  let v_841 = ((1u << u32(v_839)) - 1u);
  let v_842 = v_834[0];
  let v_844 = v_834[1];
  let v_849 = (v_844 >> u32(v_839));
  let v_850 = (v_837 < 32u);
  let v_848 = ((v_842 >> u32(v_839)) | ((v_844 << u32(1u)) << u32((31u - v_839))));
  let v_854 = v_730(v_850, (v_842 & v_841), (v_842 | (v_844 & v_841)));
  let v_855 = (v_854 != 0u);
  let v_856 = v_730(v_850, v_848, v_849);
  let v_857 = v_730(v_855, 1u, 0u);
  let v_858 = (v_856 | v_857);
  let v_859 = v_730(v_850, v_849, 0u);
  return vec2<u32>(v_858, v_859);
}

fn v_718(v_862: vec2<u32>) -> u32 {
  let v_864 = v_862[1];
  let v_865 = (v_864 != 0u);
  let v_866 = v_730(v_865, 31u, 63u);
  let v_868 = v_730(v_865, v_864, v_862[0]);
  return (v_866 - bitcast<u32>(bitcast<i32>(firstLeadingBit(v_868))));
}

fn v_675(v_873: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(v_873[0], (v_873[1] & 2147483647u));
}

fn v_745(v_881: vec2<u32>) -> bool {
  let v_885 = v_881[1];
  let v_886 = v_730((v_881[0] != 0u), 1u, 0u);
  return ((v_885 + v_886) > 2146435072u);
}

fn v_690(v_890: vec2<u32>, v_891: ptr<function, i32>) -> vec2<u32> {
  let v_893 = v_890[1];
  let v_896 = bitcast<i32>((v_893 >> u32(20u)));
  let v_897 = (v_896 > i32(0));
  (*v_891) = max(v_896, i32(1));
  let v_899 = v_890[0];
  let v_900 = (v_893 & 1048575u);
  let v_902 = v_730(v_897, 1048576u, 0u);
  return vec2<u32>(v_899, (v_900 | v_902));
}

fn v_737(v_907: u32, v_908: i32, v_909: vec2<u32>) -> vec2<u32> {
  let v_911 = v_909[0];
  let v_912 = (v_911 + 512u);
  let v_915 = v_909[1];
  let v_916 = v_730((v_912 < 512u), 1u, 0u);
  let v_917 = (v_915 + v_916);
  let v_921 = (v_908 > i32(2045));
  let v_923 = v_730(((v_911 & 1023u) == 512u), 1u, 0u);
  let v_934 = ((bitcast<u32>(v_908) << u32(20u)) + (v_917 >> u32(10u)));
  let v_935 = v_730(v_921, 0u, (((v_912 >> u32(10u)) | (v_917 << u32(22u))) & (~v_923)));
  let v_936 = v_730(v_921, 2146435072u, v_934);
  return vec2<u32>(v_935, (v_907 | v_936));
}

fn v_665(v_939: vec2<u32>, v_940: vec2<u32>) -> vec2<u32> {
  let v_942 = v_943(v_940);
  let v_944 = v_660(v_939, v_942);
  return v_944;
}

fn v_943(v_945: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(v_945[0], (v_945[1] ^ 2147483648u));
}

fn v_663(v_951: vec2<u32>, v_952: vec2<u32>) -> vec2<u32> {
  var v_954: vec2<u32>;
  var v_955: i32;
  var v_956: i32;
  let v_957 = v_675(v_951);
  let v_958 = v_675(v_952);
  let v_962 = ((v_951[1] ^ v_952[1]) & 2147483648u);
  let v_963 = v_964(v_957, &v_955);
  let v_965 = v_955;
  v_954 = v_963;
  let v_966 = v_964(v_958, &v_956);
  let v_967 = v_956;
  let v_969 = v_693(v_954, 10u);
  let v_970 = v_693(v_966, 11u);
  let v_973 = v_974(v_969, v_970);
  let v_979 = v_973[2];
  let v_980 = v_730(((v_973[0] | v_973[1]) != 0u), 1u, 0u);
  v_954 = vec2<u32>((v_979 | v_980), v_973[3]);
  let v_986 = (v_954[1] < 1073741824u);
  let v_1000 = v_680(v_986, vec2<u32>((v_954[0] << u32(1u)), ((v_954[1] << u32(1u)) | (v_954[0] >> u32(31u)))), v_954);
  v_954 = v_1000;
  let v_1002 = ((v_965 + v_967) - i32(1023));
  let v_1004 = v_733(v_986, i32(1), i32(0));
  let v_1007 = v_1008(v_962, (v_1002 - v_1004), v_954);
  let v_1010 = v_957[1];
  let v_1014 = v_958[1];
  let v_1017 = (((v_957[0] | v_1010) == 0u) || ((v_958[0] | v_1014) == 0u));
  let v_1019 = (max(v_1010, v_1014) >= 2146435072u);
  let v_1020 = v_745(v_957);
  let v_1021 = v_745(v_958);
  let v_1026 = v_680(((v_1020 || v_1021) || v_1017), vec2<u32>(0u, 2146959360u), vec2<u32>(0u, (v_962 | 2146435072u)));
  let v_1028 = v_680(v_1017, vec2<u32>(0u, v_962), v_1007);
  let v_1029 = v_680(v_1019, v_1026, v_1028);
  return v_1029;
}

fn v_974(v_1031: vec2<u32>, v_1032: vec2<u32>) -> vec4<u32> {
  var v_1034: vec2<u32>;
  var v_1035: vec2<u32>;
  let v_1036 = v_1031[0];
  let v_1037 = v_1032[0];
  let v_1039 = tg_mul_extended_v_1038(v_1036, v_1037);
  let v_1042 = v_1032[1];
  let v_1043 = tg_mul_extended_v_1038(v_1036, v_1042);
  let v_1046 = v_1031[1];
  let v_1047 = tg_mul_extended_v_1038(v_1046, v_1037);
  let v_1050 = tg_mul_extended_v_1038(v_1046, v_1042);
  let v_1040 = v_1039.m0;
  let v_1048 = v_1047.m0;
  let v_1049 = v_1047.m1;
  let v_1051 = v_1050.m0;
  let v_1052 = v_1050.m1;
  let v_1055 = v_709(vec2<u32>(v_1043.m0, v_1043.m1), vec2<u32>(v_1039.m1, 0u));
  v_1034 = v_1055;
  let v_1060 = v_709(vec2<u32>(v_1051, v_1052), vec2<u32>(v_1034[1], 0u));
  v_1035 = v_1060;
  let v_1065 = v_709(vec2<u32>(v_1048, v_1049), vec2<u32>(v_1034[0], 0u));
  v_1034 = v_1065;
  let v_1070 = v_709(v_1035, vec2<u32>(v_1034[1], 0u));
  v_1035 = v_1070;
  return vec4<u32>(v_1040, v_1034[0], v_1035[0], v_1035[1]);
}

fn v_964(v_1078: vec2<u32>, v_1079: ptr<function, i32>) -> vec2<u32> {
  var v_1081: vec2<u32>;
  var v_1082: i32;
  let v_1083 = v_690(v_1078, &v_1082);
  (*v_1079) = v_1082;
  v_1081 = v_1083;
  if ((v_1081[1] < 1048576u)) {
    let v_1091 = v_718(v_1081);
    let v_1093 = min((v_1091 - 11u), 52u);
    (*v_1079) = ((*v_1079) - bitcast<i32>(v_1093));
    let v_1099 = v_693(v_1081, v_1093);
    v_1081 = v_1099;
  }
  return v_1081;
}

fn v_1008(v_1101: u32, v_1102: i32, v_1103: vec2<u32>) -> vec2<u32> {
  var v_1110: vec2<u32>;
  var v_1111: vec2<u32>;
  if ((v_1102 < i32(0))) {
    v_1110 = v_701(v_1103, bitcast<u32>((-v_1102)));
    v_1111 = v_1110;
  } else {
    v_1111 = v_1103;
  }
  let v_1113 = v_737(v_1101, max(v_1102, i32(0)), v_1111);
  return v_1113;
}

fn v_662(v_1114: vec2<u32>, v_1115: vec2<u32>) -> vec2<u32> {
  var v_1117: vec2<u32>;
  var v_1118: i32;
  var v_1119: i32;
  var v_1120: vec2<u32>;
  var v_1121: vec2<u32>;
  var v_1122: vec2<u32>;
  var v_1123: vec2<u32>;
  let v_1124 = v_675(v_1114);
  let v_1125 = v_675(v_1115);
  let v_1129 = ((v_1114[1] ^ v_1115[1]) & 2147483648u);
  let v_1130 = v_964(v_1124, &v_1118);
  let v_1131 = v_1118;
  v_1117 = v_1130;
  let v_1132 = v_964(v_1125, &v_1119);
  let v_1133 = v_1119;
  let v_1135 = v_678(v_1117, v_1132);
  let v_1136 = (i32(1022) - v_1133);
  let v_1138 = v_733(v_1135, i32(1), i32(0));
  let v_1140 = (v_1131 + (v_1136 - v_1138));
  let v_1141 = v_1117;
  let v_1142 = v_730(v_1135, 11u, 10u);
  let v_1143 = v_693(v_1141, v_1142);
  v_1117 = v_1143;
  let v_1150 = (((v_1132[1] << u32(11u)) | (v_1132[0] >> u32(21u))) | 2147483648u);
  let v_1156 = (min(u32((4.611686e+18f / f32(v_1150))), 2147483647u) << u32(1u));
  let v_1157 = tg_mul_extended_v_1038(v_1156, v_1150);
  let v_1161 = v_703(vec2<u32>(0u, 2147483648u), vec2<u32>(v_1157.m0, v_1157.m1));
  let v_1163 = v_1164(v_1156, v_1161);
  let v_1165 = (v_1163 - 3u);
  let v_1170 = tg_mul_extended_v_1038(v_1117[1], v_1165).m1;
  let v_1172 = v_693(v_1117, 24u);
  let v_1174 = v_693(v_1132, 4u);
  let v_1176 = v_1177(v_1174, v_1170);
  let v_1178 = v_703(v_1172, v_1176);
  v_1120 = v_1178;
  let v_1182 = tg_mul_extended_v_1038(v_1120[1], v_1165).m1;
  let v_1184 = v_693(v_1120, 20u);
  let v_1185 = v_1177(v_1132, v_1182);
  let v_1186 = v_703(v_1184, v_1185);
  v_1120 = v_1186;
  v_1121 = v_1120;
  let v_1188 = v_1189(v_1132, &v_1121);
  v_1120 = v_1121;
  let v_1191 = (v_1182 + v_1188);
  v_1122 = v_1120;
  let v_1193 = v_1189(v_1132, &v_1122);
  v_1120 = v_1122;
  let v_1195 = (v_1191 + v_1193);
  v_1123 = v_1120;
  let v_1197 = v_1189(v_1132, &v_1123);
  v_1120 = v_1123;
  let v_1199 = (v_1195 + v_1197);
  let v_1206 = (v_1199 << u32(8u));
  let v_1208 = v_730(((v_1120[0] | v_1120[1]) != 0u), 1u, 0u);
  let v_1213 = v_1008(v_1129, v_1140, vec2<u32>((v_1206 | v_1208), (v_1170 + (v_1199 >> u32(24u)))));
  let v_1215 = v_1124[1];
  let v_1217 = ((v_1124[0] | v_1215) == 0u);
  let v_1219 = v_1125[1];
  let v_1221 = ((v_1125[0] | v_1219) == 0u);
  let v_1222 = (v_1215 >= 2146435072u);
  let v_1223 = (v_1219 >= 2146435072u);
  let v_1224 = v_745(v_1124);
  let v_1225 = v_745(v_1125);
  let v_1231 = (v_1222 || v_1221);
  let v_1230 = (((v_1224 || v_1225) || (v_1217 && v_1221)) || (v_1222 && v_1223));
  let v_1232 = (v_1217 || v_1223);
  let v_1236 = v_680(v_1231, vec2<u32>(0u, (v_1129 | 2146435072u)), vec2<u32>(0u, v_1129));
  let v_1238 = v_680((v_1231 || v_1232), v_1236, v_1213);
  let v_1239 = v_680(v_1230, vec2<u32>(0u, 2146959360u), v_1238);
  return v_1239;
}

fn v_1177(v_1240: vec2<u32>, v_1241: u32) -> vec2<u32> {
  let v_1244 = tg_mul_extended_v_1038(v_1240[0], v_1241);
  return vec2<u32>(v_1244.m0, (v_1244.m1 + (v_1240[1] * v_1241)));
}

fn v_1164(v_1252: u32, v_1253: vec2<u32>) -> u32 {
  let v_1256 = (v_1253[1] >= 2147483648u);
  let v_1257 = v_703(vec2<u32>(0u, 0u), v_1253);
  let v_1258 = v_680(v_1256, v_1257, v_1253);
  let v_1268 = (tg_mul_extended_v_1038(v_1252, ((v_1258[0] >> u32(13u)) | (v_1258[1] << u32(19u)))).m1 >> u32(18u));
  let v_1272 = v_730(v_1256, (v_1252 - v_1268), (v_1252 + v_1268));
  return v_1272;
}

fn v_1189(v_1274: vec2<u32>, v_1275: ptr<function, vec2<u32>>) -> u32 {
  let v_1278 = v_678((*v_1275), v_1274);
  let v_1279 = (*v_1275);
  let v_1281 = v_703((*v_1275), v_1274);
  let v_1282 = v_680(v_1278, v_1279, v_1281);
  (*v_1275) = v_1282;
  let v_1283 = v_730(v_1278, 0u, 1u);
  return v_1283;
}

fn v_658(v_1284: vec2<u32>, v_1285: vec2<u32>) -> bool {
  let v_1287 = v_1288(v_1284);
  let v_1289 = v_1284[0];
  let v_1290 = v_1285[0];
  let v_1292 = v_1284[1];
  let v_1293 = v_1285[1];
  return ((((v_1289 == v_1290) && (v_1292 == v_1293)) || (((v_1289 | v_1290) | ((v_1292 | v_1293) & 2147483647u)) == 0u)) && (!v_1287));
}

fn v_1288(v_1304: vec2<u32>) -> bool {
  let v_1306 = v_675(v_1304);
  let v_1307 = v_745(v_1306);
  return v_1307;
}

fn v_661(v_1308: vec2<u32>, v_1309: vec2<u32>) -> bool {
  let v_1311 = v_1312(v_1308, v_1309);
  let v_1313 = v_1314(v_1308, v_1309);
  return (v_1313 && (!v_1311));
}

fn v_1312(v_1317: vec2<u32>, v_1318: vec2<u32>) -> bool {
  let v_1320 = v_1288(v_1317);
  let v_1321 = v_1288(v_1318);
  return (v_1320 || v_1321);
}

fn v_1314(v_1323: vec2<u32>, v_1324: vec2<u32>) -> bool {
  let v_1326 = v_1323[1];
  let v_1327 = (v_1326 >= 2147483648u);
  let v_1328 = v_1324[1];
  let v_1336 = (((v_1323[0] | v_1324[0]) | ((v_1326 | v_1328) & 2147483647u)) == 0u);
  let v_1337 = (v_1327 == (v_1328 >= 2147483648u));
  let v_1338 = v_680(v_1327, v_1324, v_1323);
  let v_1339 = v_680(v_1327, v_1323, v_1324);
  let v_1340 = v_678(v_1338, v_1339);
  return select((v_1327 && (!v_1336)), v_1340, v_1337);
}

@compute @workgroup_size(128, 1, 1)
fn main(@builtin(local_invocation_index) gl_LocalInvocationIndex_in: u32, @builtin(global_invocation_id) gl_GlobalInvocationID_: vec3<u32>, @builtin(num_workgroups) gl_NumWorkGroups_: vec3<u32>, @builtin(workgroup_id) gl_WorkGroupID_: vec3<u32>) {
  gl_LocalInvocationIndex_ = gl_LocalInvocationIndex_in;
  var next_state_: vec2<u32>;
  var pq_: vec2<u32>;
  var k_: u32;
  var param_: vec2<u32>;
  var param_219: vec2<u32>;
  var alpha_: vec2<u32>;
  var after_: vec2<u32>;
  var gain_: vec2<u32>;
  var gains_: vec2<u32>;
  var iterations_: vec2<u32>;
  var recent_: vec2<u32>;
  var least_: vec2<u32>;
  var rz_: vec2<u32>;
  var rr_: vec2<u32>;
  var grid_: u32;
  var b_: u32;
  var k_309: u32;
  var d_0_: vec2<u32>;
  var d_1_: vec2<u32>;
  var d_2_: vec2<u32>;
  var r_0_: vec2<u32>;
  var r_1_: vec2<u32>;
  var r_2_: vec2<u32>;
  var m_0_: vec2<u32>;
  var m_1_: vec2<u32>;
  var m_2_: vec2<u32>;
  var m_3_: vec2<u32>;
  var m_4_: vec2<u32>;
  var m_5_: vec2<u32>;
  var z_0_: vec2<u32>;
  var z_1_: vec2<u32>;
  var z_2_: vec2<u32>;
  var rz_term_: vec2<u32>;
  var rr_term_: vec2<u32>;
  var total_0_: vec2<u32>;
  var param_607: vec2<u32>;
  var total_1_: vec2<u32>;
  var param_628: vec2<u32>;
  var v_140: bool;
  var v_148: bool;
  var v_149: bool;
  var v_215: bool;
  var v_221: bool;
  var v_222: bool;
  next_state_ = v_134.decision_[i32(0)];
  let v_657 = v_658(next_state_, vec2<u32>(0u, 0u));
  v_140 = (!v_657);
  if (v_140) {
    v_148 = (gl_GlobalInvocationID_[0u] == 0u);
    v_149 = v_148;
  } else {
    v_149 = v_140;
  }
  if (v_149) {
    v_155.scalars_[i32(24)] = next_state_;
  }
  let v_659 = v_658(next_state_, vec2<u32>(0u, 0u));
  if ((!v_659)) {
    return;
  }
  pq_ = vec2<u32>(0u, 0u);
  if ((gl_LocalInvocationIndex_ < v_168.sums_count_)) {
    let v_184 = (v_168.sums_first_ + gl_LocalInvocationIndex_);
    pq_ = v_179.curvature_[v_184];
  }
  k_ = (gl_LocalInvocationIndex_ + 128u);
  loop {
    if ((k_ < v_168.sums_count_)) {
      let v_202 = (v_168.sums_first_ + k_);
      let v_206 = v_660(pq_, v_179.curvature_[v_202]);
      pq_ = v_206;
    } else {
      break;
    }
    continuing {
      k_ = (k_ + 128u);
    }
  }
  param_ = pq_;
  workgroup_totals_(&param_);
  pq_ = param_;
  let v_214 = v_661(vec2<u32>(0u, 0u), pq_);
  v_215 = (!v_214);
  if ((!v_215)) {
    param_219 = pq_;
    v_221 = tg_is_inf_f64_(&param_219);
    v_222 = v_221;
  } else {
    v_222 = v_215;
  }
  if (v_222) {
    next_state_ = vec2<u32>(0u, 1073741824u);
  }
  let v_231 = v_662(v_134.decision_[i32(13)], pq_);
  alpha_ = v_231;
  if ((gl_GlobalInvocationID_[0u] == 0u)) {
    after_ = next_state_;
    let v_240 = v_658(next_state_, vec2<u32>(0u, 0u));
    if (v_240) {
      let v_247 = v_663(alpha_, v_134.decision_[i32(13)]);
      gain_ = v_247;
      let v_253 = v_660(v_155.scalars_[i32(12)], gain_);
      gains_ = v_253;
      let v_259 = v_660(v_155.scalars_[i32(11)], vec2<u32>(0u, 1072693248u));
      iterations_ = v_259;
      v_155.scalars_[i32(12)] = gains_;
      v_155.scalars_[i32(11)] = iterations_;
      let v_267 = v_663(iterations_, gain_);
      recent_ = v_267;
      let v_273 = v_663(v_155.scalars_[i32(10)], gains_);
      least_ = v_273;
      let v_276 = v_661(recent_, least_);
      if (v_276) {
        after_ = vec2<u32>(0u, 1072693248u);
      }
    }
    v_155.scalars_[i32(24)] = after_;
    v_155.scalars_[i32(25)] = v_134.decision_[i32(13)];
  }
  let v_664 = v_658(next_state_, vec2<u32>(0u, 0u));
  if ((!v_664)) {
    return;
  }
  rz_ = vec2<u32>(0u, 0u);
  rr_ = vec2<u32>(0u, 0u);
  grid_ = (gl_NumWorkGroups_[0u] * 128u);
  b_ = gl_GlobalInvocationID_[0u];
  loop {
    if ((b_ < v_168.count_)) {
      k_309 = (v_168.first_ + (b_ * 3u));
      let v_322 = k_309;
      let v_330 = k_309;
      let v_324 = v_321.delta_[v_322];
      let v_333 = v_663(alpha_, v_329.direction_[v_330]);
      let v_334 = v_660(v_324, v_333);
      d_0_ = v_334;
      let v_337 = (k_309 + 1u);
      let v_342 = (k_309 + 1u);
      let v_339 = v_321.delta_[v_337];
      let v_345 = v_663(alpha_, v_329.direction_[v_342]);
      let v_346 = v_660(v_339, v_345);
      d_1_ = v_346;
      let v_349 = (k_309 + 2u);
      let v_354 = (k_309 + 2u);
      let v_351 = v_321.delta_[v_349];
      let v_357 = v_663(alpha_, v_329.direction_[v_354]);
      let v_358 = v_660(v_351, v_357);
      d_2_ = v_358;
      let v_364 = k_309;
      let v_372 = k_309;
      let v_366 = v_363.residual_[v_364];
      let v_375 = v_663(alpha_, v_371.product_[v_372]);
      let v_376 = v_665(v_366, v_375);
      r_0_ = v_376;
      let v_379 = (k_309 + 1u);
      let v_384 = (k_309 + 1u);
      let v_381 = v_363.residual_[v_379];
      let v_387 = v_663(alpha_, v_371.product_[v_384]);
      let v_388 = v_665(v_381, v_387);
      r_1_ = v_388;
      let v_391 = (k_309 + 2u);
      let v_396 = (k_309 + 2u);
      let v_393 = v_363.residual_[v_391];
      let v_399 = v_663(alpha_, v_371.product_[v_396]);
      let v_400 = v_665(v_393, v_399);
      r_2_ = v_400;
      if ((v_168.masked_ != 0u)) {
        let v_411 = k_309;
        if ((v_410.fixed_scalars_[v_411] != 0u)) {
          r_0_ = vec2<u32>(0u, 0u);
        }
        let v_419 = (k_309 + 1u);
        if ((v_410.fixed_scalars_[v_419] != 0u)) {
          r_1_ = vec2<u32>(0u, 0u);
        }
        let v_426 = (k_309 + 2u);
        if ((v_410.fixed_scalars_[v_426] != 0u)) {
          r_2_ = vec2<u32>(0u, 0u);
        }
      }
      let v_441 = (v_168.inverse_first_ + b_);
      m_0_ = v_436.inverse_blocks_[v_441];
      let v_451 = ((v_168.inverse_first_ + v_168.count_) + b_);
      m_1_ = v_436.inverse_blocks_[v_451];
      let v_462 = ((v_168.inverse_first_ + (2u * v_168.count_)) + b_);
      m_2_ = v_436.inverse_blocks_[v_462];
      let v_473 = ((v_168.inverse_first_ + (3u * v_168.count_)) + b_);
      m_3_ = v_436.inverse_blocks_[v_473];
      let v_485 = ((v_168.inverse_first_ + (4u * v_168.count_)) + b_);
      m_4_ = v_436.inverse_blocks_[v_485];
      let v_497 = ((v_168.inverse_first_ + (5u * v_168.count_)) + b_);
      m_5_ = v_436.inverse_blocks_[v_497];
      let v_503 = v_663(m_0_, r_0_);
      let v_506 = v_663(m_1_, r_1_);
      let v_507 = v_660(v_503, v_506);
      let v_510 = v_663(m_2_, r_2_);
      let v_511 = v_660(v_507, v_510);
      z_0_ = v_511;
      let v_515 = v_663(m_1_, r_0_);
      let v_518 = v_663(m_3_, r_1_);
      let v_519 = v_660(v_515, v_518);
      let v_522 = v_663(m_4_, r_2_);
      let v_523 = v_660(v_519, v_522);
      z_1_ = v_523;
      let v_527 = v_663(m_2_, r_0_);
      let v_530 = v_663(m_4_, r_1_);
      let v_531 = v_660(v_527, v_530);
      let v_534 = v_663(m_5_, r_2_);
      let v_535 = v_660(v_531, v_534);
      z_2_ = v_535;
      let v_536 = k_309;
      v_321.delta_[v_536] = d_0_;
      let v_540 = (k_309 + 1u);
      v_321.delta_[v_540] = d_1_;
      let v_544 = (k_309 + 2u);
      v_321.delta_[v_544] = d_2_;
      let v_547 = k_309;
      v_363.residual_[v_547] = r_0_;
      let v_551 = (k_309 + 1u);
      v_363.residual_[v_551] = r_1_;
      let v_555 = (k_309 + 2u);
      v_363.residual_[v_555] = r_2_;
      let v_562 = k_309;
      v_561.preconditioned_[v_562] = z_0_;
      let v_566 = (k_309 + 1u);
      v_561.preconditioned_[v_566] = z_1_;
      let v_570 = (k_309 + 2u);
      v_561.preconditioned_[v_570] = z_2_;
      let v_576 = v_663(r_0_, z_0_);
      let v_579 = v_663(r_1_, z_1_);
      let v_580 = v_660(v_576, v_579);
      let v_583 = v_663(r_2_, z_2_);
      let v_584 = v_660(v_580, v_583);
      rz_term_ = v_584;
      let v_587 = v_660(rz_, rz_term_);
      rz_ = v_587;
      let v_591 = v_663(r_0_, r_0_);
      let v_594 = v_663(r_1_, r_1_);
      let v_595 = v_660(v_591, v_594);
      let v_598 = v_663(r_2_, r_2_);
      let v_599 = v_660(v_595, v_598);
      rr_term_ = v_599;
      let v_602 = v_660(rr_, rr_term_);
      rr_ = v_602;
    } else {
      break;
    }
    continuing {
      b_ = (b_ + grid_);
    }
  }
  param_607 = rz_;
  let v_609 = workgroup_sum_(&param_607);
  total_0_ = v_609;
  if ((gl_LocalInvocationIndex_ == 0u)) {
    let v_624 = (v_168.out_first_ + gl_WorkGroupID_[0u]);
    v_617.partials_[v_624] = total_0_;
  }
  param_628 = rr_;
  let v_630 = workgroup_sum_(&param_628);
  total_1_ = v_630;
  if ((gl_LocalInvocationIndex_ == 0u)) {
    let v_643 = ((v_168.out_first_ + v_168.out_stride_) + gl_WorkGroupID_[0u]);
    v_617.partials_[v_643] = total_1_;
  }
  return;
}
