"""Fits of an exponential to many curves by curve_fit_many, beside SciPy's curve_fit in a loop: many_fits.py [CURVES [POINTS]]

SciPy fits some hundreds of the curves. Prints times and their ratio, which a loaded machine changes less.
"""

import sys
import time

import numpy as np
import scipy.optimize

import topograd

SOME = 400
ROUNDS = 5
START = [2.0, 1.0, 0.0]


def decay(t, a, b, c):
    return a * np.exp(-b * t) + c


def main():
    count, points = (int(v) for v in (sys.argv[1:] + ["100000", "20"][len(sys.argv) - 1:]))
    random = np.random.default_rng(1)
    t = np.linspace(0, 4, points)
    true = np.stack([random.uniform(1, 4, count), random.uniform(0.5, 2, count), random.uniform(-1, 1, count)])
    y = decay(t, *true[:, :, None]) + random.normal(0, 0.05, (count, points))
    some = min(SOME, count)
    topograd.curve_fit_many(decay, t, y, START)  # threads start
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        found, _, result = topograd.curve_fit_many(decay, t, y, START, full_output=True)
        many = time.perf_counter() - begin
        begin = time.perf_counter()
        alone = [scipy.optimize.curve_fit(decay, t, y[k], START)[0] for k in range(some)]
        loop = (time.perf_counter() - begin) * count / some
        worst = np.max(np.abs(found[:some] - alone) / np.abs(alone))
        print(f"{many:.3f} s, SciPy {loop:.1f} s: {loop / many:.0f} times; {np.sum(result.success)} of {count} "
              f"converged, SciPy's differ by {worst:.1e} at most")


main()
