"""Fits of three numbers to many trajectories, beside SciPy's least_squares in a loop:
many_trajectories.py [TRAJECTORIES [STEPS [BACKEND]]]

y' = a - b y + c y^2 by Euler's steps. SciPy fits ten of the trajectories, and its time is that of all in proportion.
Times are of whole calls, the first of which traces and compiles.
"""

import sys
import time

import numpy as np
import scipy.optimize
import topograd

STEP, FIRST, FITTED = 0.005, 0.3, 10


def states(p, steps):
    """Of p of shape (..., 3): shape (..., steps)."""
    y = topograd.scan(steps - 1, FIRST * np.ones(p.shape[:-1]),
                      lambda k, y: y + STEP * (p[..., 0] - p[..., 1] * y + p[..., 2] * y * y))
    return np.moveaxis(y, 0, -1)


def states_of_one(p, steps):
    """The same for numbers, without the work of scan()."""
    y = np.empty(steps)
    y[0] = s = FIRST
    a, b, c = p
    for k in range(1, steps):
        y[k] = s = s + STEP * (a - b * s + c * s * s)
    return y


def main():
    count, steps = (int(v) for v in (sys.argv[1:3] + ["1000", "1000"][len(sys.argv[1:3]):]))
    options = {"backend": sys.argv[3], "fallback": False} if len(sys.argv) > 3 else {"fallback": False}
    random = np.random.default_rng(4)
    truth = np.array([1.0, 0.8, -0.1]) * (1 + 0.1 * random.normal(size=(count, 3)))
    measured = states(truth, steps) + 0.01 * random.normal(size=(count, steps))
    start = np.tile([0.8, 0.6, 0.0], (count, 1))
    times = []
    for _ in range(6):
        begin = time.perf_counter()
        found = topograd.least_squares_many(lambda p, m: states(p, steps) - m, start, (measured,), options=options)
        times.append(time.perf_counter() - begin)
    fitted, above = min(count, FITTED), 0.0
    begin = time.perf_counter()
    for k in range(fitted):
        peer = scipy.optimize.least_squares(lambda p: states_of_one(p, steps) - measured[k], start[k])
        above = max(above, found.cost[k] / peer.cost - 1)
    theirs = (time.perf_counter() - begin) / fitted * count
    first, later = times[0], sorted(times[1:])[len(times) // 2 - 1]
    print(f"first call {1e3 * first:.1f} ms, later {1e3 * later:.1f} ms, SciPy {1e3 * theirs:.0f} ms: "
          f"{theirs / first:.0f} and {theirs / later:.0f} times as long; {np.sum(found.success)} of {count} "
          f"succeeded, costs at most {above:.0e} above SciPy's")


if __name__ == "__main__":
    main()
