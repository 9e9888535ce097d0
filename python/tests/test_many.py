"""least_squares_many and curve_fit_many against SciPy, problem by problem."""

import unittest

import numpy as np
import scipy.optimize

import topograd


def decay(t, a, b, c):
    return a * np.exp(-b * t) + c


def curves(count, points=24, seed=0):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 4, points)
    truth = rng.uniform([1, 0.3, -1], [4, 2, 1], (count, 3))
    y = decay(t[None, :], *(truth[:, k:k + 1] for k in range(3))) + rng.normal(0, 0.02, (count, points))
    return t, y, truth


class Many(unittest.TestCase):
    def test_curves_are_those_of_scipy(self):
        t, y, _ = curves(60)
        popt, pcov = topograd.curve_fit_many(decay, t, y, p0=[2.0, 1.0, 0.0], options={"fallback": False})
        self.assertEqual((popt.shape, pcov.shape), ((60, 3), (60, 3, 3)))
        for k in range(60):
            p, c = scipy.optimize.curve_fit(decay, t, y[k], [2.0, 1.0, 0.0])
            np.testing.assert_allclose(popt[k], p, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(pcov[k], c, rtol=1e-3, atol=1e-9)

    def test_the_limit_of_evaluations_holds_for_all_solves_of_a_problem(self):
        """From equal unknowns, which are a saddle of the third problem, and from the kink of the last."""
        t = np.linspace(0, 3, 25)

        def two(p, y):
            return p[0] * np.exp(-p[1] * t) + p[2] * np.exp(-p[3] * t) - y

        def squares(p, y):
            return np.stack([p[0] ** 2 - y[0], p[1] - 2, p[0] ** 2 - y[1]])

        decays = np.stack([np.exp(-t), 3 * np.exp(-2 * t), np.exp(-t) + 2 * np.exp(-5 * t)])
        for name, f, starts, y in (("two", two, np.ones((3, 4)), decays),
                                   ("squares", squares, np.zeros((2, 2)), np.array([[1.0, 2], [4, 4]]))):
            end = topograd.least_squares_many(f, starts, (y,), options={"fallback": False})
            self.assertTrue(np.all(end.success), name)
            for most in (1, 2, 3, 5, 8, 13, 21):
                result = topograd.least_squares_many(f, starts, (y,), max_nfev=most, options={"fallback": False})
                self.assertLessEqual(result.nfev.max(), most, name)
                ended = end.nfev <= most
                np.testing.assert_array_equal(result.x[ended], end.x[ended], name)
                if most == 1:
                    np.testing.assert_array_equal(result.x, starts, name)
                    self.assertFalse(np.any(result.status), name)

    def test_no_problems_have_an_empty_result(self):
        none = np.zeros((0, 2))
        result = topograd.least_squares_many(lambda x, y: x - y, none, (none,), covariances=True)
        self.assertEqual((result.x.shape, result.covariance.shape), ((0, 2), (0, 2, 2)))
        for name in ("cost", "status", "success", "nfev"):
            self.assertEqual(result[name].shape, (0,), name)
        t = np.linspace(0, 4, 24)
        for x, own in ((t, None), (np.zeros((0, 24)), True)):
            popt, pcov, result = topograd.curve_fit_many(decay, x, np.zeros((0, 24)), full_output=True, own_xdata=own)
            self.assertEqual((popt.shape, pcov.shape, result.x.shape), ((0, 3), (0, 3, 3), (0, 3)))
        for starts in (np.zeros((2, 0)), np.zeros(0)):
            with self.assertRaisesRegex(ValueError, "expected shape"):
                topograd.least_squares_many(lambda x: x, starts)

    def test_portable_bits_do_not_depend_on_other_curves(self):
        t, y, _ = curves(40)
        options = {"fallback": False, "bits": "portable"}
        popt, pcov = topograd.curve_fit_many(decay, t, y, [2.0, 1.0, 0.0], options=options)
        for k in range(40):
            p, c = topograd.curve_fit_many(decay, t, y[k:k + 1], [2.0, 1.0, 0.0], options=options)
            np.testing.assert_array_equal(popt[k], p[0])
            np.testing.assert_array_equal(pcov[k], c[0])

    def test_each_curve_has_its_own_points_and_weights(self):
        _, y, _ = curves(40)
        rng = np.random.default_rng(1)
        t = np.sort(rng.uniform(0, 4, y.shape), axis=1)
        sigma = rng.uniform(0.5, 2, y.shape)
        popt, pcov = topograd.curve_fit_many(decay, t, y, [2.0, 1.0, 0.0], sigma, True,
                                             bounds=([0, 0, -2], [20, 9, 9]), options={"fallback": False})
        for k in range(40):
            p, c = scipy.optimize.curve_fit(decay, t[k], y[k], [2.0, 1.0, 0.0], sigma[k], True,
                                            bounds=([0, 0, -2], [20, 9, 9]))
            cost = 0.5 * np.sum(((decay(t[k], *popt[k]) - y[k]) / sigma[k]) ** 2)
            best = 0.5 * np.sum(((decay(t[k], *p) - y[k]) / sigma[k]) ** 2)
            self.assertLessEqual(cost, best * (1 + 1e-6) + 1e-12)

    def test_points_are_read_as_by_curve_fit_whatever_the_number_of_curves(self):
        def plane(x, a, b, c):
            return a * x[0] + b * x[1] + c

        def line(x, a, b):
            return a * x + b

        rng = np.random.default_rng(4)
        x = rng.uniform(-1, 1, (2, 30))  # two variables, or two curves' own points
        y = np.stack([1.5 * x[0] + 2 * x[1] + 0.1, 0.3 * x[1] - x[0] - 1]) + rng.normal(0, 0.01, (2, 30))
        no_scipy = {"options": {"fallback": False}}
        for given, p0 in ((x, None), (np.tile(x, (2, 1, 1)), np.ones(3))):  # shared; own
            popt, _ = topograd.curve_fit_many(plane, given, y, p0, **no_scipy)
            for k in range(2):
                expected, _ = scipy.optimize.curve_fit(plane, x, y[k])
                np.testing.assert_allclose(popt[k], expected, rtol=1e-7)
        for own in (None, True):
            popt, _ = topograd.curve_fit_many(line, x, 3 * x + 1, own_xdata=own, **no_scipy)
            np.testing.assert_allclose(popt, [[3, 1], [3, 1]], rtol=1e-9)
        with self.assertRaisesRegex(ValueError, r"xdata: expected .* of which f gives \(3, 30\)"):
            topograd.curve_fit_many(line, np.ones((3, 30)), y)

    def test_arrays_that_all_problems_share_are_told_apart_from_their_own(self):
        t, y = np.arange(3.0), np.array([[1.0, 2, 4], [3, 1, 0], [0, 0, 1]])
        result = topograd.least_squares_many(lambda x, y, t: x[0] * t - y, np.ones((3, 1)), (y,),
                                             kwargs={"t": t}, options={"fallback": False})
        np.testing.assert_allclose(result.x[:, 0], y @ t / (t @ t), rtol=1e-7, atol=1e-9)
        with self.assertRaisesRegex(ValueError, r"args\[1\]: expected a first axis of 3, .*got shape \(4,\)"):
            topograd.least_squares_many(lambda x, y, t: x - y, np.ones((3, 1)), (y, np.ones(4)))

    def test_covariances_under_losses_are_those_of_curve_fit(self):
        t, y, _ = curves(12, seed=3)
        y[:, 5] += 1.0
        for loss, f_scale in (("soft_l1", 0.05), ("huber", 0.05), ("cauchy", 0.05), ("arctan", 0.5)):
            given = {"loss": loss, "f_scale": f_scale, "ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-12}
            _, pcov = topograd.curve_fit_many(decay, t, y, [2.0, 1.0, 0.0], options={"fallback": False},
                                              **given)
            for k in range(12):
                _, expected = scipy.optimize.curve_fit(decay, t, y[k], [2.0, 1.0, 0.0], method="trf",
                                                       **given)
                np.testing.assert_allclose(pcov[k], expected, rtol=2e-4, err_msg=loss)

    def test_covariances_that_are_not_determined_are_infinite_whatever_the_units(self):
        t, y, _ = curves(8)
        for name, f, p0, known in (
                ("unread", lambda t, a, b, c: a * np.exp(-b * t) + 0 * c, [2.0, 1.0, 3.0], False),
                ("product", lambda t, a, b, c: a * c * np.exp(-b * t), [2.0, 1.0, 3.0], False),
                ("sum", lambda t, a, b, c: (a + 1e6 * c) * np.exp(-b * t), [2.0, 1.0, 3.0], False),
                ("units", lambda t, a, b, c: 1e12 * a * np.exp(-b * t) + 1e-9 * c, [2e-12, 1.0, 1.0], True)):
            _, pcov = topograd.curve_fit_many(f, t, y, p0, options={"fallback": False})
            self.assertTrue(np.all(np.isfinite(pcov) if known else np.isinf(pcov)), name)
        scale = np.outer([1e12, 1, 1e-9], [1e12, 1, 1e-9])
        _, expected = topograd.curve_fit_many(decay, t, y, [2.0, 1.0, 0.0])
        np.testing.assert_allclose(pcov * scale, expected, rtol=1e-4)

    def test_covariances_of_nearly_dependent_columns_are_finite(self):
        """JᵀJ of this polynomial has a condition of 1e18."""
        t, degree = np.linspace(2, 3, 40), 8
        y = np.cos(3 * t) + np.random.default_rng(0).normal(0, 0.01, (4, 40))
        popt, pcov, result = topograd.curve_fit_many(
            lambda t, *p: sum(c * t**k for k, c in enumerate(p)), t, y, np.ones(degree), full_output=True,
            options={"fallback": False})
        triangle = np.linalg.qr(np.vander(t, degree, increasing=True))[1]
        inverse = np.linalg.inv(triangle)
        for k in range(4):
            expected = inverse @ inverse.T * (2 * result.cost[k] / (40 - degree))
            np.testing.assert_allclose(pcov[k], expected, rtol=1e-5)

    def test_powers_of_the_year_lead_to_the_minimum(self):
        """Columns that depend on each other nearly: a small gradient says nothing."""
        t, random = np.arange(1990, 2020.0), np.random.default_rng(3)
        u = (t - 2005) / 15
        y = 3 + 2 * u - 5 * u**2 + 0.3 * random.normal(size=(8, t.size))
        for degree in (2, 3, 4):
            powers = np.vander(u, degree + 1)
            least = [0.5 * np.sum((powers @ np.linalg.lstsq(powers, row, rcond=None)[0] - row) ** 2) for row in y]
            for start in (0.0, 1.0):
                _, _, result = topograd.curve_fit_many(
                    lambda t, *p: sum(c * t**k for k, c in enumerate(p)), t, y, np.full(degree + 1, start),
                    full_output=True, options={"fallback": False})
                self.assertTrue(np.all(result.success), (degree, start))
                np.testing.assert_allclose(result.cost, least, rtol=1e-3)

    def test_gtol_is_that_of_least_squares(self):
        t, y, _ = curves(4)
        for scale in (1.0, 1e4):
            def residuals(x, y, scale=scale):
                return scale * (decay(t, *x) - y)

            for gtol in (1e3, 10.0, 0.1, 1e-3):
                given = {"ftol": None, "xtol": None, "gtol": gtol}
                result = topograd.least_squares_many(residuals, np.tile([2.0, 1.0, 0.0], (4, 1)), (y,),
                                                     options={"fallback": False}, **given)
                for k in range(4):
                    one = topograd.least_squares(residuals, [2.0, 1.0, 0.0], args=(y[k],),
                                                 options={"fallback": False}, **given)
                    np.testing.assert_allclose(result.x[k], one.x, rtol=1e-9)
                    h = 1e-6 * np.eye(3)
                    gradient = [np.sum(residuals(one.x + e, y[k])**2 - residuals(one.x - e, y[k])**2) / 4e-6
                                for e in h]
                    if one.status == 1:
                        self.assertLess(np.max(np.abs(gradient)), gtol * 1.01 + 1e-5 * scale**2)

    def test_starts_in_kinks_are_left(self):
        y = np.linspace(1, 2, 40)
        for fun in (lambda x, y: np.stack([np.abs(x[0]) - y, x[1] - 1]),
                    lambda x, y: np.stack([x[0] ** 2 - y, x[1] - 2]),
                    lambda x, y: np.stack([np.linalg.norm(x) - y, x[0] - x[1]])):
            result = topograd.least_squares_many(fun, np.zeros((40, 2)), (y,), options={"fallback": False})
            self.assertTrue(np.all(result.success))
            self.assertLess(np.max(result.cost), 1e-12)  # SciPy reaches 0

    def test_terms_that_begin_the_same_are_parted(self):
        t = np.linspace(0, 5, 40)

        def decays(t, a, b, c, d):
            return a * np.exp(-b * t) + c * np.exp(-d * t)

        y = []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            y.append(decays(t, *np.exp(rng.uniform(np.log([0.5, 0.1, 0.5, 1]), np.log([10, 0.5, 10, 4])))))
            y[-1] += rng.normal(0, 0.01 * np.ptp(y[-1]), t.size)
        y = np.array(y)
        got = topograd.least_squares_many(lambda p, y: decays(t, *p) - y, np.ones((20, 4)), args=(y,),
                                          covariances=True, options={"fallback": False})
        for k in range(20):
            best = scipy.optimize.least_squares(lambda p: decays(t, *p) - y[k], np.ones(4), ftol=1e-12)
            self.assertTrue(got.success[k])
            self.assertLess(got.cost[k], 1.001 * best.cost)
            self.assertTrue(np.all(np.isfinite(got.covariance[k])))

    def test_values_of_another_function_are_not_minimised(self):
        def residuals(x, y):
            return (x - y) * (1.0 if type(x) is np.ndarray else 2.0)

        y = np.linspace(1, 2, 6)
        for loss in ("linear", "huber"):
            with self.assertRaisesRegex(topograd.TracingError, "problem 0: the traced function has cost"):
                topograd.least_squares_many(residuals, np.zeros((6, 1)), (y,), loss=loss,
                                            options={"fallback": False})
            result = topograd.least_squares_many(residuals, np.zeros((6, 1)), (y,), loss=loss)
            np.testing.assert_allclose(result.x[:, 0], y, rtol=1e-6)
            self.assertIn("by SciPy: problem 0", result.message)

    def test_arrays_that_functions_fill_are_traced(self):
        t = np.linspace(0, 1, 12)

        def model(t, a, b):
            f = np.zeros_like(t)
            f[:6] = a * t[:6]
            f[6:] = b + t[6:]
            return f

        y = np.stack([model(t, k + 1.0, 3.0) for k in range(4)])
        result = topograd.least_squares_many(lambda x, y, shift=0.0: model(t, *x) + shift - y, np.ones((4, 2)), (y,),
                                             kwargs={"shift": 1.0}, options={"fallback": False})
        np.testing.assert_allclose(result.x[:, 1], 2.0)
        found = topograd.curve_fit_many(model, t, y, [1.0, 1.0], options={"fallback": False})[0]
        np.testing.assert_allclose(found, [[k + 1.0, 3.0] for k in range(4)])

    def test_exceptions_while_tracing_are_left_to_scipy(self):
        def residuals(x, y):
            return x - {float: y}[type(float(x[0]) if isinstance(x, np.ndarray) else x)]

        result = topograd.least_squares_many(residuals, np.zeros((3, 1)), (np.arange(3.0),))
        np.testing.assert_allclose(result.x[:, 0], np.arange(3.0), atol=1e-8)
        self.assertRegex(result.message, r"by SciPy: .*line \d+ of test_many.py")
        table = np.array([0.5, 0.25, 0.125])  # an index that is data cannot be traced
        result = topograd.least_squares_many(lambda x, i: x - table[i], np.zeros((2, 1)), (np.array([2, 0]),),
                                             gtol=-1)
        np.testing.assert_allclose(result.x[:, 0], [0.125, 0.5], rtol=1e-6)
        with self.assertRaisesRegex(topograd.Error, "does not know linear_solver pcg"):
            topograd.least_squares_many(lambda x, y: x - y, np.zeros((3, 1)), (np.arange(3.0),),
                                        options={"backend": "vulkan", "linear_solver": "pcg"})

    def test_arguments_that_do_not_fit_are_refused(self):
        def call(**given):
            args = given.pop("args", (np.arange(3.0),))
            topograd.least_squares_many(lambda x, y: x - y, given.pop("x0", np.ones((3, 1))), args, **given)

        masked = np.ma.array([1.0, 2, 3], mask=[0, 1, 0])
        for given, words in (
                ({"max_nfev": 0}, "max_nfev"), ({"max_nfev": -2}, "max_nfev"), ({"loss": "hubr"}, "loss"),
                ({"bounds": (2, 3)}, r"X0\[0, 0\] is 1, outside"), ({"bounds": (3, 2)}, "strictly less"),
                ({"ftol": None, "xtol": 0, "gtol": None}, "tolerances"), ({"f_scale": -1}, "f_scale"),
                ({"args": (masked,)}, r"args\[0\]: expected an array without masked entries, got 1"),
                ({"x0": masked[:, None]}, "X0: .*masked"), ({"x0": np.ones((3, 1)) * 1j}, "X0: .*complex")):
            with self.assertRaisesRegex(ValueError, words):
                call(**given)
        t, y, _ = curves(4)
        with self.assertRaisesRegex(ValueError, "ydata: .*masked"):
            topograd.curve_fit_many(decay, t, np.ma.array(y, mask=y > 2), [1.0, 1.0, 1.0])
        with self.assertRaisesRegex(ValueError, "sigma: expected positive numbers, got 0"):
            topograd.curve_fit_many(decay, t, y, [1.0, 1.0, 1.0], np.zeros(t.size))

    def test_residuals_with_losses_of_scipy(self):
        t, y, _ = curves(30)
        y[:, 5] += 3.0
        x0 = np.tile([2.0, 1.0, 0.0], (30, 1))
        result = topograd.least_squares_many(lambda x, y: decay(t, *x) - y, x0, (y,), loss="soft_l1",
                                             f_scale=0.1, options={"fallback": False})
        self.assertTrue(np.all(result.success))
        for k in range(30):
            found = scipy.optimize.least_squares(lambda x: decay(t, *x) - y[k], x0[k], loss="soft_l1",
                                                 f_scale=0.1)
            np.testing.assert_allclose(result.x[k], found.x, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(result.cost[k], found.cost, rtol=1e-6)

    def test_a_start_without_a_value_fails_alone(self):
        x0 = np.linspace(-1, 8, 40)[:, None]
        result = topograd.least_squares_many(lambda x: np.log(x) - 1.0, x0, options={"fallback": False})
        bad = x0[:, 0] < 0
        np.testing.assert_array_equal(result.status, np.where(bad, -1, 1))
        np.testing.assert_array_equal(result.x[bad], x0[bad])
        np.testing.assert_allclose(result.x[~bad], np.e, rtol=1e-6)
        self.assertIn("components converged", result.message)

    def test_what_cannot_be_traced_is_left_to_scipy(self):
        def branches(x, y):
            return np.array([float(x[0]) - y if float(x[0]) > 0 else 5.0, 0.1 * float(x[0])])

        y = np.linspace(1, 2, 6)
        result = topograd.least_squares_many(branches, np.ones((6, 1)), (y,))
        np.testing.assert_allclose(result.x[:, 0], y / 1.01, rtol=1e-5)
        with self.assertRaises(topograd.TracingError):
            topograd.least_squares_many(branches, np.ones((6, 1)), (y,), options={"fallback": False})

    def test_shapes_that_do_not_fit(self):
        with self.assertRaisesRegex(ValueError, r"X0: expected shape \(problems, unknowns\)"):
            topograd.least_squares_many(lambda x: x, np.ones(3))
        with self.assertRaisesRegex(ValueError, r"ydata: expected shape \(curves, points\)"):
            topograd.curve_fit_many(decay, np.ones(3), np.ones(3))


class MinimaWhereResidualsStay(unittest.TestCase):
    """Squared rates that data do not want: their column vanishes at the minimum, residuals stay."""

    def test_end_with_success(self):
        rng = np.random.default_rng(0)
        t = np.linspace(0, 2, 20)
        y = 1 + (0.2 + 0.3 * rng.random((50, 1))) * t + 0.05 * rng.normal(size=(50, 20))
        fits = topograd.least_squares_many(
            lambda p, y: p[..., 1:2] * np.exp(-p[..., 0:1]**2 * t) - y, np.ones((50, 2)), args=(y,))
        least = ((y - y.mean(1, keepdims=True))**2).sum(1) / 2
        self.assertTrue(np.all(fits.success), fits.message)
        np.testing.assert_allclose(fits.cost, least, rtol=1e-6)


class Plateaus(unittest.TestCase):
    def test_success_is_none_where_no_residual_depends_on_an_unknown(self):
        s = np.linspace(-2, 6, 50)
        step = 3 / (1 + np.exp(-2 * (s - 1.5)))

        def logistic(p, unit):
            return unit * (p[0] / (1 + np.exp(-p[1] * (s - p[2]))) - step)

        starts = np.array([[-0.05, -0.1, 0.05], [2.0, 1.0, 1.0], [-7.0, -33.0, -3220.0]])
        for unit in (1e-9, 1.0, 1e9):
            got = topograd.least_squares_many(logistic, starts, kwargs={"unit": unit}, options={"fallback": False})
            np.testing.assert_array_equal(got.success, [False, True, False])
            self.assertLess(got.cost[1], 1e-20 * unit**2)


if __name__ == "__main__":
    unittest.main()
