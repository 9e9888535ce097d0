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


if __name__ == "__main__":
    unittest.main()
