"""Calls of least_squares in fresh processes, beside SciPy's: first_call.py [PROCESSES]

Processor time of the first, the second and of later calls of a fit of 60 rows, medians.
"""

import statistics
import subprocess
import sys
import time

CALLS = 300


def measure(module):
    """Prints milliseconds of the first call, of the second, and of one of many later ones."""
    import numpy as np

    if module == "topograd":
        from topograd import least_squares
    else:
        from scipy.optimize import least_squares
    t = np.linspace(0, 4, 60)
    y = 2.5 * np.exp(-1.3 * t) + 0.5 + 0.01 * np.sin(9 * t)

    def residuals(x):
        return x[0] * np.exp(-x[1] * t) + x[2] - y

    times = [time.process_time()]
    for calls in (1, 1, CALLS):
        for _ in range(calls):
            least_squares(residuals, [1.0, 1.0, 0.0])
        times.append(time.process_time())
    first, second, later = (1e3 * (b - a) for a, b in zip(times, times[1:]))
    print(first, second, later / CALLS)


def main():
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    times = {"topograd": [], "scipy": []}
    for _ in range(processes):
        for module, rows in times.items():
            out = subprocess.run([sys.executable, __file__, "--measure", module], check=True, capture_output=True)
            rows.append([float(v) for v in out.stdout.split()])
    ours, theirs = ([statistics.median(column) for column in zip(*rows)] for rows in times.values())
    for name, a, b in zip(("first", "second", "later"), ours, theirs):
        print(f"{name:7} topograd {a:5.2f} ms, SciPy {b:5.2f} ms: {a / b:.2f} times")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2])
    else:
        main()
