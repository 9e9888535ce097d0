"""A curve through points: SciPy's least_squares with another import, then with a robust loss."""

import numpy as np
from topograd import least_squares

t = np.linspace(0, 4, 200)
random = np.random.default_rng(1)
y = 2.5 * np.exp(-1.3 * t) + 0.5 + random.normal(0, 0.02, t.size)
y[::20] += 3.0  # outliers


def residuals(x, t, y):
    return x[0] * np.exp(-x[1] * t) + x[2] - y


fit = least_squares(residuals, [1.0, 1.0, 0.0], args=(t, y), verbose=1)
robust = least_squares(residuals, [1.0, 1.0, 0.0], args=(t, y), loss="soft_l1", f_scale=0.05,
                       bounds=([0, 0, 0], [10, 10, 1]))
print("least squares ", fit.x)
print("with soft_l1  ", robust.x)

assert np.allclose(robust.x, [2.5, 1.3, 0.5], atol=0.05)
