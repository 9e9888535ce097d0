"""A fit as a layer of a larger program: its derivative in NumPy, torch and JAX."""

import importlib.util

import numpy as np

import topograd

TIMES = np.linspace(0, 4, 30)


class Fit:
    """The amplitude, decay and offset of a curve through y: x*(y)."""

    def __init__(self):
        self.problem = p = topograd.Problem()
        self.x = p.parameters(np.ones(3))
        self.y = p.data(np.zeros(TIMES.size))
        a, b, c = self.x[0], self.x[1], self.x[2]
        p.residuals(a * np.exp(-b * TIMES) + c - self.y)

    def solve(self, y):
        self.problem.set(self.y, np.asarray(y))
        self.x.value[:] = 1
        self.problem.solve(function_tolerance=1e-16, gradient_tolerance=1e-14,
                           parameter_tolerance=1e-14)
        return self.x.value.copy()

    def pullback(self, y, x_bar):
        """The gradient by y of a loss whose gradient by x*(y) is x_bar."""
        self.solve(y)
        return topograd.Sensitivity(self.problem).vjp(np.asarray(x_bar))


def torch_layer(fit):
    import torch

    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y):
            x = fit.solve(y.detach().numpy())
            ctx.sensitivity = topograd.Sensitivity(fit.problem)
            return torch.from_numpy(x)

        @staticmethod
        def backward(ctx, x_bar):
            return torch.from_numpy(ctx.sensitivity.vjp(x_bar.numpy()))

    return Layer.apply


def jax_layer(fit):
    import jax

    @jax.custom_vjp
    def layer(y):
        return jax.pure_callback(fit.solve, jax.ShapeDtypeStruct((3,), y.dtype), y)

    def forward(y):
        return layer(y), y

    def backward(y, x_bar):
        return (jax.pure_callback(fit.pullback, jax.ShapeDtypeStruct(y.shape, y.dtype), y, x_bar),)

    layer.defvjp(forward, backward)
    return layer


fit = Fit()
seen = 2.5 * np.exp(-1.3 * TIMES) + 0.5 + 0.05 * np.sin(9 * TIMES)
x_bar = np.array([1.0, -2.0, 0.5])  # the gradient of a loss x* . x_bar
y_bar = fit.pullback(seen, x_bar)

# Central differences of whole solves.
step = 1e-3
differences = np.zeros(seen.size)
for k in range(seen.size):
    moved = step * np.eye(seen.size)[k]
    differences[k] = x_bar @ (fit.solve(seen + moved) - fit.solve(seen - moved)) / (2 * step)
error = np.abs(y_bar - differences).max() / np.abs(differences).max()
print("gradient by the first measurements", y_bar[:4])
print("largest error against differences ", error)
assert error < 1e-5

if importlib.util.find_spec("torch"):
    import torch

    y = torch.tensor(seen, requires_grad=True)
    (torch_layer(fit)(y) @ torch.tensor(x_bar)).backward()
    assert np.allclose(y.grad.numpy(), y_bar)

if importlib.util.find_spec("jax"):
    import jax

    jax.config.update("jax_enable_x64", True)
    gradient = jax.grad(lambda y: jax_layer(fit)(y) @ x_bar)(jax.numpy.asarray(seen))
    assert np.allclose(gradient, y_bar)
