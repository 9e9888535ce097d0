// Ceres' C interface: a problem whose functions are given as C functions.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// NOLINTBEGIN(modernize-use-using): this is C.

/// Initialises logging in Ceres; has no effect here.
void ceres_init(void);

/// Computes residuals, and derivatives if requested, like CostFunction::Evaluate; 0 on failure.
typedef int (*ceres_cost_function_t)(void* user_data, double** parameters, double* residuals,
                                     double** jacobians);
/// Computes rho, rho' and rho'' at a squared norm, like LossFunction::Evaluate.
typedef void (*ceres_loss_function_t)(void* user_data, double squared_norm, double out[3]);

// Data for ceres_stock_loss_function; free them after the problem.
void* ceres_create_huber_loss_function_data(double a);
void* ceres_create_softl1_loss_function_data(double a);
void* ceres_create_cauchy_loss_function_data(double a);
void* ceres_create_arctan_loss_function_data(double a);
void* ceres_create_tolerant_loss_function_data(double a, double b);
void ceres_free_stock_loss_function_data(void* loss_function_data);
/// Evaluates the loss for which the data were created.
void ceres_stock_loss_function(void* user_data, double squared_norm, double out[3]);

struct ceres_problem_s;
typedef struct ceres_problem_s ceres_problem_t;
struct ceres_residual_block_id_s;
typedef struct ceres_residual_block_id_s ceres_residual_block_id_t;

ceres_problem_t* ceres_create_problem(void);
void ceres_free_problem(ceres_problem_t* problem);

/// Adds a residual block; its functions run on the CPU.
///
///   loss_function          NULL for the plain square
///   parameter_block_sizes  num_parameter_blocks numbers
///
/// Returns NULL where Problem::AddResidualBlock would throw.
ceres_residual_block_id_t* ceres_problem_add_residual_block(
    ceres_problem_t* problem, ceres_cost_function_t cost_function, void* cost_function_data,
    ceres_loss_function_t loss_function, void* loss_function_data, int num_residuals,
    int num_parameter_blocks, int* parameter_block_sizes, double** parameters);

/// Minimises by DENSE_QR with at most 100 iterations and prints the progress and the full report,
/// as Ceres does.
void ceres_solve(ceres_problem_t* problem);

// NOLINTEND(modernize-use-using)

#ifdef __cplusplus
}
#endif
