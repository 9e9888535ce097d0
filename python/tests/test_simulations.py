"""Loops whose body is traced once, and differential equations, beside plain loops, SciPy and closed forms."""

import inspect
import itertools
import math
import unittest
import warnings

import numpy as np
import scipy.integrate
import scipy.optimize

import topograd
from topograd import _core
from topograd._least_squares import trace_function

RNG = np.random.default_rng(5)
FORCES = RNG.normal(size=40)
PLANE = RNG.normal(size=(41, 2))
SEASON = RNG.normal(size=7)


def loop(n, state, f):
    """What scan is."""
    now = tuple(float(v) if np.ndim(v) == 0 else np.array(v, float) for v in state) if (
        isinstance(state, (tuple, list))) else (float(state) if np.ndim(state) == 0 else
                                                np.array(state, float))
    states = [now]
    for k in range(n):
        now = f(k, now if not isinstance(now, np.ndarray) else now.copy())
        if not isinstance(state, (tuple, list)) and np.ndim(state):
            now = np.array(now, float)
        states.append(now)
    if isinstance(state, (tuple, list)):
        return tuple(np.stack([np.asarray(s[p], float) for s in states]) for p in range(len(state)))
    return np.stack([np.asarray(s, float) for s in states])


def thermal(p, scan):
    def step(k, state):
        a, b = state
        q = (a - b) / p[2]
        return a + 0.1 * (FORCES[k] - q) / p[0], b + 0.1 * (q - b) / p[1]

    return np.concatenate(scan(40, (p[3], 0.5), step))


