"""Calls of least_squares in fresh processes, beside SciPy's: first_call.py [PROCESSES [PROGRAM...]]

Processor time of the first, the second and of later calls of a fit, medians. Programs: a decay of 60 rows
(the default), and simulations: cumsum, heat, holt_winters, rk4, sir, kinetics, odeint, battery,
implicit_heat, lfilter, trapezoid, backward_euler, running_sums.
"""

import statistics
import subprocess
import sys
import time


def decay(np):
    t = np.linspace(0, 4, 60)
    y = 2.5 * np.exp(-1.3 * t) + 0.5 + 0.01 * np.sin(9 * t)
    return lambda x, y: x[0] * np.exp(-x[1] * t) + x[2] - y, [1.0, 1.0, 0.0], y


def cumsum(np):
    """A walk of 3,000 steps, driven by measured inputs."""
    random = np.random.default_rng(0)
    u = random.normal(size=3000)
    y = np.cumsum(1.3 * u) + 0.2 + random.normal(0, 0.1, u.size)
    return lambda p, y: np.cumsum(p[0] * u + p[2] * u**2) + p[1] - y, [1.0, 0.0, 0.0], y


def heat(np):
    """Explicit steps of the heat equation: 48 cells, 200 steps, the last state is measured."""
    cells, steps = 48, 200
    x = np.linspace(0, 1, cells)

    def states(p):
        u = np.exp(-50 * (x - 0.3) ** 2)
        for _ in range(steps):
            inner = u[1:-1] + 0.4 * p[0] * (u[2:] - 2 * u[1:-1] + u[:-2])
            u = np.concatenate([[p[1]], inner, [p[2]]])
        return u

    y = states(np.array([0.8, 0.1, 0.3])) + 0.01 * np.random.default_rng(0).normal(size=cells)
    return lambda p, y: states(p) - y, [0.5, 0.0, 0.0], y


def holt_winters(np):
    """Additive exponential smoothing of 120 months: level, trend and season."""
    k = np.arange(120)
    y = 20 + 0.2 * k + 5 * np.sin(k * np.pi / 6) + np.random.default_rng(0).normal(size=k.size)

    def residuals(p, y):
        a, b, c = p
        level, trend = y[0], 0.0
        season = [y[i] - y[:12].mean() for i in range(12)]
        out = []
        for i in range(12, 120):
            out.append(y[i] - (level + trend + season[i % 12]))
            last = level
            level = a * (y[i] - season[i % 12]) + (1 - a) * (level + trend)
            trend = b * (level - last) + (1 - b) * trend
            season[i % 12] = c * (y[i] - level) + (1 - c) * season[i % 12]
        return np.array(out)

    return residuals, [0.3, 0.1, 0.1], y


def rk4(np):
    """A damped pendulum, 100 steps of Runge and Kutta's scheme."""
    def states(p):
        def right(s):
            return np.array([s[1], -p[0] * np.sin(s[0]) - p[1] * s[1]])

        s, h, out = np.array([p[2], 0.0]), 0.05, []
        for _ in range(100):
            a = right(s)
            b = right(s + h / 2 * a)
            c = right(s + h / 2 * b)
            d = right(s + h * c)
            s = s + h / 6 * (a + 2 * b + 2 * c + d)
            out.append(s[0])
        return np.array(out)

    y = states(np.array([9.81, 0.3, 1.0])) + 0.01 * np.random.default_rng(0).normal(size=100)
    return lambda p, y: states(p) - y, [8.0, 0.1, 0.8], y


def sir(np):
    """An epidemic, 150 days by Euler's steps."""
    def states(p):
        s, i, out = 1.0 - p[2], p[2], []
        for _ in range(150):
            new, gone = p[0] * s * i, p[1] * i
            s, i = s - new, i + new - gone
            out.append(i)
        return np.array(out)

    y = states(np.array([0.35, 0.1, 1e-3])) + 1e-3 * np.random.default_rng(0).normal(size=150)
    return lambda p, y: states(p) - y, [0.3, 0.08, 2e-3], y


def kinetics(np):
    """A -> B <-> C, 200 steps of the midpoint rule; B is measured."""
    def states(p):
        def right(c):
            one, two, back = p[0] * c[0], p[1] * c[1], p[2] * c[2]
            return -one, one - two + back, two - back

        c, h, out = (1.0, 0.0, 0.0), 0.05, []
        for _ in range(200):
            d = right(c)
            d = right([v + h / 2 * w for v, w in zip(c, d)])
            c = [v + h * w for v, w in zip(c, d)]
            out.append(c[1])
        return np.array(out)

    y = states(np.array([1.2, 0.5, 0.1])) + 0.01 * np.random.default_rng(0).normal(size=200)
    return lambda p, y: states(p) - y, [0.8, 0.8, 0.2], y


def odeint(np):
    """The same kinetics by SciPy's odeint, at 40 times."""
    from scipy.integrate import odeint as integrate

    t = np.linspace(0, 10, 40)

    def right(c, _, k, l, m):
        one, two, back = k * c[0], l * c[1], m * c[2]
        return [-one, one - two + back, two - back]

    def states(p):
        return integrate(right, [1.0, 0.0, 0.0], t, args=(p[0], p[1], p[2]))[:, 1]

    y = states(np.array([1.2, 0.5, 0.1])) + 0.01 * np.random.default_rng(0).normal(size=t.size)
    return lambda p, y: states(p) - y, [0.8, 0.8, 0.2], y


