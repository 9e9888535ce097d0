"""least_squares against SciPy's: a table of problems, their statuses, and errors of arguments."""

import contextlib
import copy
import io
import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
import unittest
import warnings

import numpy as np
import scipy.optimize
from scipy.sparse import csr_matrix, issparse
from scipy.spatial.transform import Rotation
from scipy.special import erf

import topograd
from topograd._least_squares import _Arguments

INF = np.inf


def rosenbrock(x):
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def rosenbrock_cropped(x):
    return rosenbrock(x)[0]


def boundary_value(x):
    n = int(np.sqrt(x.shape[0]))
    u = np.zeros((n + 2, n + 2))
    x = x.reshape((n, n))
    u[1:-1, 1:-1] = x
    y = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * x + x**3
    return y.ravel()


def broyden(x):
    f = (3 - x) * x + 1
    f[1:] -= x[:-1]
    f[:-1] -= 2 * x[1:]
    return f


def powell_singular(x):
    return np.array([x[0] + 10 * x[1], np.sqrt(5) * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2,
                     np.sqrt(10) * (x[0] - x[3]) ** 2])


def helical_valley(x):
    theta = np.arctan2(x[1], x[0]) / (2 * np.pi)
    return np.array([10 * (x[2] - 10 * theta), 10 * (np.hypot(x[0], x[1]) - 1), x[2]])


T = np.linspace(0, 3, 40)
NOISE = np.random.default_rng(3).normal(0, 0.05, 40)
Y = 2.0 * np.exp(-1.1 * T) + 0.5 + NOISE
OUTLIERS = Y + np.where(np.arange(40) % 9 == 4, 3.0, 0.0)
ANGLES = np.linspace(0, 2 * np.pi, 30, endpoint=False)
CIRCLE = np.stack([3 + 2 * np.cos(ANGLES), -1 + 2 * np.sin(ANGLES)], 1) + NOISE[:30, None]


def decay(x, y=Y):
    return x[0] * np.exp(-x[1] * T) + x[2] - y


def fit_decay(x0):
    return topograd.least_squares(decay, x0)


def decay_with_outliers(x):
    return decay(x, OUTLIERS)


def sine(x):
    return x[0] * np.sin(x[1] * T + x[2]) - np.sin(2 * T + 0.3)


def circle(x):
    return np.linalg.norm(CIRCLE - x[:2], axis=1) - x[2]


def line(x):
    return x[0] + x[1] * T - Y


def scaled_line(x):
    return x[0] * 1e-4 + x[1] * 1e3 * T - Y


def trivial(x):
    return (x + 2.0) ** 2 + 5.0


def rank_deficient(x):
    return np.array([x[0] + x[1] - 1, 2 * (x[0] + x[1]) - 2, x[0] - x[1]])


def freudenstein(x):
    return np.array([-13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1],
                     -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1]])


def beale(x):
    return np.array([1.5, 2.25, 2.625]) - x[0] * (1 - x[1] ** np.arange(1, 4))


def brown(x):
    return np.array([x[0] - 1e6, x[1] - 2e-6, x[0] * x[1] - 2])


def box(x):
    t = 0.1 * np.arange(1, 11)
    return np.exp(-t * x[0]) - np.exp(-t * x[1]) - x[2] * (np.exp(-t) - np.exp(-10 * t))


def bard(x):
    u = np.arange(1.0, 16.0)
    v = 16 - u
    w = np.minimum(u, v)
    y = np.array([0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34,
                  2.10, 4.39])
    return y - (x[0] + u / (v * x[1] + w * x[2]))


def kowalik(x):
    u = np.array([4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])
    y = np.array([0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235,
                  0.0246])
    return y - x[0] * (u * u + x[1] * u) / (u * u + x[2] * u + x[3])


def extended_rosenbrock(x):
    return np.concatenate([10 * (x[1::2] - x[::2] ** 2), 1 - x[::2]])


def wood(x):
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0], np.sqrt(90) * (x[3] - x[2] ** 2), 1 - x[2],
                     np.sqrt(10) * (x[1] + x[3] - 2), (x[1] - x[3]) / np.sqrt(10)])


def michaelis(x):
    s = np.array([0.038, 0.194, 0.425, 0.626, 1.253, 2.5, 3.74])
    r = np.array([0.05, 0.127, 0.094, 0.2122, 0.2729, 0.2665, 0.3317])
    return r - x[0] * s / (x[1] + s)


def grid(x):
    return (np.outer(np.arange(1, 6), x) - np.arange(15.0).reshape(5, 3)).ravel()


def geman_mcclure(z):
    rho = np.empty((3, z.size))
    rho[0] = z / (1 + z)
    rho[1] = 1 / (1 + z) ** 2
    rho[2] = -2 / (1 + z) ** 3
    return rho


def own_huber(z):
    with np.errstate(all="ignore"):
        return np.stack([np.where(z <= 1, z, 2 * np.sqrt(z) - 1),
                         np.where(z <= 1, 1, 1 / np.sqrt(z)),
                         np.where(z <= 1, 0, -0.5 / z**1.5)])


