"""Loops whose body is traced once, and differential equations, beside plain loops, SciPy and closed forms."""

import functools
import inspect
import itertools
import math
import unittest
import warnings

import numpy as np
import scipy.integrate
import scipy.optimize
import scipy.signal

import topograd
from topograd import _core, _least_squares
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


def one_step(a, b, force, h, p):
    flow = (a - b) / p[0]
    return {"a": a + h * (force - flow) / p[1], "b": [b + h * (flow - b * p[2])]}


def by_steps(p, step):
    a, b, out = 1.0, 0.5, []
    for k in range(40):
        found = step(a, b=b, force=FORCES[k], h=0.05, p=p)
        a, b = found["a"], found["b"][0]
        out.append(a + b)
    return np.array(out)


class SharedSums(unittest.TestCase):
    """Rows that sum up the same numbers are evaluated together: operations on arrays, and none for each row."""

    U = RNG.normal(size=400)
    P = np.array([0.8, 1.7, 0.3])

    def test_convolutions_and_filters(self):
        t = np.arange(60)
        sections = scipy.signal.butter(4, 0.2, output="sos")
        response = lambda p: p[0] * np.exp(-p[1] * t / 20) * np.cos(p[2] * t)
        drive = lambda p: p[0] * np.tanh(p[1] * self.U) + p[2]
        for name, function in (
                ("kernel", lambda p: np.convolve(self.U, response(p))[:400]),
                ("signal", lambda p: np.convolve(drive(p), np.exp(-t / 9.0), "valid")),
                ("both", lambda p: np.convolve(drive(p), response(p), "same")),
                ("scipy", lambda p: scipy.signal.fftconvolve(self.U, response(p))),
                ("filter", lambda p: scipy.signal.lfilter([0.1, 0.2], [1, -0.6, 0.3], drive(p))),
                ("integrator", lambda p: scipy.signal.lfilter([0.1], [1, -1], drive(p))),
                ("sections", lambda p: scipy.signal.sosfilt(sections, drive(p))),
                ("integral", lambda p: scipy.integrate.cumulative_trapezoid(drive(p), dx=0.1, initial=0))):
            with self.subTest(name):
                found, jacobian, trace = values_and_jacobian(function, self.P)
                np.testing.assert_allclose(found, function(self.P), 1e-11, 1e-11)
                np.testing.assert_allclose(jacobian, differences(function, self.P), 1e-6, 1e-7)
                trace, rows = trace_function(function, 3, 1.0, (), {})
                sizes = trace.model(rows, self.P.copy(), None, True).sizes()
                self.assertEqual(sizes["topologies"], 0)
                self.assertLess(trace.graph.size(), 1000)

    def test_rows_with_operations_of_their_own_are_kernels(self):
        t = np.linspace(0, 1, 3000)
        trace, rows = trace_function(lambda p: p[0] * np.exp(-p[1] * t) + np.sin(p[2] * t) ** 2 / (1 + t), 3, 1.0,
                                     (), {})
        self.assertEqual(trace.model(rows, self.P.copy(), None, True).sizes()["topologies"], 1)


class Step(unittest.TestCase):
    P = np.array([0.8, 1.7, 0.3])

    def counted(self, f):
        calls = itertools.count()

        @functools.wraps(f)
        def counting(*args, **kwargs):
            next(calls)
            return f(*args, **kwargs)

        return counting, calls

    def test_is_the_plain_loop_and_is_recorded_a_few_times(self):
        counting, calls = self.counted(one_step)
        step = topograd.step(counting)
        expected = by_steps(self.P, one_step)
        np.testing.assert_array_equal(by_steps(self.P, step), expected)
        self.assertEqual(next(calls), 40)  # of numbers each call is one
        found, jacobian, trace = values_and_jacobian(lambda p: by_steps(p, step), self.P)
        self.assertLessEqual(next(calls), 41 + 5)  # numbers and traced states, the forces once more
        self.assertEqual(trace.slow, [])
        np.testing.assert_allclose(found, expected, 1e-13)
        np.testing.assert_allclose(jacobian, differences(lambda p: by_steps(p, one_step), self.P), 1e-7, 1e-9)
        plain = values_and_jacobian(lambda p: by_steps(p, one_step), self.P)
        np.testing.assert_allclose(jacobian, plain[1], 1e-13, 1e-15)

    def test_arrays_and_what_is_captured(self):
        def run(p, decorate):
            scale = p[1] * 2

            @decorate
            def one(y, row, h):
                return y + h * (np.sin(row) * scale - y[::-1] * p[0]) * PLANE[0, 0]

            y, out = np.ones(2), []
            for k in range(40):
                y = one(y, PLANE[k], 0.1)
                out.append(y)
            return np.concatenate(out)

        expected = run(self.P, lambda f: f)
        found, jacobian, _ = values_and_jacobian(lambda p: run(p, topograd.step), self.P)
        np.testing.assert_allclose(found, expected, 1e-13)
        np.testing.assert_allclose(jacobian, differences(lambda p: run(p, lambda f: f), self.P), 1e-7, 1e-9)

    def test_what_changes_from_call_to_call_is_recorded_again(self):
        def captured(p):
            k = 0

            @topograd.step
            def one(y):
                return p[0] * y + FORCES[k]

            y, out = 1.0, []
            for k in range(20):
                y = one(y)
                out.append(y)
            return np.array(out)

        def an_index(p):
            one = topograd.step(lambda y, k: p[0] * y + FORCES[k])
            y, out = 1.0, []
            for k in range(20):
                y = one(y, k)
                out.append(y)
            return np.array(out)

        y, expected = 1.0, []
        for k in range(20):
            y = self.P[0] * y + FORCES[k]
            expected.append(y)
        for function in (captured, an_index):
            with self.subTest(function.__name__):
                found, jacobian, _ = values_and_jacobian(function, self.P)
                np.testing.assert_allclose(found, expected, 1e-14)
                np.testing.assert_allclose(jacobian, differences(function, self.P), 1e-6, 1e-8)

    def test_a_branch_on_numbers_that_differ_is_traced_each_time(self):
        def run(p, decorate):
            one = decorate(lambda y, force: p[0] * y + (p[1] if force > 0 else p[2]))
            y, out = 1.0, []
            for k in range(30):
                y = one(y, FORCES[k])
                out.append(y)
            return np.array(out)

        found, _, trace = values_and_jacobian(lambda p: run(p, topograd.step), self.P)
        np.testing.assert_allclose(found, run(self.P, lambda f: f), 1e-14)
        self.assertEqual(len(trace.slow), 1)
        self.assertIn("topograd.step traced a body again for each call: a branch", trace.slow[0][1])

    def test_a_body_with_side_effects_is_found_out(self):
        kept = []

        @topograd.step
        def one(y, p):
            kept.append(y)
            return p[0] * y + len(kept)

        def run(p):
            kept.clear()
            y, out = 1.0, []
            for _ in range(20):
                y = one(y, p)
                out.append(y)
            return np.array(out)

        with self.assertRaisesRegex(topograd.TracingError, r"row \d+ is"):
            topograd.least_squares(lambda p: run(p) - 3, [0.5], options={"fallback": False})

    def test_methods_and_what_is_no_function(self):
        class Filter:
            def __init__(self, gain):
                self.gain = gain

            @topograd.step
            def update(self, y, p):
                """One step."""
                return y * p[0] + self.gain

        self.assertEqual(Filter.update.__doc__, "One step.")

        def run(p):
            both, y, out = (Filter(0.5), Filter(2.0)), 1.0, []
            for k in range(10):
                y = both[k % 2].update(y, p)
                out.append(y)
            return np.array(out)

        np.testing.assert_allclose(values_and_jacobian(run, self.P)[0], run(self.P), 1e-14)
        with self.assertRaisesRegex(TypeError, "step: expected a function, got int"):
            topograd.step(3)


