"""Rates of predators and prey: a differential equation is fitted as SciPy's users write it."""

import numpy as np
from scipy.integrate import odeint

from topograd import least_squares


def rates(y, t, birth, hunt, death, growth):
    prey, predators = y
    return [birth * prey - hunt * prey * predators, growth * prey * predators - death * predators]


t = np.linspace(0, 8, 60)
truth = [1.0, 0.1, 1.5, 0.075]
counts = odeint(rates, [10.0, 5.0], t, args=tuple(truth))
counts *= 1 + 0.02 * np.random.default_rng(0).normal(size=counts.shape)


def residuals(p):
    return (odeint(rates, [10.0, 5.0], t, args=tuple(p)) - counts).ravel()


result = least_squares(residuals, [0.8, 0.12, 1.3, 0.06], verbose=1)
print(result.x)
assert np.allclose(result.x, truth, rtol=0.05), result.x
