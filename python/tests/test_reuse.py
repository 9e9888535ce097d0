"""Later calls of least_squares use the trace of an earlier one, and never a wrong one."""

import dis
import functools
import gc
import threading
import types
import unittest
import weakref

import numpy as np
import scipy.optimize
from scipy import interpolate

import topograd
from topograd import _least_squares, _reuse

T = np.linspace(0.1, 4, 40)
FACTOR = np.ones(40)
OFFSET = 0.5


def data(seed, a=2.5):
    return a * np.exp(-1.3 * T) + 0.5 + 0.05 * np.random.default_rng(seed).normal(size=T.size)


def decay(x, t, y):
    return x[0] * np.exp(-x[1] * t) + x[2] - y


def with_globals(x, t, y):
    return (x[0] * np.exp(-x[1] * t) + OFFSET - y) * FACTOR


def with_scalar(x, t, y):
    return x[0] * np.exp(-x[1] * t) + y[0] - y


def with_branch(x, t, y):
    return x[0] * t - y if y.max() > 2 else x[0] * np.exp(-x[1] * t) - y


def with_derived(x, t, y):
    return x[0] + x[1] * t - np.log(y + 5)


def with_views(x, t, y):
    return np.concatenate([x[0] * np.exp(-x[1] * t[::2]) - y[::2], x[0] * t[1::2] - y[1::2]])


@functools.lru_cache(maxsize=None)  # of which nothing says what it computes
def convolve(step):
    return np.ones(3) / step


def smoothed(x, t, y):
    return np.convolve(x[0] * np.exp(-x[1] * t), [0.5, 0.25])[:t.size] + x[2] - y


class Model:
    def __init__(self, y, gain):
        self.y, self.gain = y, gain

    def __call__(self, x):
        return self.gain * (x[0] * np.exp(-x[1] * T) - self.y)

    def residuals(self, x, power=1):
        return self(x) * power


