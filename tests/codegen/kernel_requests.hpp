// Programs and kernel requests that tests of the emitter share.
#pragma once

#include "../../codegen/kernel.hpp"
#include "../../ir/checking/error_bound.hpp"
#include "../../ir/program.hpp"

#include <array>
#include <vector>

namespace topograd::test {

/// |x_a - x_b| - rest over parameters x_a (0 to 2), x_b (3 to 5) and datum `rest`, with a norm that
/// is safe at 0.
ir::Program springs();
/// sqrt(x_a² + 2) y_b + z_b / sqrt(y_a² + 2) - rest of the same parameters.
ir::Program scaled();
/// p0 * 2 + p1.
ir::Program affine();

/// One index column per end, coordinates at offsets 0 to 2; one data column. Names as in user code.
codegen::KernelRequest springs_request(codegen::Form form, codegen::Precision precision);
codegen::KernelRequest springs_residual(codegen::Precision precision);
codegen::KernelRequest springs_cost(codegen::Precision precision);
codegen::KernelRequest springs_gradient_scatter(codegen::Precision precision,
                                                codegen::Accumulation accumulation);
codegen::KernelRequest springs_jtjp_scatter(codegen::Precision precision);
/// Two block slots: the block is end a, or end b; an entry stores the other end.
codegen::KernelRequest springs_gradient_gather(codegen::Precision precision);
/// The gradient by block; the first block slot also gives the cost and the row.
codegen::KernelRequest springs_values_gather(codegen::Precision precision);
/// Stored terms of the gradient, and the cost.
codegen::KernelRequest springs_cost_gradient_store(codegen::Precision precision);
/// The same for scaled(), in which some terms depend on end a alone and so on the block alone.
codegen::KernelRequest scaled_gradient_gather(codegen::Precision precision);
/// JᵀJ·p of springs, by block.
codegen::KernelRequest springs_jtjp_gather(codegen::Precision precision);
codegen::KernelRequest springs_sum_terms(codegen::Precision precision);
codegen::KernelRequest affine_residual(codegen::Precision precision);
codegen::KernelRequest affine_gradient_scatter(codegen::Precision precision);

/// A residual of one op on its first parameters.
ir::Program single_op(ir::Op op);

/// Operands of one op, three columns: numbers against each other, with `specials` also zeros,
/// infinities, NaN, huge and tiny numbers, and random ones in the domain.
std::vector<std::vector<double>> op_operands(const ir::OpInfo& info, bool specials);

/// Deviation from the op table's bound at one point. Composite ops may have the errors of their
/// parts; points near a jump are not checked. T is float or double.
template <class T>
ir::Deviation op_deviation(const ir::OpInfo& info, const std::array<double, 3>& at, double got);

}  // namespace topograd::test
