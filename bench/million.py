"""bench/million.py [REPEATS]: the problems of bench_million through least_squares, and their seconds."""

import sys
import time

import numpy as np
from topograd import least_squares

ROWS = 1_000_000


def curve():
    t = 4.0 * np.arange(ROWS) / ROWS
    y = 2.5 * np.exp(-1.3 * t) + 0.5 + 0.02 * np.sin(1000 * t)
    return lambda x, t, y: x[0] * np.exp(-x[1] * t) + x[2] - y, [1.0, 1.0, 0.0], (t, y)


def signal():
    k = np.arange(ROWS // 2)
    measured = np.sin(1e-4 * k) + 0.3 * np.sin(7.0 * k)
    return (lambda x, y: np.concatenate([x - y, 2.0 * np.tanh(x[1:] - x[:-1])]), measured,
            (measured,))


if __name__ == "__main__":
    for problem in (curve, signal):
        for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
            started = time.perf_counter()
            fun, x0, arguments = problem()
            result = least_squares(fun, x0, args=arguments,
                                   options={"fallback": False, "backend": "cpu", "threads": 2})
            seconds = time.perf_counter() - started
            print(f"{problem.__name__}: {seconds:.3f} s, {result.summary.num_iterations} steps, "
                  f"cost {result.cost:.9g}")
