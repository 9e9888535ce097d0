"""curve_fit and minimize against SciPy's: values, covariances, signatures, and what is left to SciPy."""

import inspect
import itertools
import pathlib
import unittest
import unittest.mock
import warnings

import numpy as np
import scipy.optimize
import scipy.stats
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, OptimizeWarning

import topograd
from topograd import _fits
from test_references import DATA, read_nist

OURS = {"fallback": False}
T = np.linspace(0, 4, 50)
Y = 2.5 * np.exp(-1.3 * T) + 0.5 + np.random.default_rng(0).normal(0, 0.05, 50)
S = 0.02 + 0.05 * np.random.default_rng(1).random(50)


def decay(t, a, b, c):
    return a * np.exp(-b * t) + c


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def plane(x):
    return (x[0] - 1) ** 2 + (x[1] - 2.5) ** 2


class CurveFit(unittest.TestCase):
    def test_a_rate_without_an_amplitude_is_not_determined(self):
        """As where the amplitude is 0, though it is a rounding of the offset."""
        for unit in (1e-9, 1.0, 1e9):
            with self.subTest(unit=unit), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start, y = [unit, 1.0, unit], np.full(50, 3 * unit)
                self.assertTrue(np.all(np.isinf(topograd.curve_fit(decay, T, y, start, options=OURS)[1])))
                self.assertTrue(np.all(np.isinf(topograd.curve_fit_many(decay, T, [y, y], start)[1])))
                # An offset that is a rounding is determined.
                y = 2 * unit * np.exp(-T)
                self.assertTrue(np.all(np.isfinite(topograd.curve_fit(decay, T, y, start, options=OURS)[1])))
                self.assertTrue(np.all(np.isfinite(topograd.curve_fit_many(decay, T, [y, y], start)[1])))

    def test_signature(self):
        for ours, theirs in ((topograd.curve_fit, scipy.optimize.curve_fit),
                             (topograd.minimize, scipy.optimize.minimize)):
            names = [n for n in inspect.signature(theirs).parameters]
            got = [n for n in inspect.signature(ours).parameters if n in names]
            self.assertEqual(got, names)

    def test_against_scipys(self):
        covariance = np.diag(S**2) + 1e-4
        cases = {
            "plain": {}, "start": dict(p0=[1.0, 2.0, 0.0]), "sigma": dict(sigma=S),
            "absolute": dict(sigma=S, absolute_sigma=True), "matrix": dict(sigma=covariance),
            "bounds": dict(bounds=(0, [2.0, 3.0, 1.0])), "Bounds": dict(bounds=Bounds([0] * 3, [3] * 3)),
            "loss": dict(method="trf", loss="soft_l1", f_scale=0.1), "maxfev": dict(maxfev=500),
        }
        for name, arguments in cases.items():
            with self.subTest(name):
                # With bounds SciPy's default tolerance of 1e-8 ends 3e-5 from the optimum.
                tight = {"ftol": 1e-15, "xtol": 1e-15} if "bounds" in arguments else {}
                theirs = scipy.optimize.curve_fit(decay, T, Y, **arguments, **tight)
                ours = topograd.curve_fit(decay, T, Y, options=OURS, **arguments)
                np.testing.assert_allclose(ours[0], theirs[0], 1e-5)
                np.testing.assert_allclose(ours[1], theirs[1], 1e-3, 1e-9)

    def test_full_output(self):
        for arguments in ({}, {"method": "trf"}, {"bounds": (0, 5)}):
            theirs = scipy.optimize.curve_fit(decay, T, Y, full_output=True, **arguments)[2]
            full = topograd.curve_fit(decay, T, Y, full_output=True, options=OURS, **arguments)
            self.assertEqual(len(full), 5)
            known = full[2]
            self.assertEqual(set(known), set(theirs))
            np.testing.assert_allclose(known["fvec"], decay(T, *full[0]) - Y)
        theirs = scipy.optimize.curve_fit(decay, T, Y, full_output=True)[2]
        known = topograd.curve_fit(decay, T, Y, full_output=True, options=OURS)[2]
        np.testing.assert_array_equal(known["ipvt"], theirs["ipvt"])
        r, expected = (np.triu(k["fjac"].T[:3]) for k in (known, theirs))
        np.testing.assert_allclose(np.abs(r), np.abs(expected), 1e-4)
        self.assertEqual((known["qtf"].shape, known["fjac"].shape), ((3,), (3, T.size)))

    def test_what_the_data_do_not_determine_has_an_infinite_covariance(self):
        """As by SciPy's 'lm': its pseudo-inverse gives 0 for an unknown that is not read."""
        cases = {
            "unread": (lambda t, a, b, c: a * np.exp(-b * t) + 0.5 + 0 * c, [2.0, 1.0, 3.0]),
            "flat": (lambda t, a, b, c: a * np.exp(-b * t) + 0.5 + np.maximum(c, 0), [2.0, 1.0, -3.0]),
            "product": (lambda t, a, b, c: a * c * np.exp(-b * t) + 0.5, [2.0, 1.0, 3.0]),
            "sum": (lambda t, a, b, c: (a + 1e6 * c) * np.exp(-b * t) + 0.5, [2.0, 1.0, 3.0]),
        }
        for name, (f, p0) in cases.items():
            for method in ("lm", "trf"):
                with self.subTest(name, method=method):
                    with self.assertWarnsRegex(OptimizeWarning, "Covariance of the parameters"):
                        _, pcov = topograd.curve_fit(f, T, Y, p0, method=method, options=OURS)
                    self.assertTrue(np.all(np.isinf(pcov)))
        with self.assertWarns(OptimizeWarning):  # also of a perfect fit, whose variance is 0
            _, pcov = topograd.curve_fit(lambda t, a, b: a * t + b * t, T, 2 * T, [1, 1], options=OURS)
        self.assertTrue(np.all(np.isinf(pcov)))
        for name in ("unread", "flat"):
            with self.assertWarns(OptimizeWarning):
                self.assertTrue(np.all(np.isinf(scipy.optimize.curve_fit(cases[name][0], T, Y,
                                                                         cases[name][1])[1])))

    def test_covariances_do_not_depend_on_units(self):
        _, expected = scipy.optimize.curve_fit(decay, T, Y)
        for unit in (1e9, 1e20):
            for method in ("lm", "trf"):
                popt, pcov = topograd.curve_fit(lambda t, a, b, c: decay(t, unit * a, b, c / unit), T, Y,
                                                [2 / unit, 1.0, 0.4 * unit], method=method, options=OURS)
                scale = np.array([unit, 1, 1 / unit])
                np.testing.assert_allclose(pcov * np.outer(scale, scale), expected, rtol=1e-4)

    def test_refusals_are_scipys(self):
        cases = {
            "no data": (decay, T[:0], Y[:0], {}), "few": (decay, T[:2], Y[:2], {}),
            "nan": (decay, T, np.where(T > 3, np.nan, Y), {}), "sigma": (decay, T, Y, dict(sigma=S[:9])),
            "not definite": (decay, T, Y, dict(sigma=-np.eye(50))),
            "no parameters": (lambda t: t, T, Y, {}), "lm": (decay, T, Y, dict(method="lm", bounds=(0, 5))),
            "args": (decay, T, Y, dict(args=(3,))), "method": (decay, T, Y, dict(method="newton")),
            "evaluations": (decay, T, Y, dict(maxfev=2)),
        }
        for name, (f, x, y, arguments) in cases.items():
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with self.assertRaises(Exception) as theirs:
                    scipy.optimize.curve_fit(f, x, y, **arguments)
                with self.assertRaises(type(theirs.exception)):
                    topograd.curve_fit(f, x, y, **arguments)

    def test_what_cannot_be_traced(self):
        def branching(t, a, b):
            return a * t if a > 100 else a * t + b

        theirs = scipy.optimize.curve_fit(branching, T, Y)
        np.testing.assert_allclose(topograd.curve_fit(branching, T, Y)[0], theirs[0], 1e-6)
        with self.assertRaises(topograd.TracingError):
            topograd.curve_fit(branching, T, Y, options=OURS)

    def test_nists_sets(self):
        """With default options, from both starts: as many as SciPy's, and more."""
        right = {"scipy": 0, "topograd": 0}
        for path in sorted(pathlib.Path(DATA, "nist").glob("*.dat")):
            model, starts, certified, x, y = read_nist(path)
            names = ",".join(f"b{k}" for k in range(certified.size))
            f = eval(f"lambda x, {names}: model([{names}], x)", {"model": model})
            for start in starts:
                for name, fit in (("scipy", scipy.optimize.curve_fit), ("topograd", topograd.curve_fit)):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        try:
                            found = fit(f, x, y, start)[0]
                        except RuntimeError:
                            continue
                    right[name] += np.max(np.abs(found / certified - 1)) < 1e-4
        self.assertGreaterEqual(right["topograd"], max(right["scipy"], 4))


