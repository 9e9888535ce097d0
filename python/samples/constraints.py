"""A chain of points with fixed lengths that hangs over a ball: equalities, inequalities, multipliers."""

import numpy as np

import topograd

COUNT, RADIUS, LENGTH = 21, 0.6, 0.12
wish = np.stack([0.1 * np.arange(COUNT) - 1, np.full(COUNT, 0.2), np.full(COUNT, 0.1)], 1)

points = wish.copy()
p = topograd.Problem()
x = p.parameters(points)
p.residuals(lambda at: at - wish, x)
# c(x) = 0: neighbours are LENGTH apart.
links = p.add_equality(lambda a, b: np.linalg.norm(b - a, axis=1) - LENGTH, x[:-1], x[1:],
                       label="link")
# c(x) >= 0: no point is inside of the ball around the origin.
outside = p.add_inequality(lambda at: np.sum(at * at, axis=1) - RADIUS**2, x, label="outside")

summary = p.solve(constraint_tolerance=1e-6, kkt_tolerance=1e-5)
print(summary)
print("points that touch the ball:", np.nonzero(summary.multipliers(outside))[0])
print("largest multiplier of a link:", np.abs(summary.multipliers(links)).max())

assert summary.termination == "CONVERGENCE"
assert np.abs(np.linalg.norm(np.diff(points, axis=0), axis=1) - LENGTH).max() < 1e-6
assert np.linalg.norm(points, axis=1).min() > RADIUS - 1e-6
