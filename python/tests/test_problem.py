"""Problem: unknowns in blocks, index arrays, losses, flags, derivatives, callbacks, threads."""

import contextlib
import copy
import gc
import io
import itertools
import math
import os
import pickle
import resource
import signal
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree

import numpy as np

import topograd


def springs(width, seed=0):
    """Vertices of a grid, edges along rows and columns, rest lengths."""
    k = np.arange(width * width)
    i, j = k % width, k // width
    positions = np.stack([i + 0.1 * np.sin(k), j + 0.1 * np.cos(3 * k), 0.1 * np.sin(7 * k)], 1)
    edges = np.concatenate([np.stack([k, k + 1], 1)[i < width - 1],
                            np.stack([k, k + width], 1)[j < width - 1]])
    return positions, edges, np.ones(len(edges))


def independent_fits(count):
    """Decays with an unknown amplitude and rate each, in one problem."""
    rng = np.random.default_rng(3)
    t, rates = np.linspace(0, 2, 12), rng.uniform(0.5, 2, count)
    y = 1.5 * np.exp(-rates[:, None] * t)
    p = topograd.Problem()
    x = p.parameters(np.ones((count, 2)))
    k = np.repeat(np.arange(count), t.size)
    p.residuals(lambda x, t, y: x[:, 0] * np.exp(-x[:, 1] * t) - y, x[k], np.tile(t, count), y.ravel())
    return p, x, rates


def length(a, b, rest):
    return np.linalg.norm(a - b, axis=1) - rest


def spring_problem(width):
    positions, edges, rest = springs(width)
    corners = [0, width - 1, width * (width - 1), width * width - 1]
    p = topograd.Problem()
    x = p.parameters(positions)
    p.residuals(length, x[edges[:, 0]], x[edges[:, 1]], rest, label="springs")
    p.residuals(lambda c, to: c - to, x[corners], 1.1 * positions[corners])
    return p, x, positions


def slow_problem(count=500):
    """Cubes of unknowns: each step takes a third off, for hundreds of steps."""
    values = np.linspace(1.0, 2.0, count)
    p = topograd.Problem()
    x = p.parameters(values)
    p.residuals(lambda v: v**3, x)
    return p, values


