"""minimize beside SciPy's, on functions whose terms are all different, or too long for kernels: minimize.py [NAME...]

Processor time of a call with a new function, medians of five; both from the same start.
"""

import statistics
import sys
import time

import numpy as np
import scipy.optimize

import topograd

CALLS = 5


def cox(random):
    """Partial likelihood of 60 events, three covariates."""
    x = random.normal(size=(60, 3))
    times, seen = random.exponential(size=60) * np.exp(-x @ [0.5, -0.3, 0.0]), random.random(60) < 0.8
    x = x[np.argsort(-times)]
    return lambda b: -np.sum((x @ b - np.log(np.cumsum(np.exp(x @ b))))[seen]), np.zeros(3)


def kalman(random, steps=60):
    """A random walk behind noise: the two variances."""
    seen = np.cumsum(random.normal(size=steps)) + 0.5 * random.normal(size=steps)

    def f(p):
        step, noise = np.exp(p)
        mean, variance, total = 0.0, 10.0, 0.0
        for v in seen:
            variance = variance + step
            gain = variance / (variance + noise)
            total = total + 0.5 * (np.log(variance + noise) + (v - mean) ** 2 / (variance + noise))
            mean, variance = mean + gain * (v - mean), (1 - gain) * variance
        return total

    return f, np.zeros(2)


def long_kalman(random):
    """The same with 400 steps."""
    return kalman(random, 400)


def garch(random):
    """GARCH(1, 1) of 1,000 returns."""
    returns = 0.01 * random.normal(size=1000)

    def f(p):
        constant, share, memory = np.exp(p[0]), 1 / (1 + np.exp(-p[1])), 1 / (1 + np.exp(-p[2]))
        variance, total = np.var(returns), 0.0
        for v in returns:
            total = total + np.log(variance) + v * v / variance
            variance = constant + share * v * v + memory * variance
        return 0.5 * total

    return f, np.array([-10.0, -2.0, 0.0])


def log_sum(random):
    """Logarithm of a sum of 400 exponentials of 30 unknowns."""
    a = random.normal(size=(400, 30))
    return lambda x: np.log(np.sum(np.exp(a @ x))) + 0.01 * x @ x, np.zeros(30)


def determinant(random):
    """A Gaussian process on 15 points: a logarithm of a determinant, unrolled."""
    x = np.linspace(0, 5, 15)
    y = np.sin(x) + 0.1 * random.normal(size=15)

    def f(p):
        k = np.exp(2 * p[1]) * np.exp(-0.5 * (x[:, None] - x) ** 2 / np.exp(2 * p[0])) + np.exp(2 * p[2]) * np.eye(15)
        return 0.5 * y @ np.linalg.solve(k, y) + 0.5 * np.linalg.slogdet(k)[1]

    return f, np.zeros(3)


def main():
    programs = {f.__name__: f for f in (cox, kalman, long_kalman, garch, log_sum, determinant)}
    for name in sys.argv[1:] or programs:
        times, ends = ([], []), [None, None]
        for k in range(CALLS + 1):  # the first one is not counted
            for which, minimize in enumerate((topograd.minimize, scipy.optimize.minimize)):
                f, start = programs[name](np.random.default_rng(7))
                began = time.process_time()
                ends[which] = minimize(f, start)
                times[which].append(time.process_time() - began)
        ours, theirs = (1e3 * statistics.median(t[1:]) for t in times)
        print(f"{name:12} topograd {ours:7.2f} ms, {ends[0].fun:.9g} ({ends[0].success}); "
              f"SciPy {theirs:7.2f} ms, {ends[1].fun:.9g} ({ends[1].success}): {ours / theirs:.2f} times")


if __name__ == "__main__":
    main()
