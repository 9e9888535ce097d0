"""A sheet of springs on a page, in the browser or in a notebook: live_view.py [SECONDS]."""

import sys

import numpy as np
import topograd

n = 30
k = np.arange(n * n)
i, j = k % n, k // n
cells = k[(i < n - 1) & (j < n - 1)]
faces = np.stack([cells, cells + 1, cells + n + 1, cells + n], 1)
corners = [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]
edges = np.unique(np.sort(np.concatenate([faces[:, pair] for pair in corners]), axis=1), axis=0)
positions = np.stack([i, j, 0.01 * (k % 7)], 1).astype(float)
rest = np.linalg.norm(positions[edges[:, 0]] - positions[edges[:, 1]], axis=1)

p = topograd.Problem()
x = p.parameters(positions)
p.residuals(lambda a, b, rest: np.linalg.norm(a - b, axis=1) - rest,
            x[edges[:, 0]], x[edges[:, 1]], rest)
p.fix(x[[0, n - 1]])

view = topograd.view(p, (x, faces), name="sheet")
print(view.url)  # in a notebook, `view` as the last line of a cell shows the page
view.wait(float(sys.argv[1]) if len(sys.argv) > 1 else 600)
view.close()  # positions has the last frame
print(p)

assert view.closed