# name, function, start, arguments. `far`: the minimum is flat or singular, so that only the cost is
# compared.
PROBLEMS = [
    ("trivial", trivial, 1.0, {}),
    ("trivial, bounded", trivial, 2.0, dict(bounds=(1.0, 3.0))),
    ("rosenbrock", rosenbrock, [-2, 1], {}),
    ("rosenbrock, far", rosenbrock, [-20, 10], {}),
    ("rosenbrock, lm", rosenbrock, [-2, 1], dict(method="lm")),
    ("rosenbrock, dogbox", rosenbrock, [-2, 1], dict(method="dogbox")),
    ("rosenbrock, x_scale", rosenbrock, [-2, 1], dict(x_scale=[1.0, 0.5])),
    ("rosenbrock, x_scale jac", rosenbrock, [-2, 1], dict(x_scale="jac")),
    ("rosenbrock, bound below", rosenbrock, [1.4, 2.0], dict(bounds=([-INF, 1.5], INF))),
    ("rosenbrock, box", rosenbrock, [-1.5, 1.0], dict(bounds=([-2, -INF], [0.8, 1.5]))),
    ("rosenbrock, corner", rosenbrock, [2.0, 3.0], dict(bounds=([1.5, 2.5], INF))),
    ("rosenbrock, inactive box", rosenbrock, [-2, 1], dict(bounds=([-50, -50], [50, 50]))),
    ("rosenbrock, one row", rosenbrock_cropped, [-2, 1], dict(only_cost=True)),
    ("boundary value", boundary_value, np.full(25, 0.1), dict(only_cost=True)),
    ("boundary value, dogbox", boundary_value, np.full(16, 0.2),
     dict(method="dogbox", only_cost=True)),
    ("broyden", broyden, -np.ones(20), {}),
    ("broyden, bounded", broyden, np.zeros(12), dict(bounds=(-0.5, 1.0))),
    ("broyden, soft_l1", broyden, -np.ones(10), dict(loss="soft_l1", only_cost=True)),
    ("powell singular", powell_singular, [3, -1, 0, 1], dict(only_cost=True)),
    ("helical valley", helical_valley, [-1.0, 0.1, 0.1], {}),
    ("decay", decay, [1, 1, 0], {}),
    ("decay, bounded", decay, [1, 0.5, 0], dict(bounds=([0, 0, 0], [1.8, 3, 1]))),
    ("decay, huber", decay_with_outliers, [1, 1, 0], dict(loss="huber", f_scale=0.1)),
    ("decay, soft_l1", decay_with_outliers, [1, 1, 0], dict(loss="soft_l1", f_scale=0.1)),
    ("decay, cauchy", decay_with_outliers, [1.8, 1, 0.4], dict(loss="cauchy", f_scale=0.1)),
    ("decay, arctan", decay_with_outliers, [1.9, 1, 0.4], dict(loss="arctan", f_scale=0.3)),
    ("decay, bounds and loss", decay_with_outliers, [1, 0.5, 0],
     dict(loss="soft_l1", f_scale=0.1, bounds=([0, 0, 0], [1.9, 3, 1]))),
    ("decay, geman and mcclure", decay_with_outliers, [1.9, 1, 0.4],
     dict(loss=geman_mcclure, f_scale=0.2)),
    ("decay, own huber", decay_with_outliers, [1, 1, 0], dict(loss=own_huber, f_scale=0.1)),
    ("decay, own huber and bounds", decay_with_outliers, [1, 0.5, 0],
     dict(loss=own_huber, f_scale=0.1, bounds=([0, 0, 0], [1.9, 3, 1]), only_cost=True)),
    ("decay, x_scale", decay, [1, 1, 0], dict(x_scale=[1, 0.5, 0.1])),
    ("decay, poor x_scale", decay, [1, 1, 0], dict(x_scale=[1e-3, 1, 10])),
    ("decay, small x_scale", decay, [1, 1, 0], dict(x_scale=[1e-6, 1e-6, 1e-6])),
    ("decay, x_scale and loss", decay_with_outliers, [1, 1, 0],
     dict(x_scale=[1, 0.5, 0.1], loss="soft_l1", f_scale=0.1)),
    ("decay, x_scale and bounds", decay, [1, 0.5, 0],
     dict(x_scale=[1, 0.5, 0.1], bounds=([0, 0, 0], [1.8, 3, 1]), only_cost=True)),
    ("brown, x_scale", brown, [1, 1], dict(x_scale=[1e6, 1e-6], only_cost=True)),
    ("boundary value, x_scale", boundary_value, np.full(25, 0.1),
     dict(x_scale=np.linspace(1, 2, 25), only_cost=True)),
    ("sine", sine, [0.8, 1.9, 0.4], {}),
    ("circle", circle, [1, 1, 1], {}),
    ("circle, bounded radius", circle, [1, 1, 1], dict(bounds=([-INF, -INF, 0], [INF, INF, 1.5]))),
    ("line", line, [0, 0], {}),
    ("line, lm", line, [0, 0], dict(method="lm")),
    ("line, bad units", scaled_line, [0, 0], dict(x_scale="jac")),
    ("rank deficient", rank_deficient, [3, 1], {}),
    ("freudenstein and roth", freudenstein, [6, 5], {}),
    ("beale", beale, [1, 0.8], {}),
    ("brown, badly scaled", brown, [1, 1], dict(x_scale="jac", only_cost=True)),
    ("box", box, [0.5, 12, 0.9], dict(only_cost=True)),
    ("bard", bard, [1, 1, 1], {}),
    ("kowalik and osborne", kowalik, [0.25, 0.39, 0.415, 0.39], {}),
    ("extended rosenbrock", extended_rosenbrock, [-1.2, 1] * 10, {}),
    ("wood", wood, [-3, -1, -3, -1], {}),
    ("michaelis and menten", michaelis, [0.9, 0.2], {}),
    ("more rows than needed", grid, np.zeros(3), {}),
]