def at_other_steps(p, scan):
    inputs = p[0] * FORCES + p[1]

    def step(k, y):
        return (0.9 * y + FORCES[k - 1] * p[2] + inputs[39 - k] - inputs[k] * SEASON[k % 7]
                + PLANE[k + 1, 1] * PLANE[k][0] * p[3] + PLANE[(2 * k) // 3, 0])

    return scan(40, p[3], step)


def the_step_as_a_number(p, scan):
    def step(k, y):
        t = 0.05 * k
        return y + 0.05 * (p[0] * np.sin(p[1] * t) - y * np.where(k > 20, p[2], 0.1)) / (1 + k) ** 0.5

    return scan(40, 1.0, step)


def of_arrays(p, scan):
    x = np.linspace(0, 1, 6)
    weights = np.exp(-p[0] * x)[1:-1]  # not computed again in each step

    def step(k, u):
        inner = u[1:-1] + 0.2 * weights * (u[2:] - 2 * u[1:-1] + u[:-2])
        return np.concatenate([u[:1] * p[1], inner, PLANE[k, :1] * p[2]])

    return scan(40, p[3] + x, step).ravel()


def in_place(p, scan):
    def step(k, m):
        m[0, 1] += p[0] * m[1, 0]
        m[1] *= 1 - 0.1 * p[1]
        return m

    return scan(10, [[1.0, 2.0], [3.0, 4.0]] * p[2:3], step).ravel()


def swapped(p, scan):
    a, b = scan(9, (p[0], p[1] * FORCES[:3]), lambda k, s: (s[1][0] * 0.5, PLANE[k, 0] + s[1] * s[0] * 0.1))
    return np.concatenate([a, b.ravel()])


def nested(p, scan):
    def step(k, y):
        inner = scan(5, y, lambda j, z: 0.8 * z + p[0] * TABLE[k][j] + p[1] * np.sin(z))
        return inner[-1] + 0.1 * inner[2]

    return scan(8, p[2], step)


def fibonacci(p, scan):
    return scan(12, [p[0], p[1]], lambda k, s: [s[1], s[0] * 0.5 + s[1] * 0.25])[0]


TABLE = RNG.normal(size=(8, 5))
LOOPS = (thermal, at_other_steps, the_step_as_a_number, of_arrays, in_place, swapped, nested, fibonacci)


def values_and_jacobian(function, x):
    trace, rows = trace_function(function, x.size, 1.0, (), {})
    model = trace.model(rows, x.copy(), None, True)
    values = _core.Values(model, {"backend": "cpu"}, False)
    return values.residuals(x), values.dense_jacobian(x), trace


def differences(function, x, h=1e-6):
    return np.stack([(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(x.size)], 1)


class Scan(unittest.TestCase):
    def test_is_the_plain_loop(self):
        p = np.array([1.2, 0.7, 1.4, 0.9])
        for function in LOOPS:
            with self.subTest(function.__name__):
                expected = function(p, loop)
                np.testing.assert_array_equal(function(p, topograd.scan), expected)
                found, jacobian, trace = values_and_jacobian(lambda x: function(x, topograd.scan), p)
                self.assertEqual(trace.slow, [])
                np.testing.assert_allclose(found, expected, 1e-13, 1e-13)
                np.testing.assert_allclose(
                    jacobian, differences(lambda x: function(x, loop), p), 2e-7, 2e-8)

    def test_the_body_runs_once(self):
        calls = itertools.count()

        def f(x):
            def step(k, y):
                next(calls)
                return x[0] * y + FORCES[k % 40]

            return topograd.scan(5000, x[0], step)

        values_and_jacobian(f, np.array([0.5]))
        self.assertEqual(next(calls), 1)

    def test_ten_thousand_steps(self):
        """Beside a forward recursion in long double."""
        count = 10_000
        u = np.sin(0.01 * np.arange(count))

        def f(x):
            return topograd.scan(count, x[2], lambda k, y: x[0] * y + x[1] * np.tanh(y) + u[k])[::100]

        x = np.array([0.9, 0.05, 0.3])
        found, jacobian, _ = values_and_jacobian(f, x)
        y, d, expected = np.longdouble(x[2]), np.array([0, 0, 1], np.longdouble), []
        for k in range(count + 1):
            if k % 100 == 0:
                expected.append((y, d))
            if k < count:
                t = np.tanh(y)
                d = np.array([y, t, 0]) + (x[0] + x[1] * (1 - t * t)) * d
                y = x[0] * y + x[1] * t + u[k]
        np.testing.assert_allclose(found, np.array([e[0] for e in expected], float), 1e-12)
        np.testing.assert_allclose(jacobian, np.array([e[1] for e in expected], float), 1e-11, 1e-13)

    def test_bodies_that_differ_are_traced_step_by_step(self):
        def branch(p):
            return lambda k, y: y + p[0] if k % 2 == 0 else y * p[1]

        def own_element(p):
            def body(k, y):
                y[k % 3] = y[k % 3] * p[0] + y[(k + 1) % 3]
                return y

            return body

        def listed(p):
            return lambda k, y: y * [0.5, p[1], 0.25][k % 3] + [1, 2][min(k, 1)]

        for start, body in ((1.0, branch), (np.arange(3.0), own_element), (2.0, listed)):
            with self.subTest(body.__name__):
                p = np.array([0.6, 1.1])
                expected = np.ravel(loop(120, start, body(p)))
                found, jacobian, trace = values_and_jacobian(
                    lambda x: np.ravel(topograd.scan(120, start, body(x))), p)
                np.testing.assert_allclose(found, expected, 1e-12)
                np.testing.assert_allclose(
                    jacobian, differences(lambda x: np.ravel(loop(120, start, body(x))), p), 1e-6, 1e-6)
                self.assertIn("scan traced each of 120 steps", trace.slow[0][1])

    def test_what_it_refuses(self):
        def of_unknown_length(x):
            return topograd.scan(x[0], 1.0, lambda k, y: y * x[1])

        def by_range(x):
            y = x[1]
            for _ in range(x[0]):
                y = y * 0.5
            return y

        for f in (of_unknown_length, by_range):
            line = inspect.getsourcelines(f)[1] + (1 if f is of_unknown_length else 2)
            with self.assertRaisesRegex(topograd.TracingError, f"line {line} of test_simulations.py"):
                values_and_jacobian(f, np.ones(2))
        grows = lambda k, y: np.append(y, 1.0)  # noqa: E731
        for f in (lambda x: topograd.scan(3, x, grows), lambda x: topograd.scan(3, x + 0 * x, grows)):
            with self.assertRaisesRegex(ValueError, r"shape \(2,\), and becomes one of \(3,\)"):
                f(np.ones(2))
            with self.assertRaisesRegex(ValueError, r"shape \(2,\), and becomes one of \(3,\)"):
                values_and_jacobian(f, np.ones(2))
        with self.assertRaisesRegex(ValueError, "2 parts, as the first one, got 3"):
            topograd.scan(2, (1.0, 2.0), lambda k, s: (1.0, 2.0, 3.0))
        with self.assertRaisesRegex(ValueError, "n >= 0 steps, got -1"):
            topograd.scan(-1, 1.0, lambda k, s: s)
        with self.assertRaisesRegex(TypeError, "a number of steps, got float"):
            topograd.scan(2.5, 1.0, lambda k, s: s)
        with self.assertRaisesRegex(IndexError, "index 40 is out of bounds for axis 0 with size 40"):
            values_and_jacobian(lambda x: topograd.scan(41, x[0], lambda k, y: y * FORCES[k]), np.ones(1))
        for n in (0, 1):
            self.assertEqual(topograd.scan(n, np.ones((2, 3)), lambda k, s: s).shape, (n + 1, 2, 3))

    def test_fits_as_the_loop_does(self):
        truth = np.array([1.2, 0.7, 1.4, 0.9])
        measured = thermal(truth, loop) + 0.01 * np.random.default_rng(1).normal(size=82)
        start = np.array([1.0, 1.0, 1.0, 0.5])
        found = topograd.least_squares(lambda p: thermal(p, topograd.scan) - measured, start,
                                       options={"fallback": False})
        scipys = scipy.optimize.least_squares(lambda p: thermal(p, loop) - measured, start, xtol=1e-12,
                                              ftol=1e-12, gtol=1e-12)
        self.assertLessEqual(found.cost, scipys.cost * (1 + 1e-9))
        np.testing.assert_allclose(found.x, scipys.x, 1e-5)


if __name__ == "__main__":
    unittest.main()
