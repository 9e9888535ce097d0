"""Problems that are solved again with new data, beside SciPy's least_squares: solved_again.py [PROCESSES [PROGRAM...]]

Programs are those of first_call.py. Each process adds one to a Problem, with the measurements as data(), and
solves it with 40 sets of them from the same start; SciPy fits the same ones. Medians of processor time.
"""

import statistics
import subprocess
import sys
import time

from first_call import PROGRAMS

DEFAULT = ("cumsum", "holt_winters", "rk4", "heat", "sir", "kinetics")
SETS = 40


def measure(program):
    """Prints milliseconds of a solve, of SciPy's, and by what share costs are above SciPy's at most."""
    import numpy as np
    import scipy.optimize
    import topograd

    residuals, start, y = PROGRAMS[program](np)
    problem = topograd.Problem()
    x = problem.parameters(np.array(start, float))
    measured = problem.data(y)
    problem.residuals(residuals, x, measured)
    solver = problem.solver()
    noise = np.random.default_rng(1)
    ours, theirs, above = [], [], 0.0
    for _ in range(SETS):
        new = y + 0.01 * np.std(y) * noise.normal(size=y.shape)
        begin = time.process_time()
        problem.set(measured, new)
        x.value[:] = start
        summary = solver.solve()
        middle = time.process_time()
        found = scipy.optimize.least_squares(lambda p: residuals(p, new), start)
        theirs.append(time.process_time() - middle)
        ours.append(middle - begin)
        above = max(above, summary.final_cost / found.cost - 1)
    print(1e3 * statistics.median(ours), 1e3 * statistics.median(theirs), above)


def main():
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for program in sys.argv[2:] or DEFAULT:
        rows = []
        for _ in range(processes):
            out = subprocess.run([sys.executable, __file__, "--measure", program], check=True, capture_output=True)
            rows.append([float(v) for v in out.stdout.split()])
        ours, theirs, above = (statistics.median(column) for column in zip(*rows))
        print(f"{program:14} topograd {ours:6.2f} ms, SciPy {theirs:6.2f} ms: {ours / theirs:.2f} times; "
              f"costs at most {above:.0e} above SciPy's")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(*sys.argv[2:])
    else:
        main()
