"""A noisy surface is smoothed, and its crease is kept: fit to the start, robust differences along edges."""

import numpy as np
import topograd

n = 80
k = np.arange(n * n)
i, j = k % n, k // n
edges = np.concatenate([np.stack([k, k + 1], 1)[i < n - 1], np.stack([k, k + n], 1)[j < n - 1]])
clean = np.stack([i, j, np.where(i < n // 2, 0.0, 5.0)], 1).astype(float)
noisy = clean + np.random.default_rng(4).normal(0, 0.3, clean.shape)
rest = clean[edges[:, 0]] - clean[edges[:, 1]]
rest[:, 2] = 0.0

positions = noisy.copy()
p = topograd.Problem()
x = p.parameters(positions)
p.residuals(lambda v: v - noisy, x, label="fit")


def difference(a, b, rest):
    return 3.0 * (a - b - rest)


p.residuals(difference, x[edges[:, 0]], x[edges[:, 1]], rest, loss=("cauchy", 1.5), label="edges")
summary = p.solve()
print(p)
print(summary)
before, after = (np.sqrt(np.mean((v - clean) ** 2)) for v in (noisy, positions))
print(f"distance to the clean surface {before:.3f}, then {after:.3f}")

assert after < 0.4 * before