def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Problems(unittest.TestCase):
    def test_springs(self):
        p, x, positions = spring_problem(10)
        edges = springs(10)[1]
        self.assertEqual(p.sizes["rows"], 192)
        self.assertEqual(p.sizes["arrays"], [(100, 3)])
        expected = np.linalg.norm(positions[edges[:, 0]] - positions[edges[:, 1]], axis=1) - 1
        np.testing.assert_allclose(p.evaluate()[:180], expected, 1e-12, 1e-12)
        self.assertAlmostEqual(p.cost(), 0.5 * np.sum(p.evaluate() ** 2), 12)
        np.testing.assert_allclose(p.gradient(), p.jacobian().T @ p.evaluate(), 1e-9, 1e-12)
        before = positions.copy()
        summary = p.solve(backend="cpu")
        self.assertLess(summary.final_cost, 0.5 * summary.initial_cost)
        self.assertGreater(np.abs(positions - before).max(), 0.01)  # solved in place
        self.assertAlmostEqual(p.cost(), summary.final_cost, 9)

    def test_a_million_springs_are_built_in_a_second(self):
        positions, edges, rest = springs(708)
        seconds = math.inf
        for _ in range(2):  # the first one has the page faults
            started = time.process_time()
            p = topograd.Problem()
            x = p.parameters(positions)
            p.residuals(length, x[edges[:, 0]], x[edges[:, 1]], rest)
            seconds = min(seconds, time.process_time() - started)
        self.assertGreater(p.sizes["rows"], 1_000_000)
        self.assertEqual(p.sizes["topologies"], 1)
        self.assertLess(seconds, 4.0)  # of all threads; 1 s on a machine that does nothing else
        print(f"a million springs: {seconds:.2f} s of processor time")

    def test_memory(self):
        whole = np.ones(6)
        cases = {
            "in place": (whole, True),
            "a column": (np.ones((6, 2))[:, 0], False),
            "float32": (np.ones(6, np.float32), False),
            "Fortran order": (np.asfortranarray(np.ones((3, 2))), False),
        }
        for name, (array, _) in cases.items():
            with self.subTest(name):
                p = topograd.Problem()
                x = p.parameters(array)
                p.residuals(lambda v: v - 3.0, x)
                p.solve(backend="cpu")
                np.testing.assert_allclose(array, 3.0, 1e-6)
                array[...] = 5.0  # the next solve starts here
                self.assertGreater(p.solve(backend="cpu").initial_cost, 10)

    def test_dlpack(self):
        class Foreign:
            """An array of another library."""

            def __init__(self, numbers):
                self.numbers = numbers

            def __dlpack__(self, **options):
                return self.numbers.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.numbers.__dlpack_device__()

        for kind in (np.float64, np.float32):
            with self.subTest(kind.__name__):
                p = topograd.Problem()
                start = Foreign(np.zeros((4, 2), kind))
                x = p.parameters(start)
                p.residuals(lambda v, to: v - to, x, Foreign(np.arange(8, dtype=kind).reshape(4, 2)))
                p.solve(backend="cpu")
                got = np.from_dlpack(x.value)
                np.testing.assert_allclose(got, np.arange(8.0).reshape(4, 2), 0, 1e-6)
                np.testing.assert_array_equal(start.numbers, got)
        result = topograd.least_squares(lambda x: x - 3.0, Foreign(np.ones(2, np.float32)))
        np.testing.assert_allclose(result.x, 3.0, 1e-7)

    def test_starts_that_cannot_be_written(self):
        fixed = np.zeros(3)
        fixed.flags.writeable = False
        for start in ([0, 0, 0], np.zeros(3, int), fixed):
            p = topograd.Problem()
            x = p.parameters(start)
            p.residuals(lambda v: v - 0.5, x)
            p.solve(backend="cpu")
            np.testing.assert_allclose(x.value, 0.5)

    def test_flags(self):
        values = np.zeros((4, 2))
        p = topograd.Problem()
        x = p.parameters(values)
        p.residuals(lambda v: v - [[1.0, 2.0]], x)
        p.fix(x[1])
        p.fix(x[2:, 0])
        p.bounds(x[0], upper=[0.5, np.inf])
        p.bounds(x[[3], 1], -1.0, 1.5)
        p.solve(backend="cpu")
        np.testing.assert_allclose(values, [[0.5, 2], [0, 0], [0, 2], [0, 1.5]], 0, 1e-6)
        p.free(x[1])
        p.solve(backend="cpu")
        np.testing.assert_allclose(values[1], [1, 2], 0, 1e-6)
        with self.assertRaises(ValueError):
            p.fix(x * 2)

    def test_losses(self):
        data = np.concatenate([np.full(9, 2.0), [50.0]])
        values = np.zeros(1)
        p = topograd.Problem()
        x = p.parameters(values)
        blocks = p.residuals(lambda v: v - data, x, loss=("cauchy", 1.0))
        p.solve(backend="cpu")
        self.assertAlmostEqual(values[0], 2.0, 1)
        blocks.set_loss(None)
        p.solve(backend="cpu")
        self.assertAlmostEqual(values[0], data.mean(), 6)
        with self.assertRaisesRegex(ValueError, "expected one of linear, huber"):
            blocks.set_loss("square")

    def test_traced_losses(self):
        data = np.concatenate([np.full(9, 2.0), [50.0]])
        ends = []
        for loss in ("cauchy", lambda s: np.log1p(s),
                     lambda s: np.stack([np.log1p(s), 1 / (1 + s), -1 / (1 + s) ** 2])):
            p = topograd.Problem()
            x = p.parameters(np.zeros(1))
            p.residuals(lambda v: v - data, x, loss=loss)
            p.solve(backend="cpu")
            ends.append(x.value[0])
        np.testing.assert_allclose(ends[1:], ends[0], 0, 1e-6)
        # A scale is SciPy's f_scale.
        ends = []
        for loss in (("cauchy", 2.5), (lambda z: np.log1p(z), 2.5)):
            p = topograd.Problem()
            x = p.parameters(np.zeros(1))
            blocks = p.residuals(lambda v: v - data, x, loss=loss)
            first = p.cost()
            blocks.set_loss(loss)
            self.assertEqual(p.cost(), first)
            p.solve(backend="cpu")
            ends.append((x.value[0], first, p.cost()))
        np.testing.assert_allclose(ends[1], ends[0], 1e-6)
        with self.assertRaisesRegex(ValueError, "expected a positive scale, got 0.0"):
            p.residuals(lambda v: v, x, loss=(np.log1p, 0))
        with self.assertRaisesRegex(topograd.TracingError, "the traced ρ' has other values"):
            p.residuals(lambda v: v, x, loss=lambda z: np.stack([np.log1p(z), 1 / (2 + z), 0 * z]))
        calls = itertools.count(1)
        with self.assertRaisesRegex(topograd.TracingError, "the traced ρ has other values"):
            p.residuals(lambda v: v, x, loss=lambda z: next(calls) * z)
        with self.assertRaisesRegex(topograd.TracingError, "branch on a value"):
            p.residuals(lambda v: v, x, loss=lambda s: s if s < 1 else 1)
        with self.assertRaisesRegex(ValueError, r"three rows \(3, 1\), got \(2, 1\)"):
            p.residuals(lambda v: v, x, loss=lambda s: np.stack([s, s]))

    def test_arrays_of_another_problem_are_refused(self):
        p, q = topograd.Problem(), topograd.Problem()
        a = np.array([1.0, 2.0])
        x, z = p.parameters(a), q.parameters(np.array([10.0, 20.0]))
        of_q = q.data(np.array([5.0, 6.0]))
        p.data(np.array([50.0, 60.0]))
        p.residuals(lambda u: u - 5, x)
        q.residuals(lambda v: v - 7, z)
        other = q.equalities(z[0] - 8)
        refused = {
            "both": lambda: p.residuals(lambda u, v: u - v, x, z),
            "the other alone": lambda: p.residuals(lambda v: v - 7, z),
            "an expression": lambda: p.residuals(2 * z - 1),
            "in a list": lambda: p.residuals(lambda u: np.array([u[0], z[0]]), x),
            "into an array": lambda: p.residuals(lambda u: np.concatenate([u, z]), x),
            "by a function": lambda: p.residuals(lambda u: np.where(z > 0, u, 1.0), x),
            "data": lambda: p.residuals(lambda u, d: u - d, x, of_q),
            "a product": lambda: x[0] * np.exp(z[1]),
            "energies": lambda: p.energies(lambda v: v**2, z),
            "constraints": lambda: p.equalities(z[0] - 1),
            "fix": lambda: p.fix(z),
            "free": lambda: p.free(z[:1]),
            "bounds": lambda: p.bounds(z, 0, 3),
            "manifold": lambda: p.manifold(z, "sphere"),
            "covariance": lambda: p.covariance(z),
            "set": lambda: p.set(of_q, np.zeros(2)),
            "sensitivity": lambda: topograd.Sensitivity(p, of_q),
            "multipliers": lambda: p.solve().multipliers(other),
        }
        for name, call in refused.items():
            with self.subTest(name), self.assertRaises(ValueError) as raised:
                call()
            self.assertRegex(str(raised.exception), "problem|Problem")
        for call in (p.fix, p.free, p.bounds, p.covariance):
            with self.assertRaisesRegex(TypeError, "expected what parameters\\(\\) returned"):
                call(a)
        with self.assertRaisesRegex(ValueError, "fix: expected unknowns"):
            p.fix(x * 2)
        p.solve()
        np.testing.assert_allclose(a, [5, 5])

    def test_copies(self):
        p = topograd.Problem()
        x = p.parameters(np.array([1.0, 2.0]), name="ends")
        p.residuals(lambda v: v - 3, x)
        rows = p.equalities(x[0] - 2)
        s = p.solve()
        for copied in (pickle.loads(pickle.dumps(s)), copy.deepcopy(s), pickle.loads(pickle.dumps(
                copy.copy(s)))):
            self.assertEqual((repr(copied), copied.full_report(), copied.json(), copied.success),
                             (repr(s), s.full_report(), s.json(), s.success))
            self.assertEqual([i.cost for i in copied.iterations], [i.cost for i in s.iterations])
            np.testing.assert_array_equal(copied.multipliers(), s.multipliers(rows))
            self.assertEqual(copied._repr_html_(), s._repr_html_())
        for call in (pickle.dumps, copy.deepcopy, copy.copy):
            with self.assertRaisesRegex(TypeError, "a Problem cannot be copied"):
                call(p)
        with self.assertRaisesRegex(TypeError, "an array of unknowns cannot be pickled"):
            pickle.dumps(x)
        self.assertIn("'ends' of shape (2,): [2. 3.]", repr(x))

    def test_jacobians_of_unknowns_that_are_read_twice_out_of_order_and_fixed(self):
        p = topograd.Problem()
        x, y = p.parameters(np.arange(1.0, 5.0)), p.parameters(np.array([[2.0, 3.0], [5.0, 7.0]]))
        first, second = np.array([3, 1, 0, 2]), np.array([0, 1, 3, 2])
        p.residuals(lambda a, b, v: np.stack([a * b * v[:, 1], a - v[:, 0] * b], axis=1),
                    x[first], x[second], y[[1, 0, 1, 0]])
        p.residuals(lambda v: v[:, 0] ** 2, y)
        p.fix(x[2:3])
        at = p.x()
        found = p.jacobian(at)
        slopes = np.stack([(p.evaluate(at + h) - p.evaluate(at - h)) / 2e-6 for h in 1e-6 * np.eye(8)], axis=1)
        slopes[:, 2] = 0
        np.testing.assert_allclose(found.toarray(), slopes, 1e-7, 1e-7)
        self.assertTrue(found.has_canonical_format)

    def test_arrays_of_one_column_keep_it(self):
        for width in (1, 2):
            p = topograd.Problem()
            x = p.parameters(np.ones((3, width)))
            self.assertEqual(x.shape, (3, width))
            p.residuals(lambda v: v[:, 0] ** 2 - np.array([4.0, 9.0, 16.0]), x)
            self.assertTrue(p.solve().success)
            np.testing.assert_allclose(x.value[:, 0], [2, 3, 4], 1e-6)
        self.assertEqual(topograd.Problem().parameters(np.ones((3, 2)), block=1).shape, (6,))
        self.assertEqual(topograd.Problem().parameters(np.ones(3)).shape, (3,))

    def test_arrays_of_three_axes_are_refused(self):
        with self.assertRaisesRegex(ValueError, r"expected an array of shape \(n,\) or \(n, block\), got \(2, 3, 2\)"):
            topograd.Problem().parameters(np.zeros((2, 3, 2)))

    def test_empty_selections_have_no_rows(self):
        for start in (np.zeros(3), np.zeros((3, 2))):
            p = topograd.Problem()
            x = p.parameters(start)
            p.residuals(lambda v: v - 1, x)
            for some in (x[:0], x[np.zeros(0, int)], x[np.zeros(3, bool)]):
                for f in (lambda v: v - 1, lambda v: v[:, None] ** 2):
                    self.assertEqual(p.residuals(f, some).rows, slice(x.size, x.size))
                p.residuals(lambda v, w: v - w, some, np.zeros(some.shape))
                p.energies(lambda v: np.ravel(v), some)
                self.assertEqual(p.equalities(lambda v: v, some).rows, slice(0, 0))
            p.solve()
            np.testing.assert_allclose(x.value, 1, atol=1e-9)

    def test_the_power_zero_is_a_constant(self):
        for one in (lambda v: np.ones(3), lambda v: v**0, lambda v: np.power(v, 0.0), lambda v: 2 * v**0 - 1):
            p = topograd.Problem()
            x = p.parameters(np.arange(3.0))
            p.residuals(lambda v: v - 5, x)
            self.assertEqual(p.residuals(one, x).rows, slice(3, 6))
            np.testing.assert_array_equal(p.evaluate(), [-5, -4, -3, 1, 1, 1])
            self.assertEqual(p.sizes["rows"], 3)
            for add in (p.energies, p.equalities):
                with self.assertRaisesRegex(topograd.Error, "row 0 reads no unknown"):
                    add(one, x)

    def test_functions_without_a_return_statement(self):
        def forgets(*given):
            given[0] + 1

        p = topograd.Problem()
        x = p.parameters(np.ones(2))
        y, many = np.ones(2), np.ones((2, 2))
        calls = {
            "residuals": lambda: p.residuals(forgets, x),
            "an expression": lambda: p.residuals(forgets(x)),
            "energies": lambda: p.energies(forgets, x),
            "equalities": lambda: p.equalities(forgets, x),
            "inequalities": lambda: p.inequalities(forgets, x),
            "a loss": lambda: p.residuals(lambda v: v, x, loss=forgets),
            "least_squares": lambda: topograd.least_squares(forgets, y),
            "least_squares_many": lambda: topograd.least_squares_many(forgets, many),
            "curve_fit": lambda: topograd.curve_fit(forgets, y, y, [1.0]),
            "curve_fit_many": lambda: topograd.curve_fit_many(forgets, y, many, [1.0]),
            "minimize": lambda: topograd.minimize(forgets, y),
            "a constraint": lambda: topograd.minimize(lambda v: v @ v, y, constraints={"type": "eq", "fun": forgets}),
        }
        for name, call in calls.items():
            with self.subTest(name), self.assertRaisesRegex(TypeError, "has it a return statement") as raised:
                call()
            self.assertIn("test_problem.py", str(raised.exception))

    def test_other_values_than_the_functions_are_noticed(self):
        calls = itertools.count(1)
        p = topograd.Problem()
        x = p.parameters(np.array([[0.5, 1.0], [2.0, 3.0]]))
        d = p.data(np.array([1.0, 2.0]))
        cases = {
            "changes": (lambda v: v[:, 0] * next(calls), (x,)),
            "by the type": (lambda v: v[:, 0] if type(v) is np.ndarray else 2 * v[:, 0], (x,)),
            "of data": (lambda v, d: v[:, 0] - d * next(calls), (x, d)),
            "a selection": (lambda v: v * next(calls), (x[[1, 0, 1]],)),
        }
        for name, (f, arguments) in cases.items():
            with self.subTest(name), self.assertRaisesRegex(
                    topograd.TracingError, r"row \d is .* when the function is traced, and .* from numbers"):
                p.residuals(f, *arguments)
        with self.assertRaisesRegex(topograd.TracingError, "gives 4 rows for numbers, and 2 when"):
            p.residuals(lambda v: np.ravel(v) if type(v) is np.ndarray else v[:, 0], x)
        p.residuals(lambda v: np.log(v[:, 0] - 0.5), x)  # -inf at the start
        p.residuals(lambda v, d: v[:, 0] - d + x[:, 1], x, d)  # no numbers of x in a closure
        self.assertEqual(p.sizes["rows"], 4)

    def test_messages_have_pythons_words(self):
        p = topograd.Problem()
        x = p.parameters(np.zeros(2))
        p.residuals(lambda v: v - 1, x)
        cases = {
            "kernel=": lambda: p.source("sum"),
            "format=": lambda: p.source(format="basic"),
            "precision=": lambda: p.source(format="c", precision="f32"),
            "hold it with fix": lambda: (p.bounds(x, 1.0, 1.0), p.solve()),
        }
        for words, call in cases.items():
            with self.subTest(words), self.assertRaisesRegex(topograd.Error, words) as raised:
                call()
            self.assertNotRegex(str(raised.exception), "--|set_|add_|dump:")

    def test_manifold(self):
        values = np.array([0.6, 0.8, 0.0])
        p = topograd.Problem()
        x = p.parameters(values, block=3)
        p.residuals(lambda v: v - [[0.0, 3.0, 4.0]], x)
        with self.assertRaisesRegex(ValueError, "one of euclidean, quaternion.*got \"torus\""):
            p.manifold(x, "torus")
        p.manifold(x, "sphere")
        p.solve(backend="cpu", function_tolerance=1e-14)
        np.testing.assert_allclose(values, [0, 0.6, 0.8], 0, 1e-6)

    def test_energies(self):
        values = np.array([2.0, -1.0])
        p = topograd.Problem()
        x = p.parameters(values)
        p.energies(lambda v: np.cosh(v) - v, x)
        summary = p.solve(backend="cpu")
        np.testing.assert_allclose(values, np.arcsinh(1.0), 0, 1e-4)
        self.assertAlmostEqual(summary.final_cost, p.cost(), 9)

    def test_energies_that_read_no_unknown(self):
        p = topograd.Problem()
        x = p.parameters(np.array([0.5, 1.0]))
        p.energies(lambda v: np.tril(np.outer(v, v)) ** 2, x)  # with a zero
        self.assertEqual(p.evaluate().size, 0)
        self.assertAlmostEqual(p.cost(), 0.0625 + 0.25 + 1.0)
        with self.assertRaisesRegex(topograd.Error, "energies: row 1 reads no unknown"):
            p.energies(lambda v: np.stack([v[0], 3.0]), x)

    def test_covariance(self):
        t = np.linspace(0, 1, 20)
        p = topograd.Problem()
        x = p.parameters(np.zeros(2))
        p.residuals(x[0] + x[1] * t)
        jacobian = np.stack([np.ones(20), t], 1)
        np.testing.assert_allclose(p.covariance(x), np.linalg.inv(jacobian.T @ jacobian), 1e-9)

    def test_covariance_of_what_is_determined(self):
        p = topograd.Problem()
        x = p.parameters(np.array([1.0, 9.0]), name="a")
        spare = p.parameters(np.array([5.0, 6.0]), name="spare")
        two = p.parameters(np.array([5.0, 6.0]), name="two")
        zero = p.parameters(np.array([5.0]), name="zero")
        p.residuals(x[0] * np.ones(4) - np.array([1.0, 2.0, 3.0, 5.0]))
        p.residuals(two[0] - two[1] + np.zeros(1) - 1.0)
        p.residuals(0.0 * (zero[0] * np.ones(1) - 1.0))
        alone = topograd.Problem()
        y = alone.parameters(np.array([1.0]))
        alone.residuals(y[0] * np.ones(4) - 1.0)
        np.testing.assert_allclose(alone.covariance(y), [[0.25]], 1e-12)
        with self.assertWarnsRegex(RuntimeWarning, 'parameter "a", block 1'):
            found = p.covariance(x)
        np.testing.assert_allclose(found, [[0.25, np.nan], [np.nan, np.inf]], 1e-12)
        for block, name in (spare, "spare"), (two, "two"), (zero, "zero"):
            with self.assertRaisesRegex(topograd.ArgumentError, name):
                p.covariance(block)

    def test_source(self):
        p = spring_problem(4)[0]
        self.assertIn("sqrt", p.source("residual", format="ir"))
        self.assertIn("sqrt(", p.source(kernel="gradient", format="c"))
        with self.assertRaises(topograd.ArgumentError):
            p.source(kernel="everything")

    def test_solver_keeps_its_state(self):
        p, x, positions = spring_problem(6)
        start = positions.copy()
        solver = p.solver(backend="cpu")
        first = solver.solve()
        positions[...] = start
        second = solver.solve()
        self.assertEqual(first.final_cost, second.final_cost)

    def test_options(self):
        p = spring_problem(4)[0]
        with self.assertRaisesRegex(TypeError, "unknown option 'tolerance'.*threads"):
            p.solve(tolerance=1e-3)
        with self.assertRaisesRegex(TypeError, "'max_iterations' has a wrong type"):
            p.solve(max_iterations="many")
        with self.assertRaises(ValueError):
            p.solve(backend="abacus")
        self.assertEqual(p.solve(backend="cpu", max_iterations=1).termination, "NO_CONVERGENCE")

    def test_callbacks(self):
        p = spring_problem(8)[0]
        seen = []
        p.solve(backend="cpu", callback=lambda step: seen.append(step.cost))
        self.assertGreater(len(seen), 2)
        p = spring_problem(8)[0]
        ended = p.solve(backend="cpu", callback=lambda step: step.iteration >= 1)
        self.assertEqual(ended.termination, "USER_SUCCESS")
        self.assertEqual(ended.num_iterations, 1)

        def failing(step):
            if step.iteration == 2:
                raise KeyError("mine")

        p, values = slow_problem()
        with self.assertRaisesRegex(KeyError, "mine"):
            p.solve(backend="cpu", callback=failing)
        self.assertLess(values[0], 0.9)  # the best point so far

    def test_summary(self):
        p = spring_problem(6)[0]
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            summary = p.solve(backend="cpu", progress=True)
        self.assertIn("CONVERGENCE", summary.full_report())
        self.assertEqual(summary.optimality, summary.json()["optimality"])
        self.assertEqual(summary.json()["backend"], "cpu")
        page = summary._repr_html_()
        self.assertIn("<polyline", page)
        self.assertIn("accepted", page)
        self.assertIn("seconds", dir(summary))
        with self.assertRaises(AttributeError):
            summary.nothing

    def test_other_threads_run(self):
        p = spring_problem(150)[0]
        counted = [0]
        ends = threading.Event()

        def count():
            while not ends.is_set():
                counted[0] += 1

        thread = threading.Thread(target=count)
        thread.start()
        before = counted[0]
        p.solve(backend="cpu", max_iterations=5)
        during = counted[0] - before
        ends.set()
        thread.join()
        self.assertGreater(during, 1000)

    def test_an_interrupt_ends_at_the_best_point(self):
        p, values = slow_problem()
        start = p.cost()
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        summary = p.solve(backend="cpu", max_iterations=100_000, function_tolerance=1e-300,
                          parameter_tolerance=1e-300, gradient_tolerance=1e-300,
                          callback=lambda step: time.sleep(0.01))
        timer.join()
        self.assertTrue(summary.interrupted)
        self.assertLess(p.cost(), start)

    def test_an_interrupt_without_a_callback(self):
        for components, count, message in (("separate", 200_000, "ended with USER_SUCCESS: interrupted"),
                                           ("together", 500, "interrupted")):
            with self.subTest(components):
                p, values = slow_problem(count)
                start = p.cost()
                timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                summary = p.solve(backend="cpu", components=components, max_iterations=10_000_000,
                                  function_tolerance=1e-300, parameter_tolerance=1e-300,
                                  gradient_tolerance=1e-300)
                timer.join()
                self.assertTrue(summary.interrupted)
                self.assertEqual(summary.termination, "USER_SUCCESS")
                self.assertIn(message, summary.message)
                self.assertLess(p.cost(), start)

    def test_handlers_of_signals_run_in_solves(self):
        def handler(signum, frame):
            raise LookupError("time is up")

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        p, values = slow_problem(200_000)
        start = p.cost()
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with self.assertRaisesRegex(LookupError, "time is up"):
            p.solve(backend="cpu", max_iterations=10_000_000, function_tolerance=1e-300,
                    parameter_tolerance=1e-300, gradient_tolerance=1e-300)
        self.assertLess(p.cost(), start)

    def test_many_fits_in_one_problem_are_components(self):
        p, x, rates = independent_fits(1000)
        summary = p.solve(backend="cpu")
        self.assertEqual(summary.json()["components"]["solved"], "separate")
        np.testing.assert_allclose(x.value[:, 1], rates, rtol=1e-6)
        p, x, rates = independent_fits(1000)
        summary = p.solver(backend="cpu").solve()
        self.assertEqual(summary.json()["components"]["solved"], "separate")
        np.testing.assert_allclose(x.value[:, 1], rates, rtol=1e-6)
        p, x, rates = independent_fits(1000)
        summary = p.solve(backend="cpu", callback=lambda step: None)
        self.assertNotEqual(summary.json().get("components", {}).get("solved"), "separate")
        np.testing.assert_allclose(x.value[:, 1], rates, rtol=1e-6)

    def test_nothing_leaks(self):
        def once():
            target = np.arange(3.0)
            topograd.least_squares(lambda x: np.sinh(x) - target, np.zeros(3),
                                   options={"fallback": False})

        for _ in range(200):
            once()
        gc.collect()
        before = memory()
        for _ in range(1800):
            once()
        gc.collect()
        self.assertLess(memory() - before, 4 << 20)

    def test_tracing_is_quick(self):
        """Nothing in Python is done per row."""
        def seconds(rows):
            index = np.arange(rows) % 50
            started = time.perf_counter()
            p = topograd.Problem()
            x = p.parameters(np.ones((50, 3)))
            p.residuals(length, x[index], x[(index + 1) % 50], np.ones(rows))
            return time.perf_counter() - started

        seconds(10)
        self.assertLess(min(seconds(100_000) for _ in range(3)), 1.0)


class Demo(unittest.TestCase):
    """The demonstration that the first page names."""

    def test_the_cow_is_bent_and_drawn(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            path = topograd.demo(f"{folder}/cow.svg")
            picture = xml.etree.ElementTree.parse(path).getroot()
        self.assertIn("CONVERGENCE", said.getvalue())
        self.assertIn("2930 vertices", said.getvalue())
        width, height = float(picture.get("width")), float(picture.get("height"))
        polygons = picture.findall("{*}polygon")
        self.assertGreater(len(polygons), 1000)
        for polygon in polygons:
            points = np.array([at.split(",") for at in polygon.get("points").split()], dtype=float)
            self.assertEqual(points.shape, (3, 2))
            self.assertTrue((points >= 0).all() and (points <= [width, height]).all())


if __name__ == "__main__":
    unittest.main()
