"""A fit by names, with bounds and standard errors, as users of lmfit know it."""

import numpy as np
import topograd

t = np.linspace(0, 10, 300)
sigma = 0.05
y = 1.7 * np.exp(-0.3 * t) * np.cos(2.1 * t) + np.random.default_rng(2).normal(0, sigma, t.size)

start = {"amplitude": 1.0, "decay": 0.1, "frequency": 2.0}
low = {"amplitude": 0.0, "decay": 0.0}

p = topograd.Problem()
x = {name: p.parameters(np.array([value]), name=name) for name, value in start.items()}
p.residuals((x["amplitude"] * np.exp(-x["decay"] * t) * np.cos(x["frequency"] * t) - y) / sigma)
for name, bound in low.items():
    p.bounds(x[name], lower=bound)
summary = p.solve(function_tolerance=1e-12)

covariance = p.covariance(*x.values())
errors = np.sqrt(np.diag(covariance))
for (name, values), error in zip(x.items(), errors):
    print(f"{name:10} {values.value[0]:9.5f} ± {error:.5f}")
print("reduced chi²", 2 * summary.final_cost / (t.size - len(x)))

assert abs(x["frequency"].value[0] - 2.1) < 0.02