def in_parts(t, a, b):
    f = np.zeros_like(t)
    f[:6] = a * t[:6]
    f[6:] = b + t[6:]
    return f


class FilledArrays(unittest.TestCase):
    """What assigns into arrays is traced through every door."""

    def test_curve_fit_and_minimize(self):
        t = np.linspace(0, 1, 12)
        y = in_parts(t, 2.0, 3.0)
        found = topograd.curve_fit(in_parts, t, y, [1.0, 1.0], options=OURS)[0]
        np.testing.assert_allclose(found, [2.0, 3.0])
        found = topograd.minimize(lambda x, c: c * np.sum((in_parts(t, *x) - y) ** 2), [1.0, 1.0], (2.0,),
                                  options=OURS)
        np.testing.assert_allclose(found.x, [2.0, 3.0])
        self.assertTrue(found.success)


class Minimize(unittest.TestCase):
    CASES = {
        "rosenbrock": (rosenbrock, [-1.2, 1.0], {}),
        "of twenty": (rosenbrock, np.full(20, -1.0), {}),
        "bounds": (rosenbrock, [-1.2, 1.0], dict(bounds=[(None, 0.5), (0, None)])),
        "fixed": (rosenbrock, [-1.2, 1.0], dict(bounds=[(0.3, 0.3), (None, None)])),
        "inequalities": (plane, [2.0, 0.0], dict(bounds=((0, None), (0, None)), constraints=(
            {"type": "ineq", "fun": lambda x: x[0] - 2 * x[1] + 2},
            {"type": "ineq", "fun": lambda x: -x[0] - 2 * x[1] + 6},
            {"type": "ineq", "fun": lambda x, a: -x[0] + 2 * x[1] + a, "args": (2,)}))),
        "equality": (lambda x: np.sum(x**2), [1.0, 2.0, 3.0],
                     dict(constraints={"type": "eq", "fun": lambda x: x.sum() - 1})),
        "intervals": (rosenbrock, [0.5, 0.0], dict(bounds=Bounds([0, -0.5], [1, 2]), constraints=[
            LinearConstraint([[1, 2], [2, 1]], [-np.inf, 1], [1, 1]),
            NonlinearConstraint(lambda x: [x[0] ** 2 + x[1], x[0] ** 2 - x[1]], -np.inf, 1)])),
        "negative": (lambda x: -np.exp(-(x[0] ** 2) - (x[1] - 1) ** 2), [0.3, 0.6], {}),
        "with derivative": (lambda x: ((x**2).sum(), 2 * x), [1.0, 2.0], dict(jac=True)),
        "arguments": (lambda x, a: (x[0] - a) ** 2, [0.0], dict(args=(3.0,))),
        "SciPy's example": (scipy.optimize.rosen, [1.3, 0.7, 0.8, 1.9, 1.2], {}),
    }

    def test_against_scipys(self):
        for name, (f, start, arguments) in self.CASES.items():
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = scipy.optimize.minimize(f, start, **arguments)
                ours = topograd.minimize(f, start, options=OURS, **arguments)
                self.assertTrue(ours.success, ours.message)
                np.testing.assert_allclose(ours.x, theirs.x, 0, 2e-3)
                self.assertLessEqual(ours.fun, theirs.fun + 1e-6)
                self.assertIn("summary", ours)

    def test_an_early_point_within_inequalities_is_no_measure(self):
        """Rosenbrock's function in the unit disk: MATLAB's example of fmincon ends at (0.7864, 0.6177)."""
        for x0 in ([0.5, 0.2], [-1.0, 1.0], [2.0, 2.0], [0.0, 0.0]):
            with self.subTest(x0):
                found = topograd.minimize(rosenbrock, x0, options=OURS, constraints=NonlinearConstraint(
                    lambda x: x[0]**2 + x[1]**2, -np.inf, 1))
                self.assertTrue(found.success)
                self.assertLess(found.nit, 50)
                np.testing.assert_allclose(found.x, [0.7864, 0.6177], 0, 5e-5)
                expected = scipy.optimize.minimize(
                    rosenbrock, x0, method="SLSQP", options={"ftol": 1e-12},
                    constraints={"type": "ineq", "fun": lambda x: 1 - x[0]**2 - x[1]**2})
                np.testing.assert_allclose(found.fun, expected.fun, 0, 1e-9)

    def test_sums_are_found_behind_signs_factors_and_additions(self):
        t = np.random.default_rng(3).normal(3.0, 2.0, 60)
        terms = lambda p: p[1] + 0.5 * ((t - p[0]) / np.exp(p[1])) ** 2
        expected = scipy.optimize.minimize(lambda p: np.sum(terms(p)), [0.0, 0.0], tol=1e-10).x
        for count, cost in ((60, lambda p: np.sum(terms(p))), (60, lambda p: -np.sum(-terms(p))),
                            (60, lambda p: np.mean(terms(p))), (60, lambda p: 3.0 * (np.sum(terms(p)) / 7)),
                            (60, lambda p: 1 + np.sum(terms(p))),
                            (62, lambda p: p[0] ** 2 - (p[0] ** 2 - np.sum(terms(p)))),
                            (60, lambda p: np.sum(terms(p)[:25]) - -np.sum(terms(p)[25:])),
                            (60, lambda p: np.sum(terms(p).reshape(6, 10).T))):
            found = topograd.minimize(cost, [0.0, 0.0], options=OURS)
            np.testing.assert_allclose(found.x, expected, 1e-5)
            self.assertAlmostEqual(found.fun, cost(found.x), 10)
            self.assertEqual(found.summary._model.sizes()["energies"], count)
        scaled = lambda p: 0.5 * np.sum((t - p[0]) ** 2) / np.exp(2 * p[1]) + 60 * p[1]
        for count, cost in ((61, scaled), (61, lambda p: 2 * scaled(p)),
                            (63, lambda p: np.exp(-p[1]) * (scaled(p) * np.exp(p[1]) - 1) + np.exp(-p[1]))):
            found = topograd.minimize(cost, [0.0, 0.0], options=OURS)
            np.testing.assert_allclose(found.x, expected, 1e-5)
            self.assertEqual(found.summary._model.sizes()["energies"], count)
        found = topograd.minimize(lambda p: np.sum(terms(p)) ** 2, [0.0, 0.0], options=OURS)
        sizes = found.summary._model.sizes()
        self.assertEqual((sizes["energies"], sizes["rows"]), (0, 1))
        np.testing.assert_allclose(found.x, expected, 1e-5)

    def test_different_terms_are_evaluated_node_by_node(self):
        random = np.random.default_rng(9)
        x, times = random.normal(size=(120, 3)), random.exponential(size=120)
        order, seen = np.argsort(-times * np.exp(x @ [0.5, -0.3, 0.1])), random.random(120) < 0.8
        x, walk = x[order], np.cumsum(random.normal(size=60)) + 0.5 * random.normal(size=60)

        def cox(b):
            return -np.sum((x @ b - np.log(np.cumsum(np.exp(x @ b))))[seen])

        def kalman(p):
            step, noise = np.exp(p)
            mean, variance, total = 0.0, 10.0, 0.0
            for seen in walk:
                variance = variance + step
                gain = variance / (variance + noise)
                total = total + 0.5 * (np.log(variance + noise) + (seen - mean) ** 2 / (variance + noise))
                mean, variance = mean + gain * (seen - mean), (1 - gain) * variance
            return total

        def log_sum(v):
            return np.log(np.sum(np.exp(x @ v))) + 0.01 * v @ v

        box = [(-0.1, 0.2), (None, 0.0), (0.3, None)]
        for f, start, bounds in ((cox, np.zeros(3), None), (cox, np.zeros(3), box), (kalman, np.zeros(2), None),
                                 (kalman, np.zeros(2), box[:2]), (log_sum, np.ones(3), None),
                                 (log_sum, np.ones(3), [(0, 0), (-5, 5), (1, 2)])):
            expected = scipy.optimize.minimize(f, start, bounds=bounds, tol=1e-12)
            steps = []
            found = topograd.minimize(f, start, bounds=bounds, options=OURS, callback=lambda x: steps.append(f(x)))
            self.assertTrue(found.success, found.message)
            self.assertEqual(found.summary.why, "one row, evaluated node by node")
            self.assertLessEqual(found.fun, expected.fun + 1e-9 * abs(expected.fun))
            np.testing.assert_allclose(found.x, expected.x, 0, 2e-5)
            slopes = scipy.optimize.approx_fprime(found.x, f, 1e-7)
            np.testing.assert_allclose(found.jac, slopes, 0, 1e-4)
            self.assertTrue(np.all(np.diff(steps) < 1e-9 * abs(found.fun)))
            self.assertAlmostEqual(steps[-1], found.fun, 9)
        # Kernels of what a user's options ask for, and SciPy's way for what would take longer than it.
        found = topograd.minimize(kalman, np.zeros(2), options={**OURS, "method": "lbfgs"})
        self.assertEqual(found.summary._model.sizes()["energies"], 1)
        x = random.normal(size=(4000, 3))
        for evaluations, ours in ((0, False), (1e9, True)):
            with unittest.mock.patch.object(_fits, "_EVALUATIONS", evaluations):
                self.assertEqual("summary" in topograd.minimize(log_sum, np.zeros(3)), ours)

    def test_steps_converge_quadratically_where_single_terms_are_not_convex(self):
        t = np.random.default_rng(5).weibull(1.8, 200) * 3

        def weibull(p):
            shape, scale = p
            return -np.sum(np.log(shape / scale) + (shape - 1) * np.log(t / scale) - (t / scale) ** shape)

        expected = scipy.stats.weibull_min.fit(t, floc=0)
        found = topograd.minimize(weibull, [1.0, 1.0], options=OURS)
        np.testing.assert_allclose(found.x, [expected[0], expected[2]], 1e-4)
        self.assertTrue(found.success)
        self.assertLess(found.nit, 15)

    def test_success_is_where_nothing_goes_lower(self):
        """A share of the gradient at the start says nothing where that is huge, and a small change of the cost
        nothing where steps still grow: in any units."""
        x = np.random.default_rng(0).standard_normal((100, 3))
        counts = np.arange(100) % 4

        def poisson(b):
            return np.sum(np.exp(x @ b) - counts * (x @ b))

        for start, unit in itertools.product((0.0, -10.0, -20.0, 20.0), (1e-9, 1.0, 1e9)):
            with self.subTest(start=start, unit=unit):
                found = topograd.minimize(lambda b: unit * poisson(b), np.full(3, start), options=OURS)
                self.assertTrue(found.success)
                self.assertLess(found.fun, 98.1250226 * unit)
        for f in (lambda p: p[0] + p[1] ** 2, lambda p: p[0] ** 3 + p[1] ** 2, lambda p: p[0] * p[1]):
            for unit in (1e-9, 1.0, 1e9):
                with np.errstate(all="ignore"):
                    found = topograd.minimize(lambda p: unit * f(p / unit), [unit, unit], options=OURS)
                self.assertFalse(found.success, found)
        # What was asked for is an end, too.
        found = topograd.minimize(rosenbrock, [-1.2, 1.0], tol=1e-2, options=OURS)
        self.assertTrue(found.success and np.max(np.abs(found.jac)) <= 1e-2)
        self.assertTrue(topograd.minimize(rosenbrock, [-1.2, 1.0], options={**OURS, "ftol": 1e-3}).success)

    def test_what_falls_on_and_on_has_no_minimum(self):
        """Whoever solves it. Wells along the way of a solve, from which others lead lower, are minima."""
        random = np.random.default_rng(2)
        slopes, offsets = random.standard_normal((6, 3)), random.standard_normal(6)
        for start in (0.0, 1.0):
            with self.subTest(start=start), np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = topograd.minimize(lambda x: np.log(np.sum(np.exp(slopes @ x - offsets))), np.full(3, start))
                self.assertFalse(found.success)
        for unit in (1e-6, 1.0, 1e6):
            found = topograd.minimize(lambda x: np.sum(x**2 / unit**2 - 10 * np.cos(2 * np.pi * x / unit)),
                                      unit * np.array([9.1, 8.1]), options=OURS)
            self.assertTrue(found.success)
            np.testing.assert_allclose(found.x, unit * np.array([8.954, 7.959]), 1e-3)

    def test_saddles_and_numbers_that_stand_for_zero(self):
        def wells(p):
            return p[0] ** 4 - p[0] ** 2 + p[1] ** 2

        for start in ([0.0, 1.0], [1e-17, 1.0], [1e-30, 1e-17], [0.0, 1e-17]):
            for unit, offset in itertools.product((1e-6, 1.0, 1e6), (0.0, 5.0)):
                with self.subTest(start=start, unit=unit, offset=offset):
                    found = topograd.minimize(lambda p: wells(p / unit) + offset, np.array(start) * unit, options=OURS)
                    self.assertTrue(found.success)
                    self.assertAlmostEqual(found.fun, offset - 0.25, 9)
        found = topograd.minimize(lambda p: np.sum((p - [1.0, 2.0]) ** 4) + 3, [1e-17, 5.0], options=OURS)
        np.testing.assert_allclose(found.x, [1.0, 2.0], atol=2e-3)

    def test_atoms_do_not_fly_apart(self):
        """Six atoms with Lennard-Jones potentials. The pairs that begin close to each other make the function curve
        down; the second lowest minimum is -12.302928."""
        first, second = np.triu_indices(6, 1)

        def energy(x):
            atoms = x.reshape(6, 3)
            squares = np.sum((atoms[first] - atoms[second]) ** 2, axis=1)
            return np.sum(4 * (squares**-6 - squares**-3))

        for seed, size in itertools.product(range(4), (0.7, 1.0)):
            with self.subTest(seed=seed, size=size):
                start = size * np.random.default_rng(seed).standard_normal(18)
                found = topograd.minimize(energy, start, options=OURS)
                self.assertTrue(found.success)
                self.assertLess(found.fun, -12.302927)

    def test_a_saddle_without_a_cost_is_left(self):
        """No step changes a cost of 0 by a share."""
        for method in ("lbfgs", "newton"):
            found = topograd.minimize(lambda p: 1e24 * p[0] ** 4 - 1e12 * p[0] ** 2 + 1e12 * p[1] ** 2, [0.0, 1e-6],
                                      options={**OURS, "method": method})
            self.assertAlmostEqual(found.fun, -0.25, 9)

    def test_many_terms(self):
        found = topograd.minimize(rosenbrock, np.full(2000, 1.1), options=OURS)
        self.assertTrue(found.success and found.nit > 0)
        self.assertLess(np.max(np.abs(found.jac)), 1e-5)

    def test_scipys_share(self):
        def branching(x):
            return (x[0] - 1) ** 2 if x[0] > -9 else 9.0

        self.assertAlmostEqual(topograd.minimize(branching, [0.0]).x[0], 1.0, 5)
        named = topograd.minimize(rosenbrock, [-1.2, 1.0], method="BFGS", options={"maxiter": 3})
        self.assertEqual((named.nit, "summary" in named), (3, False))
        for options in (dict(method="BFGS"), dict()):
            with self.assertRaises(topograd.TracingError):
                topograd.minimize(branching, [0.0], options=OURS, **options)

    def test_inverse_hessian(self):
        """Of the traced function with kernels and of a long sum as a whole; in any unit."""
        for n in (5, 300):
            for unit in (1.0, 1e6):
                found = topograd.minimize(lambda x: scipy.optimize.rosen(x / unit), np.full(n, 1.1 * unit), options=OURS)
                product = found.hess_inv @ (scipy.optimize.rosen_hess(found.x / unit) / unit**2)
                np.testing.assert_allclose(product, np.eye(n), atol=1e-5)
                self.assertIs(found.hess_inv, found["hess_inv"])
        found = topograd.minimize(rosenbrock, [-1.2, 1.0], bounds=[(None, 0.5), (0, None)], options=OURS)
        with self.assertRaises(AttributeError):
            found.hess_inv

    def test_callback(self):
        points, results = [], []
        found = topograd.minimize(rosenbrock, [-1.2, 1.0], callback=points.append, options=OURS)
        np.testing.assert_array_equal(points[-1], found.x)
        topograd.minimize(rosenbrock, [-1.2, 1.0], options=OURS,
                          callback=lambda intermediate_result: results.append(intermediate_result))
        self.assertEqual(len(results), len(points))
        np.testing.assert_allclose(results[-1].fun, found.fun)
        with self.assertRaisesRegex(KeyError, "mine"):
            topograd.minimize(rosenbrock, [-1.2, 1.0], callback=lambda x: {}["mine"])


if __name__ == "__main__":
    unittest.main()