class Shared(unittest.TestCase):
    def test_rows_that_read_it_are_one_computation(self):
        def f(p, mark):
            middle = mark(thermal(p, topograd.scan)[-1])
            return np.stack([middle * p[k % 4] + np.cos(k * middle) for k in range(12)])

        p = np.array([1.2, 0.7, 1.4, 0.9])
        plain, expected, _ = values_and_jacobian(lambda x: f(x, lambda v: v), p)
        trace, rows = trace_function(lambda x: f(x, topograd.shared), 4, 1.0, (), {})
        model = trace.model(rows, p.copy(), None, True)
        self.assertEqual(model.sizes()["topologies"], 0)
        self.assertEqual(len(model.sizes()["long_expressions"]), 1)
        self.assertIn("12 rows", model.explain())
        values = _core.Values(model, {"backend": "cpu"}, False)
        np.testing.assert_allclose(values.residuals(p), plain, 1e-14)
        np.testing.assert_allclose(values.dense_jacobian(p), expected, 1e-13, 1e-14)
        self.assertEqual(topograd.shared(2.5), 2.5)

    def test_fits(self):
        t = np.linspace(0, 1, 30)
        def f(p):
            a, b = topograd.shared((np.exp(p[0]), p[1:] * p[0]))
            return a * np.exp(-t * b[0]) - 2 * np.exp(-t)
        found = topograd.least_squares(f, [0.5, 1.0], options={"fallback": False})
        np.testing.assert_allclose(found.x, [np.log(2), 1 / np.log(2)], 1e-7)

    def test_steps_that_solve_with_one_matrix_multiply_by_its_inverse(self):
        def heat(p, n=12, steps=30):
            r = p[0] * 0.01 * (n - 1) ** 2
            a = np.eye(n) * (1 + 2 * r) - r * np.eye(n, k=1) - r * np.eye(n, k=-1)
            u, out = p[1] * np.sin(np.pi * np.linspace(0, 1, n)), []
            for _ in range(steps):
                u = np.linalg.solve(a, u)
                out.append(u[n // 2])
            return np.array(out)

        at, sizes = np.array([0.8, 1.7]), []
        for steps in (30, 130):
            found, jacobian, trace = values_and_jacobian(lambda p: heat(p, steps=steps), at)
            np.testing.assert_allclose(found, heat(at, steps=steps), 1e-11)
            np.testing.assert_allclose(jacobian, differences(lambda p: heat(p, steps=steps), at), 1e-6, 1e-8)
            sizes.append(trace.graph.size())
        self.assertLessEqual(sizes[1] - sizes[0], 500)  # five operations a step


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

    def test_sensitivities_through_ten_thousand_steps(self):
        """Beside recursions of first and second order in long double."""
        count = 10_000
        forces = np.sin(0.01 * np.arange(count))

        def recursion(x, u, measured):
            """Gradient, Jacobian and Hessian of the cost."""
            y, d, dd = np.longdouble(0.3), np.zeros(2, np.longdouble), np.zeros((2, 2), np.longdouble)
            gradient, hessian, jacobian = np.zeros(2, np.longdouble), np.zeros((2, 2), np.longdouble), []
            for k in range(count):
                t = np.tanh(y)
                s = 1 - t * t
                slope, by_x = x[0] + x[1] * s, np.array([y, t])
                cross = np.outer([1, s], d)
                dd = slope * dd + cross + cross.T - 2 * x[1] * t * s * np.outer(d, d)
                d = slope * d + by_x
                y = x[0] * y + x[1] * t + u[k]
                r = y - measured[k]
                gradient += r * d
                hessian += np.outer(d, d) + r * dd
                jacobian.append(d)
            return gradient, np.array(jacobian), hessian

        def rows(x, u, measured):
            y = topograd.scan(count, 0.3, lambda k, y: x[0] * y + x[1] * np.tanh(y) + u[k])
            return y[1:] - measured

        measured = rows(np.array([0.9, 0.05]), forces, 0) + 0.1 * RNG.normal(size=count)
        change, seed, zero = RNG.normal(size=count), np.array([1.0, -2.0]), np.zeros(count)
        for blocks in (1, count):
            with self.subTest(blocks=blocks):
                problem = topograd.Problem()
                x = problem.parameters(np.array([0.8, 0.1]))
                u, m = problem.data(forces), problem.data(measured)
                problem.residuals(lambda *args: rows(*args).reshape(blocks, -1), x, u, m)
                self.assertEqual(problem.sizes["blocks"], blocks)
                summary = problem.solve(
                    function_tolerance=1e-16, gradient_tolerance=1e-14, parameter_tolerance=1e-14)
                self.assertEqual(summary.termination, "CONVERGENCE")
                sensitivity = topograd.Sensitivity(problem)
                if blocks == 1:
                    at = x.value.astype(np.longdouble)
                    gradient, jacobian, hessian = recursion(at, forces, measured)
                    np.testing.assert_allclose(gradient.astype(float), 0, atol=1e-5)
                    inverse = np.linalg.inv(hessian.astype(float))
                    by_measured = inverse @ (jacobian.T @ change).astype(float)
                    step = np.longdouble(1e-6)
                    ahead, behind = (
                        recursion(at, forces + sign * step * change, measured)[0] for sign in (1, -1))
                    by_forces = -inverse @ ((ahead - behind) / (2 * step)).astype(float)
                np.testing.assert_allclose(sensitivity.jvp(np.concatenate((zero, change))), by_measured, 1e-7)
                np.testing.assert_allclose(sensitivity.jvp(np.concatenate((change, zero))), by_forces, 1e-6)
                np.testing.assert_allclose(sensitivity.vjp(seed, m) @ change, seed @ by_measured, 1e-7)
                np.testing.assert_allclose(sensitivity.vjp(seed, u) @ change, seed @ by_forces, 1e-6)

    def test_trajectories_of_many_lengths(self):
        """Each has as many steps as its data say: a product with 0 leaves the others out."""
        lengths = np.array([300, 40, 171, 299, 120])
        present = (np.arange(300) < lengths[:, None]).astype(float)
        truth = np.array([1.0, 0.8]) + 0.1 * RNG.normal(size=(5, 2))

        def rows(p, measured, there):
            y = topograd.scan(len(there), 0.3, lambda k, y: y + 0.02 * (p[0] - p[1] * np.tanh(y)))
            return there * (y[1:] - measured)

        measured = np.array([rows(p, 0.01 * RNG.normal(size=300), there) for p, there in zip(truth, present)])
        found = topograd.least_squares_many(rows, np.full((5, 2), 0.5), (measured, present), ftol=1e-14, xtol=1e-14)
        for k, length in enumerate(lengths):
            alone = scipy.optimize.least_squares(
                lambda p: rows(p, measured[k, :length], np.ones(length)), np.full(2, 0.5), ftol=1e-14, xtol=1e-14)
            np.testing.assert_allclose(found.x[k], alone.x, 1e-6)
            self.assertAlmostEqual(found.cost[k], alone.cost, delta=1e-9 * alone.cost)

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

        def of_integers(p):
            return lambda k, y: 0.5 * y + np.arange(120)[k] * p[0]

        def as_text(p):
            return lambda k, y: 0.5 * y + len(f"{k}") * p[1]

        for start, body in ((1.0, branch), (np.arange(3.0), own_element), (2.0, listed), (1.0, of_integers),
                            (1.0, as_text)):
            with self.subTest(body.__name__):
                p = np.array([0.6, 1.1])
                expected = np.ravel(loop(120, start, body(p)))
                found, jacobian, trace = values_and_jacobian(
                    lambda x: np.ravel(topograd.scan(120, start, body(x))), p)
                np.testing.assert_allclose(found, expected, 1e-12)
                np.testing.assert_allclose(
                    jacobian, differences(lambda x: np.ravel(loop(120, start, body(x))), p), 1e-6, 1e-6)
                self.assertIn("scan traced each of 120 steps", trace.slow[0][1])

    def test_lengths_that_depend_on_unknowns_are_named(self):
        def rounded(x):
            return np.array([x[1] * k for k in range(int(x[0] + x[2]))])

        def until(x):
            y, out = x[1], []
            while y > 0.01:
                y = y * 0.5
                out.append(y)
            return np.array(out)

        def scanned(x):
            return topograd.scan(1 if isinstance(x[2], float) else x[2], 1.0, lambda k, y: y * x[1])

        for function, message in (
                (rounded, r"as an integer.*may not depend on x\[0\] and x\[2\] \(line \d+ of .*rounded"),
                (until, r"a loop whose length depends on x\[1\] cannot be traced \(line \d+ of .*in until"),
                (scanned, r"a loop whose length depends on x\[2\] cannot be traced \(line \d+ of .*in scanned")):
            with self.subTest(function.__name__), self.assertRaisesRegex(topograd.TracingError, message):
                topograd.least_squares(function, [3.0, 0.5, 1.0], options={"fallback": False})

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
        with self.assertRaisesRegex(TypeError, "the next state from f, got None"):
            topograd.scan(2, 1.0, lambda k, s: None)
        with self.assertRaisesRegex(TypeError, "a state of real numbers, .* got dict"):
            topograd.scan(2, {"a": 1.0}, lambda k, s: s)
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


def growth(p):
    out, y = np.zeros(400), 0.3
    for k in range(400):
        out[k] = y
        y = y + 10.0 / 399 * (p[0] - p[1] * y + p[2] * y * y)
    return out


class Sharing(unittest.TestCase):
    """Rows of one long computation have losses of their own, and belong to a Problem."""

    def setUp(self):
        self.truth = np.array([1.0, 0.8, -0.1])
        noise = np.random.default_rng(2)
        self.measured = growth(self.truth) + 0.01 * noise.normal(size=400)
        self.measured[noise.integers(0, 400, 30)] += 0.5

    def test_robust_losses(self):
        measured = self.measured

        def residuals(p):
            return growth(p) - measured

        for loss in ("soft_l1", "huber", "cauchy", "arctan", "linear"):
            with self.subTest(loss):
                scipys = scipy.optimize.least_squares(residuals, [0.8, 0.6, 0.0], loss=loss, f_scale=0.02,
                                                      xtol=1e-13, ftol=1e-13, gtol=1e-13)
                found = topograd.least_squares(residuals, [0.8, 0.6, 0.0], loss=loss, f_scale=0.02,
                                               xtol=1e-12, ftol=1e-12, options={"fallback": False})
                self.assertGreater(found.status, 0)
                self.assertLessEqual(found.cost, scipys.cost * (1 + 1e-8))
                np.testing.assert_allclose(found.x, scipys.x, 2e-4)

    def test_in_a_problem(self):
        problem = topograd.Problem()
        x, scale = problem.parameters(np.array([0.8, 0.6, 0.0])), problem.parameters(np.array([0.9]))
        measured = problem.data(self.measured)
        blocks = problem.residuals(lambda p, s, m: growth(p) * s - m, x, scale, measured,
                                   loss=("soft_l1", 0.02))
        problem.residuals(lambda s: 100.0 * (s - 1.0), scale)
        self.assertEqual(problem.sizes["topologies"], 1)

        def residuals(p):
            return np.append(growth(p[:3]) * p[3] - problem_data[0], 100.0 * (p[3] - 1.0))

        def cost(p, loss=True):
            z = (residuals(p)[:-1] / 0.02)**2
            rho = 0.02**2 * 2 * (np.sqrt(1 + z) - 1) if loss else 0.02**2 * z
            return 0.5 * (np.sum(rho) + residuals(p)[-1]**2)

        problem_data = [self.measured]
        at = np.array([0.9, 0.7, -0.05, 0.95])
        for change in range(3):
            with self.subTest(change):
                if change == 1:
                    problem_data[0] = self.measured[::-1] * 1.0
                    problem.set(measured, problem_data[0])
                if change == 2:
                    blocks.set_loss(None)
                np.testing.assert_allclose(problem.evaluate(at), residuals(at), 1e-12, 1e-13)
                self.assertAlmostEqual(problem.cost(at) / cost(at, change < 2), 1.0, 12)
                gradient = differences(lambda p: np.array([cost(p, change < 2)]), at, 1e-6)[0]
                np.testing.assert_allclose(problem.gradient(at), gradient, 1e-6)
                np.testing.assert_allclose(problem.jacobian(at).toarray(), differences(residuals, at), 1e-6, 1e-6)
        problem.set(measured, self.measured)
        summary = problem.solve(function_tolerance=1e-14)
        self.assertEqual(summary.termination, "CONVERGENCE")
        problem_data[0] = self.measured
        scipys = scipy.optimize.least_squares(residuals, [0.8, 0.6, 0.0, 0.9], xtol=1e-13, ftol=1e-13)
        np.testing.assert_allclose(np.append(x.value, scale.value), scipys.x, 1e-4)

    def test_seventeen_chains_are_seventeen_evaluations(self):
        """Of numbers and of arrays: each row as a kernel of its own took 30 s."""
        inputs = np.sin(np.arange(400) ** 1.5)
        for name, chain in {"numbers": growth, "arrays": lambda p: np.cumsum(p[0] * inputs + p[1]) + p[2]}.items():
            with self.subTest(name):
                problem = topograd.Problem()
                x = problem.parameters(np.array([0.8, 0.6, 0.1]))
                for k in range(18):
                    problem.residuals(lambda p, k=k: chain(p) - 0.1 * (k + 1) * self.measured, x)
                sizes = problem.sizes
                self.assertEqual(sizes["topologies"], 0)
                self.assertEqual(len(sizes["long_expressions"]), 18)
                p = x.value
                r = np.concatenate([chain(p) - 0.1 * (k + 1) * self.measured for k in range(18)])
                np.testing.assert_allclose(np.sort(problem.evaluate())[20:], np.sort(r)[20:], 1e-9, 1e-12)

    def test_blocks_of_two_rows_and_rows_without_unknowns(self):
        """The first row is a number, and no block; two rows of a pair have one loss."""
        problem = topograd.Problem()
        x = problem.parameters(self.truth.copy())
        measured = self.measured
        problem.residuals(lambda p: (growth(p) - measured).reshape(200, 2), x, loss=("cauchy", 0.05))
        alone = topograd.Problem()
        y = alone.parameters(self.truth.copy())
        alone.residuals(lambda p: growth(p) - measured, y)
        self.assertEqual(problem.sizes["rows"], 400)
        self.assertEqual(alone.sizes["rows"], 399)
        r = growth(self.truth) - self.measured
        np.testing.assert_allclose(problem.evaluate(), r, 1e-12, 1e-14)
        np.testing.assert_allclose(alone.evaluate(), r, 1e-12, 1e-14)
        s = np.sum((r / 0.05).reshape(200, 2)**2, axis=1)
        self.assertAlmostEqual(problem.cost(), 0.5 * 0.05**2 * np.sum(np.log1p(s)), 12)


def all_operations(p, u, table):
    """Of arrays: slices, transposes, lists of elements, sums, running sums, roots and branches."""
    a, b, c = p
    wave = np.sin(a * u) + np.cos(b * u)[::-1] - np.tanh(c * u)
    running = np.cumsum(wave) * 0.01 + np.maximum.accumulate(wave * c)
    power = np.sqrt(running**2 + b**2 + 1.0) / (2 + np.abs(a * u))
    grid = np.exp(-table * a)[:, 1:] * power[:table.shape[0], np.newaxis]
    sums = np.sum(grid, axis=1) + np.prod(grid[:, :3], axis=1) * np.max(grid, axis=1)
    chosen = power[np.argsort(u)] - np.where(u > 0, wave * b, u)
    levels = np.cumsum(np.cumsum(chosen) * 0.1 - b * u)
    columns = np.cumsum(grid.T, axis=0).ravel()
    return np.concatenate([levels, np.cumsum(sums), columns[::7], [7.0], u[:2], np.cumprod(1 + 0.01 * chosen)])


class Arrays(unittest.TestCase):
    """Programs of arrays, which are evaluated as they were recorded."""

    U = RNG.normal(size=400)
    TABLE = RNG.normal(size=(40, 9))
    P = np.array([0.8, 1.7, 0.3])

    def arrays(self, trace, rows, x):
        model = trace.model(rows, x.copy(), None, True)
        self.assertRegex(model.sizes()["long_expressions"][0], "operations on arrays of")
        return _core.Values(model, {"backend": "cpu"}, False)

    def evaluated(self, f, x):
        trace, rows = trace_function(f, x.size, 1.0, (), {})
        values = self.arrays(trace, rows, x)
        return values.residuals(x), values.dense_jacobian(x)

    def test_running_sums_have_the_bits_of_a_recurrence(self):
        u, p = self.U, self.P
        found, jacobian = self.evaluated(lambda p: np.cumsum(p[0] * u + p[2] * u**2) + p[1] - PLANE[0, 0], p)
        np.testing.assert_array_equal(found, np.cumsum(p[0] * u + p[2] * u**2) + p[1] - PLANE[0, 0])
        np.testing.assert_array_equal(jacobian, np.stack([np.cumsum(u), np.ones(400), np.cumsum(u**2)], 1))

    def test_explicit_steps_have_the_bits_of_a_recurrence(self):
        def states(p):
            u = np.exp(-50 * (np.linspace(0, 1, 48) - 0.3) ** 2)
            for _ in range(60):
                inner = u[1:-1] + 0.4 * p[0] * (u[2:] - 2 * u[1:-1] + u[:-2])
                u = np.concatenate([[p[1]], inner, [p[2]]])
            return u

        found, jacobian = self.evaluated(states, self.P)
        p, u, d = self.P, np.exp(-50 * (np.linspace(0, 1, 48) - 0.3) ** 2), np.zeros((3, 48))
        for _ in range(60):
            rate, bend = 0.4 * p[0], u[2:] - 2 * u[1:-1] + u[:-2]
            d[:, 1:-1] += rate * (d[:, 2:] - 2 * d[:, 1:-1] + d[:, :-2]) + np.outer([0.4, 0, 0], bend)
            d[:, [0, -1]] = np.array([[0, 0], [1, 0], [0, 1]])
            u = np.concatenate([[p[1]], u[1:-1] + rate * bend, [p[2]]])
        np.testing.assert_array_equal(found, u)
        np.testing.assert_allclose(jacobian, d.T, 1e-14, 1e-15)

    def test_operations(self):
        def f(p):
            return all_operations(p, self.U, self.TABLE)

        found, jacobian = self.evaluated(f, self.P)
        np.testing.assert_allclose(found, f(self.P), 1e-12, 1e-14)
        np.testing.assert_allclose(jacobian, differences(f, self.P), 1e-6, 1e-7)

    def test_are_written_as_operations_on_numbers_for_kernels(self):
        problem = topograd.Problem()
        x, u = problem.parameters(self.P.copy()), problem.data(self.U[:64])
        problem.residuals(lambda p, u: topograd.shared(np.cumsum(np.sin(p[0] * u) - p[1]))[::8] * p[2], x, u)
        self.assertRegex(problem.sizes["long_expressions"][0], "operations on arrays of")
        values, jacobian = problem.evaluate(), problem.jacobian().toarray()
        problem.source()  # what asks for kernels gets them
        self.assertEqual(problem.sizes["long_expressions"], [])
        self.assertGreater(problem.sizes["topologies"], 0)
        np.testing.assert_allclose(problem.evaluate(), values, 1e-13)
        np.testing.assert_allclose(problem.jacobian().toarray(), jacobian, 1e-13)

    def test_numbers_that_are_set_and_losses_of_rows(self):
        problem = topograd.Problem()
        x, u = problem.parameters(self.P.copy()), problem.data(self.U)
        problem.residuals(lambda p, u: np.cumsum(p[0] * u + p[2] * u**2) + p[1] - PLANE[0, 0], x, u,
                          loss=("cauchy", 0.5))
        self.assertEqual(len(problem.sizes["long_expressions"]), 1)
        for numbers in (self.U, 2 * self.U[::-1]):
            problem.set(u, numbers)
            r = np.cumsum(self.P[0] * numbers + self.P[2] * numbers**2) + self.P[1] - PLANE[0, 0]
            self.assertAlmostEqual(problem.cost() / (0.5 * 0.25 * np.sum(np.log1p((r / 0.5)**2))), 1.0, 12)

    def test_roots_at_zero(self):
        """A length has the derivative 0 there, a plain root none."""
        u = np.where(np.arange(400) == 7, 0.0, self.U)

        def length(p):
            return np.cumsum(np.sqrt((p[0] * u)**2 + (p[1] * u)**2) + p[2])

        found, jacobian = self.evaluated(length, self.P)
        np.testing.assert_allclose(found, length(self.P), 1e-13)
        size = np.hypot(self.P[0], self.P[1])
        expected = [np.cumsum(np.abs(u)) * self.P[0] / size, np.cumsum(np.abs(u)) * self.P[1] / size,
                    np.arange(1, 401)]
        np.testing.assert_allclose(jacobian, np.stack(expected, 1), 1e-12)


class Trajectories(unittest.TestCase):
    """Many simulations side by side: each is an instance of one topology."""

    STEPS, COUNT = 120, 24

    def setUp(self):
        noise = np.random.default_rng(4)
        self.truth = np.array([1.0, 0.8, -0.1]) * (1 + 0.1 * noise.normal(size=(self.COUNT, 3)))
        self.measured = self.states(self.truth) + 0.01 * noise.normal(size=(self.COUNT, self.STEPS))
        self.start = np.tile([0.8, 0.6, 0.0], (self.COUNT, 1))

    def states(self, p):
        """Of p of shape (..., 3): shape (..., STEPS). The first one is a number."""
        y = topograd.scan(self.STEPS - 1, 0.3 * np.ones(p.shape[:-1]),
                          lambda k, y: y + 0.08 * (p[..., 0] - p[..., 1] * y + p[..., 2] * y * y))
        return np.moveaxis(y, 0, -1)

    def scipys(self, k):
        return scipy.optimize.least_squares(lambda p: self.states(p) - self.measured[k], self.start[k],
                                            xtol=1e-13, ftol=1e-13, gtol=1e-13)

    def test_least_squares_many(self):
        found = topograd.least_squares_many(lambda p, m: self.states(p) - m, self.start, (self.measured,),
                                            ftol=1e-13, xtol=1e-13, gtol=1e-12, options={"fallback": False})
        self.assertTrue(np.all(found.success))
        for k in (0, 7, self.COUNT - 1):
            exact = self.scipys(k)
            np.testing.assert_allclose(found.x[k], exact.x, 1e-5)
            self.assertAlmostEqual(found.cost[k] / exact.cost, 1.0, 9)

    def test_one_function_of_all(self):
        def residuals(x):
            return (self.states(x.reshape(self.COUNT, 3)) - self.measured).ravel()

        at = self.start.ravel()
        trace, rows = trace_function(residuals, at.size, 1.0, (), {}, start=at)
        sizes = trace.model(rows, at.copy(), None, True).sizes()
        self.assertEqual((sizes["topologies"], sizes["node_by_node"]), (1, []))
        found = topograd.least_squares(residuals, at, ftol=1e-13, xtol=1e-13, gtol=1e-12,
                                       options={"fallback": False})
        np.testing.assert_allclose(found.fun, residuals(found.x), 1e-12, 1e-14)
        for k in (0, self.COUNT - 1):
            np.testing.assert_allclose(found.x[3 * k:3 * k + 3], self.scipys(k).x, 1e-5)

    def test_blocks_of_a_problem(self):
        """Rows one by one would compute their trajectory again each; a block has the rows of one."""
        count, steps = 40, 60  # fewer than those that nobody looks at, and more than are written out

        def states(p):
            y, out = 0.3 + 0 * p[:, 0], []
            for _ in range(steps):
                y = y + 0.05 * (p[:, 0] - p[:, 1] * y)
                out.append(y)
            return np.stack(out, 1)

        measured = states(self.truth[np.arange(count) % self.COUNT]) + 0.01 * RNG.normal(size=(count, steps))
        problem = topograd.Problem()
        x = problem.parameters(np.ones((count, 2)))
        problem.residuals(lambda p: states(p) - measured, x)
        self.assertEqual((problem.sizes["topologies"], problem.sizes["long_expressions"]), (1, []))
        self.assertEqual(problem.solve(function_tolerance=1e-14).termination, "CONVERGENCE")
        for k in (0, count - 1):
            exact = scipy.optimize.least_squares(lambda p: (states(p[np.newaxis]) - measured[k]).ravel(), np.ones(2),
                                                 xtol=1e-13, ftol=1e-13, gtol=1e-13)
            np.testing.assert_allclose(x.value[k], exact.x, 1e-5)

    def test_rows_before_a_state_overflows_keep_their_values(self):
        def states(p):
            y, out = p[0], []
            for _ in range(400):
                y = y + 0.08 * (p[1] * y * y - y)
                out.append(y)
            return np.stack(out)

        problem = topograd.Problem()
        x = problem.parameters(np.array([1.0, 3.0]))
        problem.residuals(states, x)
        self.assertEqual(len(problem.sizes["long_expressions"]), 1)
        with np.errstate(all="ignore"):
            expected = states(x.value)
        self.assertGreater(np.isfinite(expected).sum(), 10)
        self.assertLess(np.isfinite(expected).sum(), 100)
        np.testing.assert_allclose(problem.evaluate(), expected, 1e-9)

    def test_robust_losses_of_all(self):
        def residuals(x):
            return (self.states(x.reshape(self.COUNT, 3)) - self.measured).ravel()

        at = self.start.ravel()
        robust = topograd.least_squares(residuals, at, loss="soft_l1", f_scale=0.1, options={"fallback": False})
        exact = scipy.optimize.least_squares(lambda p: self.states(p) - self.measured[0], self.start[0],
                                             loss="soft_l1", f_scale=0.1)
        np.testing.assert_allclose(robust.x[:3], exact.x, 2e-4)


class ImplicitSteps(unittest.TestCase):
    """Steps of the heat equation, each of which solves the same system."""

    def test_the_matrix_is_eliminated_once(self):
        """Once for each step took 4.5 s where SciPy's whole fit takes 0.02."""
        cells, steps = 12, 40
        second = np.eye(cells, k=1) - 2 * np.eye(cells) + np.eye(cells, k=-1)

        def states(p):
            matrix, u, out = np.eye(cells) - p[0] * second, np.ones(cells), []
            for _ in range(steps):
                u = np.linalg.solve(matrix, u + p[1])
                out.append(u[3])
            return np.array(out)

        at = np.array([0.4, 0.1])
        trace, _ = trace_function(states, 2, 1.0, (), {})
        self.assertLess(trace.graph.size(), 10_000)
        values, jacobian = values_and_jacobian(states, at)[:2]
        np.testing.assert_allclose(values, states(at), 1e-13)
        np.testing.assert_allclose(jacobian, differences(states, at), 1e-7)

    def test_in_a_scan_and_after_it(self):
        flipped = np.fliplr(np.eye(6)) * 3

        def states(p, scan):
            matrix = flipped - p[0] * np.eye(6, k=1) + p[1] * np.eye(6)
            u = scan(30, np.full(6, 0.1), lambda k, u: np.linalg.solve(matrix, u + 0.1))[-1]
            v = np.linalg.solve(matrix, np.outer(u, [1.0, 2.0]))[:, 1]
            return scan(5, v, lambda k, u: np.linalg.solve(matrix, u) + v)[-1]

        at = np.array([0.7, 0.4])
        expected = states(at, loop)
        for name, scan in {"scan": topograd.scan, "loop": loop}.items():
            with self.subTest(name):
                values, jacobian = values_and_jacobian(functools.partial(states, scan=scan), at)[:2]
                np.testing.assert_allclose(values, expected, 1e-12)
                np.testing.assert_allclose(jacobian, differences(functools.partial(states, scan=loop), at), 1e-6)


TIMES = np.linspace(0.0, 4.0, 25)


def by_odeint(x, times=TIMES, how=scipy.integrate.odeint, **options):
    return how(lambda y, t: [-x[0] * y[0], x[0] * y[0] - x[1] * y[1]], [x[2], 0.5], times, **options)


def by_solve_ivp(x, times=TIMES, how=scipy.integrate.solve_ivp, **options):
    def right(t, y, a, b):
        return np.array([-a * y[0], a * y[0] - b * y[1]])

    return how(right, (times[0], times[-1]), [x[2], 0.5], t_eval=times, args=(x[0], x[1]), **options).y.T


def decays(x, times=TIMES):
    """The solution of both, in closed form."""
    a, b, start = x
    t = times - times[0]
    first = start * np.exp(-a * t)
    return np.stack([first, 0.5 * np.exp(-b * t) + a * start / (b - a) * (np.exp(-a * t) - np.exp(-b * t))], 1)


class Equations(unittest.TestCase):
    def test_values_and_derivatives_by_closed_forms(self):
        x = np.array([1.3, 0.4, 2.0])
        cases = (
            (by_odeint, {}, 2e-7),
            (by_odeint, {"how": topograd.odeint}, 1e-8),
            (by_odeint, {"how": topograd.odeint, "steps": 20}, 1e-9),
            (by_odeint, {"how": topograd.odeint, "steps": 30, "method": "rk4"}, 1e-8),
            (by_odeint, {"how": topograd.odeint, "times": TIMES[::-1]}, 1e-6),
            (by_solve_ivp, {"rtol": 1e-8, "atol": 1e-8}, 1e-7),
            (by_solve_ivp, {"rtol": 1e-8, "atol": 1e-8, "method": "LSODA"}, 1e-7),
            (by_solve_ivp, {"rtol": 1e-6, "atol": 1e-6, "max_step": 0.01}, 1e-10),
            (by_odeint, {"hmax": 0.01}, 1e-9),
            (by_solve_ivp, {"how": topograd.solve_ivp}, 1e-7),
            (by_solve_ivp, {"how": topograd.solve_ivp, "steps": 20, "method": "dormand_prince"}, 1e-9),
            (by_solve_ivp, {"how": topograd.solve_ivp, "times": np.append(TIMES[3:20:2], 3.99)}, 1e-7),
        )
        for function, given, near in cases:
            with self.subTest(function.__name__, **given):
                times = given.get("times", TIMES)
                expected = decays(x, times)
                np.testing.assert_allclose(function(x, **given), expected, rtol=30 * near, atol=30 * near)
                trace, rows = trace_function(lambda p: function(p, **given).ravel(), 3, 1.0, (), {}, start=x)
                model = trace.model(rows, x.copy(), None, True)
                values = _core.Values(model, {"backend": "cpu"}, False)
                np.testing.assert_allclose(values.residuals(x), expected.ravel(), near, near)
                np.testing.assert_allclose(values.dense_jacobian(x),
                                           differences(lambda p: decays(p, times).ravel(), x),
                                           100 * near, 100 * near)

    def test_euler_steps_are_eulers(self):
        """(1 - a h)^n, and its derivative."""
        found, jacobian, _ = values_and_jacobian(
            lambda x: topograd.odeint(lambda y, t: -x * y, 1.0, [0.0, 1.0, 3.0], method="euler", steps=50)[:, 0],
            np.array([0.7]))
        for row, (n, h) in enumerate(((0, 0.02), (50, 0.02))):
            self.assertAlmostEqual(found[row], (1 - 0.7 * h) ** n, 12)
            self.assertAlmostEqual(jacobian[row, 0], -n * h * (1 - 0.7 * h) ** (n - 1), 12)
        self.assertAlmostEqual(found[2], found[1] * (1 - 0.7 * 0.04) ** 50, 12)

    def test_implicit_steps(self):
        """y' = -a y: a step multiplies by 1 / (1 - z) or (1 + z/2) / (1 - z/2), z = -a h."""
        for method, factor, slope in (
                ("implicit_euler", lambda z: 1 / (1 - z), lambda z: 1 / (1 - z)**2),
                ("trapezoidal", lambda z: (1 + z / 2) / (1 - z / 2), lambda z: 1 / (1 - z / 2)**2)):
            for how in ("odeint", "solve_ivp"):
                with self.subTest(method, how=how):
                    def f(x):
                        if how == "odeint":
                            return topograd.odeint(lambda y, t: -x * y, 2.0, [0.0, 1.0, 3.0], method=method,
                                                   steps=10)[1:2, 0]
                        return topograd.solve_ivp(lambda t, y: -x * y, (0.0, 1.0), [2.0], method, steps=10).y[0, -1:]

                    z = -5.0  # far beyond what explicit steps stand
                    found, jacobian, _ = values_and_jacobian(f, np.array([50.0]))
                    self.assertAlmostEqual(found[0] / (2 * factor(z)**10), 1.0, 12)
                    self.assertAlmostEqual(jacobian[0, 0] / (-2 * factor(z)**9 * slope(z)), 1.0, 7)
                    np.testing.assert_allclose(found, f(np.array([50.0])), 1e-12)

    def test_stiff_equations_are_fitted_by_implicit_steps(self):
        times = np.linspace(0.0, 1.5, 7)

        def states(x, how, **given):
            return how(lambda y, t: np.array([-x[0] * (y[0]**3 - np.cos(t)**3), x[1] * y[0] - y[1]**2]),
                       [0.9, 0.0], times, **given)

        exact = states([300.0, 2.0], scipy.integrate.odeint, rtol=1e-10, atol=1e-12)
        errors = [np.max(np.abs(states([300.0, 2.0], topograd.odeint, method="trapezoidal", steps=n) - exact)[:, 1])
                  for n in (10, 20)]
        self.assertLess(errors[0], 2e-3)
        self.assertLess(errors[1], 0.4 * errors[0])

        def f(x):
            return (states(np.array([300.0, x[0]]), topograd.odeint, method="trapezoidal", steps=10) - exact)[:, 1]

        found, jacobian, _ = values_and_jacobian(f, np.array([1.7]))
        np.testing.assert_allclose(found, f(np.array([1.7])), 1e-10, 1e-12)
        np.testing.assert_allclose(jacobian, differences(f, np.array([1.7])), 1e-6, 1e-7)
        fit = topograd.least_squares(f, [1.5], options={"fallback": False})
        np.testing.assert_allclose(fit.x, scipy.optimize.least_squares(f, [1.5]).x, 1e-6)
        # Corrections that do not suffice give no number.
        few = states([3000.0, 2.0], topograd.odeint, method="implicit_euler", steps=1, corrections=1)
        self.assertTrue(np.all(np.isnan(few[-1])))
        with self.assertRaisesRegex(ValueError, "expected corrections >= 1, got 0"):
            states([300.0, 2.0], topograd.odeint, method="trapezoidal", steps=2, corrections=0)

    def test_fits_from_far_choose_their_steps_again(self):
        """At the start the equations are slow, at the result they are not."""
        truth = np.array([25.0, 3.0, 2.0])
        data = decays(truth) + 0.01 * np.random.default_rng(3).normal(size=(25, 2))
        exact = scipy.optimize.least_squares(lambda x: (decays(x) - data).ravel(), [1.0, 0.4, 1.0], xtol=1e-12,
                                             ftol=1e-12, gtol=1e-12)
        for function, given in ((by_odeint, {}), (by_odeint, {"how": topograd.odeint}),
                                (by_solve_ivp, {"how": topograd.solve_ivp})):
            with self.subTest(function.__name__, **given):
                found = topograd.least_squares(lambda x: (function(x, **given) - data).ravel(), [1.0, 0.4, 1.0],
                                               options={"fallback": False})
                self.assertGreater(found.status, 0)
                np.testing.assert_allclose(found.x, exact.x, 2e-4)
                self.assertAlmostEqual(found.cost, exact.cost, 7)

    def test_errors_of_integration_cost_no_solves(self):
        """At the optimum of data without noise the residuals are errors of two integrations."""
        t = np.linspace(0, 4, 40)
        cases = {
            "odeint": lambda p: scipy.integrate.odeint(lambda y, t: -p[0] * y, p[1], t).ravel(),
            "solve_ivp": lambda p: scipy.integrate.solve_ivp(
                lambda t, y: [-p[0] * y[0]], (0, 4), [p[1]], t_eval=t, rtol=1e-8, atol=1e-10).y[0],
        }
        original, solves = _least_squares._solve, []
        self.addCleanup(setattr, _least_squares, "_solve", original)
        _least_squares._solve = lambda *args: solves.append(1) or original(*args)
        for name, states in cases.items():
            with self.subTest(name):
                solves.clear()
                found = topograd.least_squares(lambda p: states(p) - 2 * np.exp(-0.7 * t), [1.0, 1.0],
                                               options={"fallback": False})
                np.testing.assert_allclose(found.x, [0.7, 2.0], 1e-6)
                self.assertLessEqual(len(solves), 2)

    def test_states_in_small_units(self):
        data = 1e-12 * np.exp(-2 * TIMES)
        for how in (topograd.odeint, topograd.solve_ivp):
            with self.subTest(how.__name__):
                def f(x):
                    if how is topograd.odeint:
                        return (how(lambda y, t: -x[0] * y, x[1], TIMES)[:, 0] - data) * 1e12
                    return (how(lambda t, y: -x[0] * y, (0.0, 4.0), [x[1]], t_eval=TIMES).y[0] - data) * 1e12

                found = topograd.least_squares(f, [1.0, 0.5e-12], options={"fallback": False})
                np.testing.assert_allclose(found.x, [2.0, 1e-12], 1e-6)

    def test_right_sides_that_branch_on_time_take_equal_steps(self):
        def right(t, y, gain):
            return gain - y if t < 2.0 else -y

        def f(x, how):
            return how(right, (0.0, 4.0), x[1:], t_eval=[1.0, 2.0, 4.0], args=(x[0],), steps=64).y[0]

        x = np.array([1.5, 0.25])
        found, jacobian, _ = values_and_jacobian(lambda x: f(x, topograd.solve_ivp), x)
        # Before the jump the closed form; the step up to it has its last stage beyond.
        self.assertAlmostEqual(found[0], x[0] * (1 - math.exp(-1)) + x[1] * math.exp(-1), 9)
        np.testing.assert_allclose(found, f(x, topograd.solve_ivp), 1e-14)
        np.testing.assert_allclose(jacobian, differences(lambda x: f(x, topograd.solve_ivp), x), 1e-8)
        self.assertAlmostEqual(found[2], found[1] * math.exp(-2), 9)

    def test_in_a_problem(self):
        data = decays(np.array([1.3, 0.4, 2.0]))
        problem = topograd.Problem()
        x = problem.parameters(np.array([1.0, 0.5, 1.0]))
        with self.assertRaisesRegex(topograd.TracingError, "expected steps="):
            problem.residuals(lambda p: by_odeint(p, how=topograd.odeint) - data, x)
        problem.residuals(lambda p: by_odeint(p, how=topograd.odeint, steps=8) - data, x)
        self.assertEqual(problem.solve().termination, "CONVERGENCE")
        np.testing.assert_allclose(x.value, [1.3, 0.4, 2.0], 1e-6)

    def test_what_is_refused_by_name(self):
        data = np.zeros((25, 2))

        def fit(function, **given):
            def f(x):
                found = function(x, **given)
                return (found[0] if isinstance(found, tuple) else found).ravel() - data.ravel()

            return topograd.least_squares(f, [1.3, 0.4, 2.0], options={"fallback": False})

        def crosses(t, y, *_):
            return y[0] - 0.1

        for given, message in (
                ({"rtol": 1e-3}, "rtol=0.001 is not traced"), ({}, "rtol=0.001 is not traced"),
                ({"events": crosses, "rtol": 1e-8}, "events cannot be traced"),
                ({"max_step": 1e-4, "rtol": 1e-8}, "max_step=0.0001 asks for more than 20000 steps"),
                ({"dense_output": True, "rtol": 1e-8}, "dense_output=True cannot be traced")):
            with self.subTest(message), self.assertRaisesRegex(topograd.TracingError, message):
                fit(by_solve_ivp, **given)
        with self.assertRaisesRegex(topograd.TracingError, "full_output or tcrit cannot be traced"):
            fit(by_odeint, full_output=True)
        with self.assertRaisesRegex(topograd.TracingError, "hmax=0.0001 asks for more than 20000 steps"):
            fit(by_odeint, hmax=1e-4)
        with self.assertRaisesRegex(topograd.TracingError, "odeint: times that depend on unknowns"):
            values_and_jacobian(lambda x: by_odeint(x, times=x), np.arange(1.0, 4.0))
        for call in (lambda: by_odeint(np.ones(3), how=topograd.odeint, steps=0),
                     lambda: by_solve_ivp(np.ones(3), how=topograd.solve_ivp, steps=0)):
            with self.assertRaisesRegex(ValueError, "expected steps >= 1, got 0"):
                call()
        with self.assertRaisesRegex(ValueError, "expected a method of euler, rk4"):
            by_odeint(np.ones(3), how=topograd.odeint, steps=2, method="magic")
        with self.assertRaisesRegex(ValueError, "a right side of 2 numbers, as y0 has, got 1"):
            topograd.odeint(lambda y, t: [y[0]], [1.0, 2.0], TIMES, steps=2)
        with self.assertRaisesRegex(ValueError, "times that only ascend or only descend"):
            topograd.odeint(lambda y, t: y, [1.0], [0.0, 2.0, 1.0], steps=2)


if __name__ == "__main__":
    unittest.main()