class Reuse(unittest.TestCase):
    def setUp(self):
        _reuse.traces.clear()
        self.traced = 0
        original = _least_squares.trace_function

        def counted(*args):
            self.traced += 1
            return original(*args)

        _least_squares.trace_function = counted
        self.addCleanup(setattr, _least_squares, "trace_function", original)

    def check(self, fun, x0, *args, **kwargs):
        found = topograd.least_squares(fun, x0, args=args, options={"fallback": False}, **kwargs)
        expected = scipy.optimize.least_squares(fun, x0, args=args, xtol=1e-12, ftol=1e-12, gtol=1e-12,
                                                x_scale="jac", **kwargs)
        self.assertTrue(found.success)
        np.testing.assert_allclose(found.cost, expected.cost, 1e-6, 1e-12)
        np.testing.assert_allclose(found.x, expected.x, 1e-4, 1e-6)
        np.testing.assert_allclose(found.fun, fun(found.x, *args), 1e-12, 1e-12)
        if "loss" not in kwargs:
            np.testing.assert_allclose(found.jac.T @ found.fun, found.grad, 1e-6, 1e-9)

    def test_an_array_x_scale(self):
        """Steps are in a ball, and the trace has the scale in it: a key of its own, and the same engine."""
        kwargs = {"x_scale": np.array([2.0, 1.0, 0.5]), "bounds": ([0, 0, -5], [10, 10, 10])}
        for seed in range(5):
            y = data(seed)
            found = topograd.least_squares(decay, [1.0 + 0.1 * seed, 1, 0], args=(T, y), **kwargs,
                                           options={"fallback": False})
            expected = scipy.optimize.least_squares(decay, [1.0, 1, 0], args=(T, y), **kwargs,
                                                    xtol=1e-12, ftol=1e-12, gtol=1e-12)
            np.testing.assert_allclose(found.x, expected.x, 1e-5)
            np.testing.assert_allclose(found.cost, expected.cost, 1e-8)
        self.assertEqual(self.traced, 2)
        kwargs["x_scale"] = np.array([2.0, 1.0, 5.0])
        found = topograd.least_squares(decay, [1.0, 1, 0], args=(T, data(0)), **kwargs)
        np.testing.assert_allclose(found.fun, decay(found.x, T, data(0)), 1e-12, 1e-12)
        self.assertEqual(self.traced, 3)

    def test_other_numbers_are_put_into_the_trace(self):
        for seed in range(6):
            self.check(decay, [1, 1, 0.0], T, data(seed))
        self.assertEqual(self.traced, 2)  # the second shows that y is only data

    def test_a_function_with_the_name_of_one_of_numpys(self):
        """It is not read where NumPy's is called, so it does not matter what it is."""
        for seed in range(4):
            self.check(smoothed, [1, 1, 0.0], T, data(seed))
        self.assertEqual(self.traced, 2)

    def test_globals_are_told_from_attributes(self):
        """As the interpreter's own list of instructions tells them."""
        reads = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")

        def expected(code):
            names = {i.argval for i in dis.get_instructions(code) if i.opname in reads}
            return names.union(*(expected(c) for c in code.co_consts if isinstance(c, types.CodeType)))

        many = "def f(x):\n" + "".join(f"    x.a{k} = b{k}.c{k}\n" for k in range(700))
        space = {}
        exec(many, space)
        functions = [space["f"], *(f for m in (functools, dis, unittest.case, _least_squares, _reuse)
                                   for f in vars(m).values() if isinstance(f, types.FunctionType))]
        self.assertGreater(len(functions), 100)
        for function in functions:
            with self.subTest(function.__qualname__):
                self.assertEqual(set(_reuse._globals_of(function.__code__)), expected(function.__code__))

    def test_traces_that_are_not_kept_are_freed_at_once(self):
        """Not when Python looks for circles: a first fit after others took new memory for its graph."""
        traces = []
        counted = _least_squares.trace_function

        def noted(*args):
            found = counted(*args)
            traces.append(weakref.ref(found[0]))
            return found

        _least_squares.trace_function = noted
        self.addCleanup(setattr, _least_squares, "trace_function", counted)
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for fun in (with_globals, with_views, with_derived, Model(data(1), 2.0).residuals):
            args = () if isinstance(fun, types.MethodType) else (T, data(1))
            topograd.least_squares(fun, [1, 1, 0.0], args=args, options={"fallback": False})
            self.assertIsNotNone(traces[-1]())  # it is kept
            _reuse.traces.clear()
            self.assertIsNone(traces[-1](), fun)

    def test_a_trace_has_one_model(self):
        made = 0
        original = _least_squares.Engine

        def counted(*args):
            nonlocal made
            made += 1
            return original(*args)

        _least_squares.Engine = counted
        self.addCleanup(setattr, _least_squares, "Engine", original)
        ends = [topograd.least_squares(decay, [1, 1, 0.0], args=(T, data(1))).x for _ in range(3)]
        self.assertEqual(made, 1)
        np.testing.assert_array_equal(ends[0], ends[1])
        np.testing.assert_array_equal(ends[0], ends[2])
        for seed in range(2, 6):
            self.check(decay, [1, 1, 0.0], T, data(seed))
        self.assertEqual((self.traced, made), (2, 2))

    def test_the_same_numbers_need_one_trace(self):
        for start in (0.5, 1, 2):
            self.check(decay, [start, 1, 0.0], T, data(1))
        self.assertEqual(self.traced, 1)
        self.check(decay, [1, 1, 0.0], T + 0.1, data(1))  # t may be more than data
        self.assertEqual(self.traced, 2)
        self.check(decay, [1, 1, 0.0], T + 0.2, data(2))
        self.assertEqual(self.traced, 3)  # now y, which had not changed with t
        self.check(decay, [1, 1, 0.0], T + 0.3, data(3))
        self.assertEqual(self.traced, 3)

    def test_numbers_that_the_graph_depends_on(self):
        for fun, n in ((with_scalar, 2), (with_branch, 2), (with_derived, 2)):
            for seed in range(5):
                self.check(fun, [1.0] * n, T, data(seed, 0.9 + 0.4 * seed))

    def test_views_of_arrays(self):
        for seed in range(5):
            self.check(with_views, [1, 1.0], T, data(seed))
        self.assertEqual(self.traced, 2)
        for seed in range(3):  # columns of an array that is not in rows
            both = np.asfortranarray(np.stack([T, data(seed)], 1))
            self.check(lambda x, d: decay(x, d[:, 0], d[:, 1]), [1, 1, 0.0], both)

    def test_closures_objects_and_partials(self):
        for make in (lambda y, g: lambda x: g * decay(x, T, y),
                     lambda y, g: functools.partial(decay, t=T, y=y),
                     lambda y, g: (lambda m: lambda x: m.residuals(x, 2))(Model(y, g))):
            for seed in range(4):
                self.check(make(data(seed), 1 + seed % 2), [1.0, 1.0, 0.1])
        for seed in range(4):
            model = Model(data(seed), 2.0)
            self.check(model, [1, 1.0])
            self.check(model.residuals, [1, 1.0])
            model.y = data(seed + 10)
            model.gain = 3.0
            self.check(model.residuals, [1, 1.0])

    def test_globals_that_change(self):
        global OFFSET, FACTOR
        try:
            for seed in range(4):
                OFFSET, FACTOR = 0.4 + 0.1 * seed, np.full(40, 1.0 + seed % 2)
                FACTOR[:20] = 0.5
                self.check(with_globals, [1, 1.0], T, data(seed))
        finally:
            OFFSET, FACTOR = 0.5, np.ones(40)

    def test_interpolators(self):
        try:
            spline = interpolate.CubicSpline(T, np.exp(-T))
        except AttributeError as error:  # test_numpy2 hides what this SciPy asks for
            self.skipTest(str(error))
        surface = interpolate.RectBivariateSpline(T[::8], T[::8], np.outer(T[::8], np.cos(T[::8])))
        table = interpolate.RegularGridInterpolator((T[::8], T[::8]), np.outer(T[::8], np.cos(T[::8])))

        def fun(x):
            return np.r_[spline(x[0]) - 0.3, surface.ev(x[0], x[1]) + 1, table(x) + 1, x - 1]

        for _ in range(3):
            self.check(fun, [1.0, 1.2])
        self.assertEqual(self.traced, 1)
        for _ in range(4):
            self.check(fun, [1.0, 1.2])
            spline.c[-1] *= 1.01
            surface.tck[2][:] *= 1.02
            table.values[...] += 0.1

    def test_memory_that_changes_in_place(self):
        y = data(0)
        for seed in range(5):
            y[:] = data(seed)
            self.check(decay, [1, 1, 0.0], T, y)
        self.check(lambda x, a, b: x[0] * a - b, [1.0], y, y)
        self.check(lambda x, a, b: x[0] * a - b, [1.0], y, T)

    def test_state_that_no_key_shows(self):
        hidden = {"power": [1.0, object()]}

        def fun(x, y):
            return x[0] * T ** hidden["power"][0] - y

        for power in (1.0, 2.0, 0.5):
            hidden["power"][0] = power
            self.check(fun, [1.0], data(0))

    def test_bounds_losses_and_start_are_those_of_the_call(self):
        for seed in range(4):
            self.check(decay, [1, 1, 0.1], T, data(seed), bounds=([0, 0, 0], [2 + 0.1 * seed, 5, 1]))
            self.check(decay, [1, 1, 0.1], T, data(seed), loss="soft_l1", f_scale=0.1 + 0.01 * seed)
        self.assertEqual(self.traced, 2)

    def test_constants_by_sign(self):
        for c in (0.0, -0.0):
            found = topograd.least_squares(lambda x: np.array([x[0] - np.copysign(2.0, c)]), [1.0])
            np.testing.assert_allclose(found.x, np.copysign(2.0, c), 1e-6)

    def test_results_of_earlier_calls_stay(self):
        first = topograd.least_squares(decay, [1, 1, 0.0], args=(T, data(0)))
        x, jac, cost = first.x.copy(), first.jac.copy(), first.summary.final_cost
        for seed in range(1, 4):
            topograd.least_squares(decay, [1, 1, 0.0], args=(T, data(seed)))
        np.testing.assert_array_equal(first.x, x)
        np.testing.assert_array_equal(first.jac, jac)
        self.assertEqual(first.summary.final_cost, cost)

    def test_what_does_not_change_the_start(self):
        t = np.linspace(0, 1, 20)
        y = 1 + 2 * t + 3 * t**2
        read = {"t": t, "y": y}

        class Settings:
            quadratic = False

        def by_dict(x, data, flags):
            return x[0] + x[1] * data["t"] + (x[2] * data["t"]**2 if flags["quad"] else 0) - data["y"]

        def by_class(x):
            return x[0] + x[1] * t + (x[2] * t**2 if Settings.quadratic else 0) - y

        line = topograd.least_squares(by_dict, [0., 0, 0], args=(read, {"quad": False}))
        curve = topograd.least_squares(by_dict, line.x, args=(read, {"quad": True}))
        np.testing.assert_allclose(curve.x, [1, 2, 3], rtol=1e-8)
        line = topograd.least_squares(by_class, [0., 0, 0])
        Settings.quadratic = True
        curve = topograd.least_squares(by_class, line.x)
        np.testing.assert_allclose(curve.x, [1, 2, 3], rtol=1e-8)

    def test_views_that_become_arrays(self):
        class Data:
            pass
        data, base = Data(), np.zeros(6)
        data.a, data.b = base, base[1:]

        def f(x):
            return np.concatenate([data.a * x[0] - 1, data.b * x[1] - 1])

        topograd.least_squares(f, [0., 0])
        base[:] = np.arange(1, 7)
        topograd.least_squares(f, [0., 0])
        data.a, data.b = np.zeros(6), np.ones(5)
        found = topograd.least_squares(f, [0., 0])
        np.testing.assert_allclose(found.x[1], 1)
        np.testing.assert_allclose(found.cost, 3)

    def test_few_are_kept(self):
        for k in range(60):
            topograd.least_squares(lambda x, c: x - c, np.zeros(2), args=(float(k),))
        self.assertLessEqual(len(_reuse.traces), 32)

    def test_long_simulations_are_kept_while_there_is_room(self):
        def states(p, n):
            s, out = p[1], []
            for _ in range(n):
                s = s + 1e-4 * (p[0] * np.sin(s) - np.cos(s))
                out.append(s)
            return np.array(out)

        def residuals(p, n, shift):
            return states(p, n) - shift

        for _ in range(4):
            topograd.least_squares(residuals, [0.3, 0.1], args=(6000, 0.2))
        self.assertEqual(self.traced, 1)
        for k in range(24):
            topograd.least_squares(residuals, [0.3, 0.1], args=(6000, 0.1 * k), max_nfev=1)
        self.assertLessEqual(sum(kept.nodes for kept in _reuse.traces), 640_000)
        self.assertGreater(len(_reuse.traces), 4)

    def test_threads(self):
        wrong = []

        def work(seed):
            for k in range(20):
                y = data(100 * seed + k)
                found = topograd.least_squares(decay, [1, 1, 0.0], args=(T, y))
                if not np.allclose(found.fun, decay(found.x, T, y)) or abs(found.grad).max() > 1e-4:
                    wrong.append((seed, k))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