class AgainstScipy(unittest.TestCase):
    def test_table(self):
        self.assertGreaterEqual(len(PROBLEMS), 40)
        for name, function, start, arguments in PROBLEMS:
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arguments = {"xtol": 1e-10, "ftol": 1e-12, "gtol": 1e-10, **arguments}
                only_cost = arguments.pop("only_cost", False)
                expected = scipy.optimize.least_squares(function, start, jac="3-point",
                                                        **{**arguments, "max_nfev": 3000})
                got = topograd.least_squares(function, start, options={"fallback": False},
                                             **arguments)
                self.assertTrue(got.success, got.message)
                self.assertLessEqual(got.cost, expected.cost * (1 + 1e-9) + 1e-12)
                if not only_cost:
                    scale = 1 + np.abs(expected.x)
                    np.testing.assert_allclose(got.x / scale, expected.x / scale, 0, 1e-6)
                    np.testing.assert_array_equal(got.active_mask, expected.active_mask)
                    np.testing.assert_allclose(got.fun, expected.fun, 1e-4, 1e-5)
                    np.testing.assert_allclose(got.jac, expected.jac, 1e-4, 1e-4)
                    np.testing.assert_allclose(got.grad, expected.grad, 1e-3, 1e-3)

    def test_scales_cost_no_steps(self):
        """Whatever the scale of the unknowns, at most three times the evaluations of SciPy."""
        for scale in ([1e-3, 1, 10], [1e-6, 1e-6, 1e-6], [1e6, 1e6, 1e6], [1e3, 1e-3, 1],
                      [1, 1e-4, 1e4]):
            with self.subTest(scale):
                arguments = dict(x_scale=scale, xtol=1e-10, ftol=1e-12, gtol=1e-10)
                expected = scipy.optimize.least_squares(decay, [1, 1, 0], jac="3-point", **arguments)
                got = topograd.least_squares(decay, [1, 1, 0], options={"fallback": False},
                                             **arguments)
                self.assertLessEqual(got.cost, expected.cost * (1 + 1e-9))
                self.assertLessEqual(got.nfev, 3 * expected.nfev)

    def test_units_of_unknowns(self):
        """Arrhenius' law with a factor of 1e12 beside an energy of 8e4, and Michaelis' in mol/l."""
        temperature = 8.314 * (300 + 10 * np.linspace(0, 10, 60))
        s = np.array([1, 2, 5, 10, 20, 50.0]) * 1e-6
        v = 3e-8 * s / (s + 8e-6)
        for a in (1e3, 1e9, 1e12):
            rate = np.log(10 * a) - 8e4 / temperature
            for scale in (None, 1.0, "jac", [a, 1e4]):
                with self.subTest((a, scale)):
                    got = topograd.least_squares(lambda p: np.log(p[0]) - p[1] / temperature - rate,
                                                 [a, 7e4], x_scale=scale)
                    np.testing.assert_allclose(got.x, [10 * a, 8e4], 1e-5)
                    self.assertTrue(got.success)
        for sigma in (1.0, 1e-10):
            got = topograd.least_squares(lambda p: (p[0] * s / (s + p[1]) - v) / sigma, [1e-8, 1e-6])
            np.testing.assert_allclose(got.x, [3e-8, 8e-6], 1e-7)

    def test_a_start_where_the_derivative_is_zero(self):
        cases = {
            "absolute value": (lambda p: np.abs(p) - 1, [0.0]),
            "product of them": (lambda p: np.abs(p[0]) * np.exp(-np.abs(p[1]) * T) - 2 * np.exp(-T),
                                [0.0, 0.0]),
            "norm": (lambda p: np.array([np.linalg.norm(p) - 2, p[0] - p[1]]), [0.0, 0.0]),
            "square": (lambda p: p**2 - 1, [0.0]),
            "root": (lambda p: np.sqrt(np.abs(p)) - 1, [0.0]),
        }
        for name, (function, start) in cases.items():
            with self.subTest(name):
                self.assertLess(scipy.optimize.least_squares(function, start).cost, 1e-12)
                got = topograd.least_squares(function, start, options={"fallback": False})
                self.assertLess(got.cost, 1e-12)
        at_minimum = topograd.least_squares(lambda p: np.abs(p) + 1, [0.0])
        self.assertEqual((at_minimum.x[0], at_minimum.nfev), (0.0, 1))

    def test_a_start_at_a_kink_in_any_units(self):
        """The unknowns in units of 1e±12 and more, and the residuals in others."""
        cases = {
            "absolute value": (lambda p: np.abs(p) - 1, [0.0]),
            "product of them": (lambda p: np.abs(p[0]) * np.exp(-np.abs(p[1]) * T) - 2 * np.exp(-T),
                                [0.0, 0.0]),
            "norm": (lambda p: np.array([np.linalg.norm(p) - 2, p[0] - p[1]]), [0.0, 0.0]),
            "fourth power": (lambda p: p**4 - 1, [0.0]),
            "fourth power of next to nothing": (lambda p: p**4 - 1, [1e-17]),
            "root": (lambda p: np.sqrt(np.abs(p)) - 1, [0.0]),
            "elsewhere": (lambda p: np.array([np.abs(p[0] - 3) - 1, p[1] - 2]), [3.0, 1.0]),
        }
        for name, (function, start) in cases.items():
            for unit in (1.0, 1e-12, 1e12, 1e-6, 1e6, 1e-50, 1e50):
                for size in (1.0, 1e-12, 1e12):
                    with self.subTest(name, unit=unit, size=size):
                        got = topograd.least_squares(lambda p: size * function(p / unit),
                                                     unit * np.array(start), options={"fallback": False})
                        self.assertTrue(got.success, got.message)
                        self.assertLess(got.cost, 1e-10 * size**2)
        for unit in (1e-12, 1e12):  # a kink that is a minimum stays one
            got = topograd.least_squares(lambda p: np.abs(p / unit) + 1, [0.0])
            self.assertEqual((got.x[0], got.nfev), (0.0, 1))

    def test_beside_a_kink_within_bounds(self):
        """One side of the kink lies beyond a bound."""
        for unit in (1.0, 1e-12, 1e12):
            for lower, upper, end in ((0.0, 5.0, 1.0), (-5.0, 0.0, -1.0), (0.0, 0.3, 0.3)):
                with self.subTest(unit=unit, lower=lower, upper=upper):
                    got = topograd.least_squares(lambda p: np.abs(p / unit) - 1, [0.0],
                                                 bounds=([lower * unit], [upper * unit]),
                                                 options={"fallback": False})
                    self.assertTrue(got.success, got.message)
                    self.assertAlmostEqual(abs(got.x[0] / unit), abs(end), 5)

    def test_rounding_in_a_linear_function_is_no_derivative(self):
        """The slope of a line through three points does not depend on the middle one."""
        found = topograd.least_squares(lambda x: np.polyfit([0.0, 0.5, 1.0], x, 1)[0] * np.ones(3),
                                       [1.1, 2.2, 1.7], options={"fallback": False})
        np.testing.assert_allclose([found.x[2] - found.x[0], found.x[1]], [0, 2.2], 0, 1e-9)

    def test_a_power_of_zero(self):
        """Kohlrausch's decay with a sample at t = 0."""
        t = np.linspace(0, 10, 60)
        y = 2 * np.exp(-((t / 3.0) ** 0.6)) + np.random.default_rng(0).normal(0, 0.01, 60)
        for start in ([1.0, 1.0, 1.0], [1.0, 1.0, 0.9], [2.0, 3.0, 0.6], [1.0, 2.0, 1.5]):
            with self.subTest(start), np.errstate(all="ignore"):
                function = lambda p: p[0] * np.exp(-((t / p[1]) ** p[2])) - y
                theirs = scipy.optimize.least_squares(function, start)
                got = topograd.least_squares(function, start, options={"fallback": False})
                np.testing.assert_allclose(got.cost, theirs.cost, 1e-9)
                self.assertTrue(np.isfinite(got.jac).all() and got.optimality < 1e-6)

    def test_derivatives_that_are_not_finite_are_no_success(self):
        def root(p):  # steps to p < 0 have no value, and the root has no derivative at 0
            return np.array([np.sqrt(p[0]) + 1, p[0]])

        for start in (1e-30, 0.5):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = topograd.least_squares(root, [start])
            self.assertFalse(got.success and (got.x[0] > 1e-3 or not np.isfinite(got.optimality)), got)

    def test_success_is_a_minimum(self):
        """Random fits: what is called a success is one, by the gradient or by SciPy's cost."""
        random = np.random.default_rng(11)
        t = np.linspace(0, 5, 30)
        models = {
            "exponential": (lambda p: p[0] * np.exp(-p[1] * t) + p[2], 3),
            "gaussian": (lambda p: p[0] * np.exp(-((t - p[1]) ** 2) / (2 * p[2] ** 2)), 3),
            "sine": (lambda p: p[0] * np.sin(p[1] * t + p[2]), 3),
            "rational": (lambda p: (p[0] + p[1] * t) / (1 + p[2] ** 2 * t), 3),
            "powers": (lambda p: p[0] * (t + 0.1) ** p[1], 2),
            "logistic": (lambda p: p[0] / (1 + np.exp(-p[1] * (t - p[2]))), 3),
        }
        wrong = []
        for name, (model, size) in models.items():
            for k in range(20):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    y = model(random.uniform(0.3, 3, size)) + random.normal(0, 0.05, t.size)
                    start = random.uniform(-1, 4, size)
                    got = topograd.least_squares(lambda p: model(p) - y, start)
                    columns = np.linalg.norm(got.jac, axis=0)
                gradient = np.abs(got.jac.T @ got.fun)
                angles = gradient / (columns * np.linalg.norm(got.fun) + 1e-300)
                steep = np.max(angles[columns > 1e-8], initial=0.0) > 1e-3
                if not got.success or np.max(gradient) <= 1e-8 or not steep:
                    continue
                lower = scipy.optimize.least_squares(lambda p: model(p) - y, got.x, gtol=1e-14)
                if lower.cost < got.cost * (1 - 1e-6):
                    wrong.append((name, k, got.status, angles))
        self.assertEqual(wrong, [])

    def test_steps_that_change_nothing_are_no_success_while_others_lower_the_cost(self):
        """Exponentials that are next to nothing from the second time on, far from any other fit: steps down
        the gradient reach the first point alone, and the others' squares are left. Steps in all unknowns
        change nothing there, or overflow; SciPy ends at the start."""
        t = np.array([0.3, 0.55, 1.4, 2.2, 3.1, 4.6, 5.3, 6.9, 7.7, 8.8, 9.6])
        y = 5.3 * np.exp(-0.16 * t) + 7.4 * np.exp(-0.85 * t)
        for rate in (150.3, 246.2):
            upper = [INF, rate, INF, INF]
            got = topograd.least_squares(
                lambda x: x[0] * np.exp(-x[1] * t) + x[2] * np.exp(-x[3] * t) - y, np.full(4, rate),
                bounds=(-INF, upper))
            with self.subTest(rate=rate):
                self.assertTrue(got.success, got.message)
                self.assertLessEqual(got.cost, (1 + 1e-6) * np.sum(y[1:] ** 2) / 2)

    def test_a_plateau_is_no_success(self):
        """Where the library's summary says FAILURE or NO_CONVERGENCE, or unknowns have moved to where the
        residuals do not depend on them, a gradient that vanishes is no minimum: in any units."""
        t, s = np.linspace(0.1, 5, 30), np.linspace(-2, 6, 50)
        step, level = 3 / (1 + np.exp(-2 * (s - 1.5))), 2.1 * (1 + erf(t - 2.4))
        bell, fall = 1.5946 * np.exp(-(((t - 2.1119) / 2.3655) ** 2)), 2.1558 * np.exp(-0.5456 * t) + 0.9336
        rise = 2.1 / (1 + np.exp(-1.3586 * (t - 2.2139)))
        problems = {
            "failure": (lambda p: 1.5 + 1.5 * np.tanh(s - p[0]) - step, [9.0]),
            "level": (lambda p: p[0] * (1 + erf((t - p[1]) / p[2])) - level, [0.0233, 2.2688, 0.9997]),
            "no derivatives": (lambda p: p[0] / (1 + np.exp(-p[1] * (s - p[2]))) - step, [-0.05, -0.1, 0.05]),
            "bell": (lambda p: p[0] * np.exp(-(((t - p[1]) / p[2]) ** 2)) - bell, [1e-9, 1e-9, 1.5577]),
            "far": (lambda p: p[0] * np.exp(-p[1] * t) + p[2] - fall, [1e-30, 1e-30, 0.2167]),
        }
        for (name, (f, start)), unit in itertools.product(problems.items(), (1e-9, 1.0, 1e9)):
            with self.subTest(name, unit=unit), np.errstate(all="ignore"):
                got = topograd.least_squares(lambda x: unit * f(x), start, options={"fallback": False})
                self.assertFalse(got.success, got.cost)
                got = topograd.least_squares(lambda x: unit * f(x), start)
                self.assertTrue(got.cost < 1e-20 * unit**2 or not got.success, got)
        # CONVERGENCE, too, is a reason to ask SciPy where unknowns have run away from such starts.
        for f, start in ((lambda p: p[0] / (1 + np.exp(-p[1] * (t - p[2]))) - rise, [1e-17, 0.4689, 2.4909]),
                         (lambda p: p[0] * np.exp(-(((t - p[1]) / p[2]) ** 2)) - bell, [1e-30, 1e-30, 1.5577])):
            got = topograd.least_squares(f, start)
            self.assertTrue(got.success)
            self.assertLess(got.cost, 1e-20)
        # No plateau: an unknown that no row reads, an offset of nothing, a flat minimum, a perfect fit.
        for f, start in ((lambda p: np.array([p[0] - 1, p[0] + 1]) + 0 * p[1], [3.0, 2.0]),
                         (lambda p: p[0] * t + p[1] - t - 0.01 * np.cos(37 * t), [2.0, 1e-17]),
                         (lambda p: np.array([p[0] ** 2 + 1, p[1] - 2]), [1.0, 1.0]),
                         (lambda p: p[0] * np.exp(-p[1] * t) + p[2] - 3, [1.0, 1.0, 1.0])):
            for scale in (1e-9, 1.0, 1e9):
                got = topograd.least_squares(lambda x: scale * f(x), start, options={"fallback": False})
                self.assertTrue(got.success, got)

    def test_success_at_a_limit_looks_along_all_directions(self):
        """Osborne's problem from 100 times its start: no column sees what nearly parallel ones hide."""
        t = np.arange(33) * 10.0
        y = np.array([844, 908, 932, 936, 925, 908, 881, 850, 818, 784, 751, 718, 685, 658, 628, 603, 580, 558, 538,
                      522, 506, 490, 478, 467, 457, 448, 438, 431, 424, 420, 414, 411, 406]) / 1000
        with np.errstate(all="ignore"):
            got = topograd.least_squares(
                lambda x: y - (x[0] + x[1] * np.exp(-x[3] * t) + x[2] * np.exp(-x[4] * t)),
                [50.0, 150.0, -100.0, 1.0, 2.0], options={"fallback": False})
        self.assertTrue(not got.success or got.cost < 2.74e-5, got)
        # A limit that comes where the residuals are orthogonal to the Jacobian is no failure.
        line = np.polyfit(t, y, 1)
        for unit in (1e-6, 1.0, 1e6):
            for start, solved in ((line, True), (0.5 * line, False)):
                fit = topograd.least_squares(lambda x: unit * (x[0] * t + x[1] - y), start, max_nfev=1)
                self.assertEqual(fit.success, solved, fit)

    def test_success_in_a_ball_is_a_minimum(self):
        """An array as x_scale limits steps, which says nothing about where a solve may end."""
        temperature = np.linspace(280, 400, 20)
        rates = np.exp(23.3 - 35700 / (8.314 * temperature))
        start = [13.2, 66000.0]

        def residuals(p):
            return np.exp(p[0] - p[1] / (8.314 * temperature)) - rates

        for scale in ([1.0, 1.0], [13.0, 66000.0], [1.0, 1e-6]):
            with self.subTest(scale=scale), np.errstate(all="ignore"):
                got = topograd.least_squares(residuals, start, x_scale=scale, options={"fallback": False})
                self.assertTrue(got.success, got.message)
                self.assertLess(got.cost, 1e-12 * np.sum(rates**2))
        asked = topograd.least_squares(residuals, start, x_scale=[13.0, 66000.0], gtol=1e5)
        self.assertEqual((asked.success, asked.optimality <= 1e5), (True, True))
        self.assertLess(asked.nfev, got.nfev)

    def test_terms_that_begin_the_same_are_parted(self):
        """Exact derivatives are the same for both, so that no step of Gauss and Newton parts them."""
        t = np.linspace(-2, 5, 60)

        def peaks(p):
            return p[0] * np.exp(-((t - p[1]) / p[2]) ** 2) + p[3] * np.exp(-((t - p[4]) / p[5]) ** 2)

        got = topograd.least_squares(lambda p: peaks(p) - peaks([4, 0.1, 0.8, 6, 2.9, 0.5]), np.ones(6),
                                     options={"fallback": False})
        self.assertTrue(got.success, got.message)
        self.assertLess(got.cost, 1e-12)
        t = np.linspace(0, 5, 40)

        def decays(p):
            return p[0] * np.exp(-p[1] * t) + p[2] * np.exp(-p[3] * t)

        for seed in range(20):
            rng = np.random.default_rng(seed)
            y = decays(np.exp(rng.uniform(np.log([0.5, 0.1, 0.5, 1]), np.log([10, 0.5, 10, 4]))))
            y += rng.normal(0, 0.01 * np.ptp(y), t.size)
            for unit in (1.0, 1e-9):
                with self.subTest(seed=seed, unit=unit):
                    best = scipy.optimize.least_squares(lambda p: decays(p) - y, np.ones(4), ftol=1e-12)
                    got = topograd.least_squares(lambda p: unit * (decays(p) - y), np.ones(4),
                                                 options={"fallback": False})
                    self.assertTrue(got.success, got.message)
                    self.assertLess(got.cost, 1.001 * best.cost * unit**2)

    def test_break_points_end_at_minima(self):
        """Steps from where an unknown is at a kink cross it; the others go on to their minimum."""
        t = np.linspace(0, 10, 50)

        def broken(p):
            return np.where(t < p[0], p[1] + p[2] * (t - p[0]), p[1] + p[3] * (t - p[0]))

        for seed in range(60):
            rng = np.random.default_rng(seed)
            y = broken([rng.uniform(3, 7), *rng.normal(0, 2, 3)])
            y += rng.normal(0, 0.2 * np.ptp(y), t.size)
            got = topograd.least_squares(lambda p: broken(p) - y, [5.0, 0.0, 1.0, 1.0],
                                         options={"fallback": False})
            lines = np.stack([np.ones(50), np.minimum(t - got.x[0], 0), np.maximum(t - got.x[0], 0)], axis=1)
            least = np.sum((lines @ np.linalg.lstsq(lines, y, rcond=None)[0] - y) ** 2) / 2
            with self.subTest(seed=seed):
                self.assertTrue(got.success, got.message)
                self.assertLess(got.cost, (1 + 1e-5) * least)

    def test_results_travel(self):
        got = topograd.least_squares(decay, [1, 1, 0])
        with multiprocessing.get_context("fork").Pool(2) as pool:
            sent = pool.map(fit_decay, [[1, 1, 0], [2, 1, 0]])[0]
        for other in (pickle.loads(pickle.dumps(got)), copy.deepcopy(got), copy.copy(got), sent):
            self.assertEqual(set(other), set(got))
            np.testing.assert_array_equal(other.x, got.x)
            np.testing.assert_array_equal(other.jac, got.jac)
            self.assertEqual(other.summary.message, got.summary.message)
        large = topograd.least_squares(lambda x: x * x - 1, np.full(500, 0.5))
        self.assertNotIn("jac", large)
        self.assertEqual(pickle.loads(pickle.dumps(large)).jac.shape, (500, 500))

    def test_callback(self):
        seen, points = [], []
        got = topograd.least_squares(
            decay, [1, 1, 0], callback=lambda intermediate_result: seen.append(intermediate_result),
            options={"fallback": False})
        topograd.least_squares(decay, [1, 1, 0], callback=points.append)
        self.assertEqual(len(seen), len(points))
        np.testing.assert_allclose(points[-1], got.x, 1e-12)
        np.testing.assert_allclose(seen[-1].cost, 0.5 * np.sum(seen[-1].fun**2), 1e-12)
        self.assertEqual([s.nit for s in seen], sorted(s.nit for s in seen))

        def stop(x):
            raise StopIteration

        stopped = topograd.least_squares(decay, [1, 1, 0], callback=stop)
        self.assertEqual((stopped.status, stopped.success, stopped.nfev), (-2, False, 2))
        with self.assertRaisesRegex(KeyError, "mine"):
            topograd.least_squares(decay, [1, 1, 0], callback=lambda x: {}["mine"])
        with self.assertRaisesRegex(TypeError, "`callback` must be callable"):
            topograd.least_squares(decay, [1, 1, 0], callback=3)

    def test_rows_of_long_loops_share_their_steps(self):
        def euler(p, n):
            y = np.empty(n)
            y[0] = p[0]
            for k in range(n - 1):
                y[k + 1] = y[k] + (p[1] - y[k] * p[2]) / n
            return y - np.linspace(1, 2, n) - 0.01 * np.sin(12.9898 * np.arange(n))

        def slopes(p, n):
            """The derivatives of euler by p, step by step."""
            y, by = p[0], np.array([1.0, 0.0, 0.0])
            rows = [by]
            for k in range(n - 1):
                by = by + (np.array([0.0, 1.0, -y]) - by * p[2]) / n
                y = y + (p[1] - y * p[2]) / n
                rows.append(by)
            return np.array(rows)

        def running(p, n):
            return np.cumsum(np.full(n, p[0])) - np.arange(n)

        start = np.array([1.0, 1.0, 0.5])
        for function, n, host in ((euler, 12, 0), (euler, 400, 1), (euler, 3000, 1), (running, 3000, 1)):
            with self.subTest((function.__name__, n)):
                expected = scipy.optimize.least_squares(function, start, args=(n,), xtol=1e-12, ftol=1e-12)
                got = topograd.least_squares(function, start, args=(n,), xtol=1e-12, ftol=1e-12,
                                             options={"fallback": False})
                self.assertEqual(got.summary.json()["host_residuals"], host)
                self.assertLess(got.cost, expected.cost * (1 + 1e-9) + 1e-20)
                np.testing.assert_allclose(got.fun, function(got.x, n), 0, 1e-11 * n)
                if function is euler:
                    np.testing.assert_allclose(got.jac, slopes(got.x, n), 1e-9, 1e-11)

    def test_precision(self):
        expected = scipy.optimize.least_squares(decay, [1, 1, 0]).x
        for precision in ("f32", "mixed"):
            got = topograd.least_squares(decay, [1, 1, 0], options={
                "precision": precision, "backend": "cpu", "fallback": False})
            np.testing.assert_allclose(got.x, expected, 1e-3)

    def test_a_device_that_cannot_be_had_is_an_error(self):
        program = ("import numpy as np, topograd\n"
                   "for options in ({'backend': 'vulkan'}, {'device': 'nonesuch'}):\n"
                   "    try: topograd.least_squares(lambda x: x - 1.0, [0.0], options=options)\n"
                   "    except topograd.Error as error: print(error.code)\n")
        environment = {**os.environ, "VK_ICD_FILENAMES": "/dev/null", "VK_DRIVER_FILES": "/dev/null"}
        ran = subprocess.run([sys.executable, "-B", "-c", program], env=environment, text=True,
                             capture_output=True, timeout=60)
        self.assertEqual(len(ran.stdout.split()), 2, ran.stdout + ran.stderr)

    def test_statuses(self):
        by = {
            1: dict(ftol=None, xtol=None, gtol=1e-6),
            2: dict(ftol=1e-3, xtol=None, gtol=None),
            3: dict(ftol=None, xtol=1e-3, gtol=None),
            0: dict(max_nfev=2),
        }
        for status, arguments in by.items():
            with self.subTest(status):
                theirs = scipy.optimize.least_squares(decay, [1, 1, 0], **arguments)
                ours = topograd.least_squares(decay, [1, 1, 0], options={"fallback": False},
                                              **arguments)
                self.assertEqual(theirs.status, status)
                self.assertEqual(ours.status, status)
                self.assertEqual(ours.message, theirs.message)
                self.assertEqual(ours.success, theirs.success)
        self.assertEqual(topograd.least_squares(decay, [1, 1, 0], max_nfev=2).nfev, 2)
        with self.assertRaisesRegex(ValueError, "positive integer"):  # SciPy's loop would not end
            topograd.least_squares(decay, [1, 1, 0], max_nfev=np.nan)

    def test_errors(self):
        x0 = [1.0, 1.0, 0.0]
        cases = {
            "method": dict(method="newton"),
            "jac": dict(jac="4-point"),
            "tr_solver": dict(tr_solver="best"),
            "loss": dict(loss="square"),
            "shape of a loss": dict(loss=lambda z: np.log1p(z)),
            "lm with loss": dict(method="lm", loss="huber"),
            "lm with bounds": dict(method="lm", bounds=(0, 2)),
            "verbose": dict(verbose=3),
            "three bounds": dict(bounds=(1.0, 2.0, 3.0)),
            "shape of bounds": dict(bounds=([0.0, 0.0], 5.0)),
            "order of bounds": dict(bounds=(2.0, 1.0)),
            "infeasible": dict(bounds=(3.0, 5.0)),
            "max_nfev": dict(max_nfev=0),
            "x_scale": dict(x_scale="auto"),
            "negative x_scale": dict(x_scale=-1.0),
            "shape of x_scale": dict(x_scale=[1.0, 2.0]),
            "all tolerances": dict(ftol=None, xtol=None, gtol=None),
            "lm and small tolerances": dict(method="lm", ftol=1e-20),
            "lm and sparsity": dict(method="lm", jac_sparsity=np.ones((40, 3))),
            "shape of a sparsity": dict(jac_sparsity=np.ones((39, 3))),
            "exact and sparsity": dict(jac_sparsity=np.ones((40, 3)), tr_solver="exact"),
            "exact and sparse jac": dict(jac=lambda x: csr_matrix(np.ones((40, 3))), tr_solver="exact"),
            "lm and sparse jac": dict(jac=lambda x: csr_matrix(np.ones((40, 3))), method="lm"),
            "complex start": dict(x0=[1j, 1, 0]),
            "start with axes": dict(x0=[[1.0, 1.0, 0.0]]),
            "rows with axes": dict(fun=lambda x: np.ones((2, 3)) * x[0]),
            "not finite": dict(fun=lambda x: np.log(x - 1)),
            "fewer rows": dict(fun=lambda x: x[:2], method="lm"),
            "shape of jac": dict(jac=lambda x: np.ones((40, 2))),
            "nothing": dict(fun=lambda x: None),
            "nothing in a list": dict(fun=lambda x: [x[0], None, x[1]]),
            "text": dict(fun=lambda x: "residuals"),
            "booleans": dict(fun=lambda x: x > 0),
            "not a function": dict(fun=3),
            "unknown argument": dict(tolerance=3),
        }
        for name, change in cases.items():
            with self.subTest(name), np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arguments = {"fun": decay, "x0": x0, **change}
                with self.assertRaises(Exception) as theirs:
                    scipy.optimize.least_squares(**arguments)
                public = next(t for t in type(theirs.exception).__mro__ if t.__module__ == "builtins")
                with self.assertRaises(public):
                    topograd.least_squares(**arguments)

    def test_complex_residuals_are_refused(self):
        """SciPy goes on with them, to complex unknowns and a negative cost."""
        with self.assertRaisesRegex(TypeError, "must return real numbers.*view"):
            topograd.least_squares(lambda x: (x - 1) * (1 + 1j), [0.0, 3.0])
        with self.assertRaisesRegex(TypeError, "must return real numbers"):
            topograd.curve_fit(lambda t, a, b: a / (1 + 1j * b * t), T, T, bounds=(0, 5))

    def test_no_unknowns(self):
        for method in ("trf", "dogbox", "lm"):
            with self.assertRaisesRegex(ValueError, "`x0` is empty"):
                topograd.least_squares(lambda x: np.array([1.0]), [], method=method)

    def test_the_limit_of_evaluations_holds_where_a_solve_goes_on(self):
        """From beside a saddle of two equal terms, and from beside the kink of a square."""
        t = np.linspace(0, 3, 25)
        cases = {
            "two terms": (lambda p: p[0] * np.exp(-p[1] * t) + p[2] * np.exp(-p[3] * t) - np.exp(-t) -
                          2 * np.exp(-5 * t), np.ones(4)),
            "square": (lambda p: np.stack([p[0] ** 2 - 1, p[1] - 2, p[0] ** 2 - 2]), np.zeros(2)),
        }
        for name, (function, start) in cases.items():
            end = topograd.least_squares(function, start, options={"fallback": False})
            self.assertTrue(end.success, name)
            for most in range(1, end.nfev + 1):
                result = topograd.least_squares(function, start, max_nfev=most, options={"fallback": False})
                self.assertLessEqual(result.nfev, most, name)
            np.testing.assert_array_equal(result.x, end.x, name)

    def test_falls_back(self):
        def branching(x):
            if x[0] > 100:
                return x
            return rosenbrock(x)

        got = topograd.least_squares(branching, [-2, 1])
        np.testing.assert_allclose(got.x, [1, 1], 0, 1e-6)
        with self.assertRaisesRegex(topograd.TracingError, r"branch on a value.*branching\(\)"):
            topograd.least_squares(branching, [-2, 1], options={"fallback": False})

    def test_reasons_name_the_users_line(self):
        def rotated(x):
            return Rotation.from_mrp(x).apply(np.eye(3)).ravel() - np.eye(3).ravel()

        def particular(x):
            assert type(x) is np.ndarray
            return x - 1

        cases = {
            "an assertion": (particular, r"AssertionError .*in particular\(\)"),
            "SciPy's compiled code": (rotated, r"of test_least_squares.py, in rotated\(\)"),
            "NumPy's dispatcher": (lambda x: np.linalg.eigvalsh(np.diag(x)),
                                   r"np\.linalg\.eigvalsh .*line \d+ of test_least_squares"),
        }
        for name, (function, reason) in cases.items():
            with self.subTest(name), contextlib.redirect_stdout(io.StringIO()) as printed:
                topograd.least_squares(function, [0.1, 0.2, 0.3], verbose=1)
                self.assertRegex(printed.getvalue(), "Not traced: .*" + reason)

    def test_wrong_options_raise(self):
        """They are no reason to take SciPy's way."""
        for options, message in (({"max_iteration": 3}, "unknown option 'max_iteration'"),
                                 ({"threads": "two"}, "option 'threads' has a wrong type")):
            with self.assertRaisesRegex(TypeError, message):
                topograd.least_squares(rosenbrock, [-2, 1], options=options)
        with self.assertRaisesRegex(ValueError, "abacus"):
            topograd.least_squares(rosenbrock, [-2, 1], options={"backend": "abacus"})

    def test_half_a_million_bounds_take_no_time(self):
        target = np.zeros(500_000)
        seconds = []
        for _ in range(3):
            started = time.process_time()
            bounded = _Arguments(lambda x: x, target, "2-point", (-1.0, np.inf), "trf", 1e-8, 1e-8, 1e-8,
                                 1.0, "linear", 1.0, None, None, None, 0)
            seconds.append(time.process_time() - started)
        self.assertLess(min(seconds), 0.1)
        self.assertEqual((bounded.lower.shape, bounded.lower.max()), ((500_000,), -1.0))

    def test_a_loss_with_another_derivative_is_noticed(self):
        def wrong(z):
            return np.stack([np.log1p(z), 1 / (2 + z), 0 * z])

        with self.assertRaisesRegex(topograd.TracingError, "loss has other values"):
            topograd.least_squares(decay, [1, 1, 0], loss=wrong, options={"fallback": False})

    def test_state_that_changes_is_noticed(self):
        calls = itertools.count(1)

        def counting(x):
            return rosenbrock(x) + (next(calls) > 2)

        with self.assertRaisesRegex(topograd.TracingError, "row 0 is .* when .* traced, and .* from numbers: it "):
            topograd.least_squares(counting, [-2, 1], options={"fallback": False})

    def test_what_does_not_converge_is_solved_by_scipy(self):
        t = np.linspace(0.05, 5, 60)
        y = 2 * np.exp(0.5 * t)
        steep = [1.0, 5.0]  # SciPy leaves it in 30 evaluations
        found = topograd.least_squares(lambda p: p[0] * np.exp(p[1] * t) - y, steep)
        self.assertTrue(found.success)
        np.testing.assert_allclose(found.x, [2, 0.5], 1e-4)
        few = topograd.least_squares(lambda p: p[0] * np.exp(p[1] * t) - y, steep, max_nfev=5)
        self.assertEqual((few.status, few.success), (0, False))

    def test_scipys_success_is_none_where_the_cost_still_falls(self):
        """Rigid registration by a quaternion, 5,000 km from the origin: the valley is so narrow that
        SciPy stops there with success, 1e7 times above the least cost, which Kabsch's formula has."""
        random = np.random.default_rng(0)
        near = random.uniform(-200, 200, (30, 3))
        turn = Rotation.from_rotvec(random.uniform(-0.4, 0.4, 3)).as_matrix()
        source = near + np.array([4.2e5, 5.1e6, 400])
        target = near @ turn.T + np.array([4.2e5, 5.1e6, 400]) + 0.01 * random.normal(size=near.shape)
        left, s, right = np.linalg.svd((near - near.mean(0)).T @ (target - target.mean(0)))
        best = 0.5 * np.sum(((near - near.mean(0)) @ (left @ right) - (target - target.mean(0))) ** 2)

        def fun(x):
            w, a, b, c = x[:4] / np.linalg.norm(x[:4])
            turned = np.array([[w * w + a * a - b * b - c * c, 2 * (a * b - w * c), 2 * (a * c + w * b)],
                               [2 * (a * b + w * c), w * w - a * a + b * b - c * c, 2 * (b * c - w * a)],
                               [2 * (a * c - w * b), 2 * (b * c + w * a), w * w - a * a - b * b + c * c]])
            return (source @ turned.T + x[4:] - target).ravel()

        start = np.array([1.0, 0, 0, 0, 0, 0, 0])
        scipys = scipy.optimize.least_squares(fun, start)
        self.assertTrue(scipys.success and scipys.cost > 1e4 * best)
        for options in ({}, {"max_iterations": 100}, {"method": "dogleg"}):
            found = topograd.least_squares(fun, start, options=options)
            self.assertTrue(not found.success or found.cost < 1.01 * best, (options, found.cost, best))

    def test_arguments_reach_the_function(self):
        got = topograd.least_squares(lambda x, a, b=0: np.array([x[0] - a, x[1] - b]), [0, 0],
                                     args=(3,), kwargs={"b": 4}, options={"fallback": False})
        np.testing.assert_allclose(got.x, [3, 4])
        theirs = scipy.optimize.least_squares(rosenbrock, [-2, 1])
        self.assertEqual(set(got.keys()) - {"summary"}, set(theirs.keys()))

    def test_sparse_jacobian(self):
        got = topograd.least_squares(broyden, -np.ones(30), jac_sparsity=np.ones((30, 30)))
        self.assertEqual(got.jac.shape, (30, 30))
        self.assertEqual(got.jac.nnz, 88)
        for arguments in (dict(tr_solver="lsmr"), dict(jac=lambda x: csr_matrix(np.eye(30)))):
            theirs = scipy.optimize.least_squares(lambda x: x - 1, np.zeros(30), **arguments)
            ours = topograd.least_squares(lambda x: x - 1, np.zeros(30), **arguments)
            self.assertEqual(issparse(ours.jac), issparse(theirs.jac))

    def test_threads(self):
        """Two threads solve two problems; each has its own result."""
        results = {}

        def work(k):
            for _ in range(5):
                target = np.arange(4.0) + k
                results[k] = topograd.least_squares(lambda x: np.sinh(x) - target, np.zeros(4)).x

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for k in range(4):
            np.testing.assert_allclose(results[k], np.arcsinh(np.arange(4.0) + k), 0, 1e-7)


if __name__ == "__main__":
    unittest.main()