def battery(np):
    """A cell's voltage: its charge is counted, one RC element, and a table of the voltage at rest."""
    random = np.random.default_rng(0)
    current = random.normal(1.0, 0.5, 300)
    at = np.linspace(0, 1, 8)

    def states(p):
        charge, u, out = 0.95, 0.0, []
        for i in current:
            charge = charge - i * p[0] / 500
            u = p[1] * u + p[2] * i
            out.append(np.interp(charge, at, rest) - u - p[3] * i)
        return np.array(out)

    rest = 3 + at - 0.3 * at**2
    y = states(np.array([1.0, 0.9, 0.01, 0.05])) + 1e-3 * random.normal(size=300)
    return lambda p, y: states(p) - y, [1.1, 0.8, 0.02, 0.02], y


def implicit_heat(np):
    """Backward Euler of the heat equation: 20 cells, 30 steps, a system of equations in each."""
    cells, x = 20, np.linspace(0, 1, 20)
    second = np.diag(-2 * np.ones(cells)) + np.diag(np.ones(cells - 1), 1) + np.diag(np.ones(cells - 1), -1)

    def states(p):
        matrix = np.eye(cells) - p[0] * second
        u, out = p[1] * np.sin(np.pi * x), []
        for _ in range(30):
            u = np.linalg.solve(matrix, u + p[2] * x)
            out.append(u[5])
        return np.array(out)

    y = states(np.array([0.8, 1.0, 0.02])) + 1e-3 * np.random.default_rng(0).normal(size=30)
    return lambda p, y: states(p) - y, [0.4, 0.8, 0.0], y


def lfilter(np):
    """A second-order filter of 500 samples."""
    from scipy.signal import lfilter as filtered

    u = np.random.default_rng(0).normal(size=500)
    y = filtered([0.2, 0.1], [1.0, -1.2, 0.5], u) + 0.01 * np.random.default_rng(1).normal(size=500)
    return lambda p, y: filtered([p[0], p[1]], np.array([1.0, p[2], p[3]]), u) - y, [0.1, 0.0, -0.8, 0.3], y


def trapezoid(np):
    """An integral of a rate by cumulative_trapezoid, at 400 times."""
    from scipy.integrate import cumulative_trapezoid

    t = np.linspace(0, 8, 400)

    def amount(p):
        return cumulative_trapezoid(p[0] * np.exp(-p[1] * t) * (1 + p[2] * np.sin(t)), t, initial=0)

    y = amount(np.array([2.0, 0.4, 0.3])) + 0.01 * np.random.default_rng(0).normal(size=t.size)
    return lambda p, y: amount(p) - y, [1.0, 0.2, 0.0], y


def backward_euler(np):
    """Logistic growth, 150 implicit steps of three Newton iterations each."""
    def states(p):
        u, h, out = p[2], 0.1, []
        for _ in range(150):
            v = u
            for _ in range(3):
                v = v - (v - u - h * p[0] * v * (1 - v / p[1])) / (1 - h * p[0] * (1 - 2 * v / p[1]))
            u = v
            out.append(u)
        return np.array(out)

    y = states(np.array([0.8, 5.0, 0.1])) + 0.01 * np.random.default_rng(0).normal(size=150)
    return lambda p, y: states(p) - y, [0.5, 4.0, 0.2], y


def running_sums(np):
    """A hundred walks of 100 steps each, which share three unknowns."""
    random = np.random.default_rng(0)
    u = random.normal(size=(100, 100))
    y = np.cumsum(1.3 * u, axis=1) + 0.2 + random.normal(0, 0.1, u.shape)
    return lambda p, y: (np.cumsum(p[0] * u + p[2] * u**2, axis=1) + p[1] - y).ravel(), [1.0, 0.0, 0.0], y


PROGRAMS = {f.__name__: f for f in (decay, cumsum, heat, holt_winters, rk4, sir, kinetics, odeint, battery,
                                    implicit_heat, lfilter, trapezoid, backward_euler, running_sums)}


def measure(module, program):
    """Prints milliseconds of the first call, of the second, and of one of many later ones."""
    import numpy as np

    if module == "topograd":
        from topograd import least_squares
    else:
        from scipy.optimize import least_squares
    residuals, start, y = PROGRAMS[program](np)
    fun = lambda p: residuals(p, y)  # noqa: E731
    calls = 300 if program == "decay" else 10
    times = [time.process_time()]
    for count in (1, 1, calls):
        for _ in range(count):
            least_squares(fun, start)
        times.append(time.process_time())
    first, second, later = (1e3 * (b - a) for a, b in zip(times, times[1:]))
    print(first, second, later / calls)


def main():
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    for program in sys.argv[2:] or ["decay"]:
        times = {"topograd": [], "scipy": []}
        for _ in range(processes):
            for module, rows in times.items():
                out = subprocess.run([sys.executable, __file__, "--measure", module, program], check=True,
                                     capture_output=True)
                rows.append([float(v) for v in out.stdout.split()])
        ours, theirs = ([statistics.median(column) for column in zip(*rows)] for rows in times.values())
        for name, a, b in zip(("first", "second", "later"), ours, theirs):
            print(f"{program:12} {name:7} topograd {a:6.2f} ms, SciPy {b:6.2f} ms: {a / b:.2f} times")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(*sys.argv[2:])
    else:
        main()
