"""The twenty calls that most programs need, each used once."""
import numpy as np

import topograd

rng = np.random.default_rng(1)
t = np.linspace(0, 3, 200)
y = 2 * np.exp(-1.3 * t) + 0.5 + 0.01 * rng.standard_normal(t.size)


def model(t, a, b, c):
    return a * np.exp(-b * t) + c


# 1 to 3: SciPy's calls.
fit = topograd.least_squares(lambda x, t, y: model(t, *x) - y, [1, 1, 0], args=(t, y))
popt, pcov = topograd.curve_fit(model, t, y, p0=[1, 1, 0], sigma=np.full(t.size, 0.01),
                                absolute_sigma=True)
valley = topograd.minimize(lambda x: (1 - x[0])**2 + 100 * (x[1] - x[0]**2)**2, [-1.2, 1])
assert fit.success and valley.success
assert np.allclose(fit.x, popt, rtol=1e-4) and np.allclose(valley.x, 1, atol=1e-5)

# 4 to 9: a problem is put together from arrays.
points = np.stack([1 + 3 * np.cos(t), 2 + 3 * np.sin(t)], axis=1)
points += 0.001 * rng.standard_normal(points.shape)
p = topograd.Problem()
circle = p.parameters(np.array([0.0, 0.0, 1.0]), block=3, name="circle")
axis = p.parameters(np.array([1.0, 0.0, 0.0]), block=3, name="axis")
seen = p.data(points, name="points")
blocks = p.residuals(lambda d, c: np.hypot(d[:, 0] - c[:, 0], d[:, 1] - c[:, 1]) - c[:, 2],
                     seen, circle[np.zeros(len(points), int)], loss=("cauchy", 0.1), label="distance")
p.residuals(lambda n: n - np.array([0, 0.6, 0.8]), axis, label="target")
p.manifold(axis, "sphere")
p.bounds(circle[:, 2], lower=0, upper=10)
p.fix(circle[:, 0])
p.free(circle[:, 0])

# 10 to 12: solves.
summary = p.solve(max_iterations=100)
print(summary.full_report())
blocks.set_loss(("cauchy", 0.2))
p.set(seen, points)
again = p.solver(function_tolerance=1e-14, gradient_tolerance=1e-12).solve()
assert summary.termination == again.termination == "CONVERGENCE"
assert np.allclose(circle.value, [1, 2, 3], atol=1e-2)
assert np.allclose(axis.value, [0, 0.6, 0.8], atol=1e-5)

# 13 to 16: values and derivatives, at the present numbers or at x.
cost, rows, slope, jacobian = p.cost(), p.evaluate(), p.gradient(), p.jacobian()
assert jacobian.shape == (rows.size, slope.size) == (203, 6) and cost >= 0

# 17 to 19: uncertainty, influence of the data, and the generated shader.
errors = np.sqrt(np.diag(p.covariance(circle)))
by_points = topograd.Sensitivity(p, seen).vjp(np.eye(6)[2])
shader = p.source(kernel="gradient")
assert errors.shape == (3,) and by_points.shape == (400,) and "void main" in shader

# 20: energies and constraints.
q = topograd.Problem()
z = q.parameters(np.array([2.0, 2.0]))
q.energies(lambda z: z**2, z)
q.inequalities(lambda z: z[0] * z[1] - 1, z)
q.equalities(lambda z: z[0] - z[1], z)
q.solve()
assert np.allclose(z.value, 1, atol=1e-6)
print(popt, errors, by_points.reshape(-1, 2)[0], z.value)
