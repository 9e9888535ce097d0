"""Derivatives of solutions from Python: closed forms, differences of whole solves, errors."""

import unittest

import numpy as np

import topograd

TIGHT = dict(backend="cpu", function_tolerance=1e-18, gradient_tolerance=1e-16,
             parameter_tolerance=1e-16)


def line(times, heights):
    """A straight line through points, with times and heights as data."""
    p = topograd.Problem()
    x = p.parameters(np.zeros(2))
    t, y = p.data(times, "t"), p.data(heights, "y")
    p.residuals(x[0] + x[1] * t - y)
    p.solve(**TIGHT)
    return p, x, t, y


class Sensitivities(unittest.TestCase):
    def setUp(self):
        self.t = np.array([0.0, 1, 2, 3, 5])
        self.y = np.array([0.1, 0.9, 2.2, 2.8, 5.3])

    def test_heights_have_the_pseudo_inverse(self):
        p, x, t, y = line(self.t, self.y)
        expected = np.linalg.pinv(np.stack([np.ones(5), self.t], 1))
        for form in ("full", "gauss_newton"):
            s = topograd.Sensitivity(p, y, form=form)
            self.assertEqual(s.size, 5)
            for k in range(2):
                np.testing.assert_allclose(s.vjp(np.eye(2)[k]), expected[k], atol=1e-12)
            np.testing.assert_allclose(s.jvp(np.arange(5)), expected @ np.arange(5), atol=1e-12)

    def test_parts(self):
        p, x, t, y = line(self.t, self.y)
        s = topograd.Sensitivity(p)
        self.assertEqual(s.size, 10)
        back = s.vjp([1, 2])
        np.testing.assert_array_equal(s.vjp([1, 2], t), back[:5])
        np.testing.assert_array_equal(s.vjp([1, 2], y), back[5:])
        d = np.sin(np.arange(5))
        np.testing.assert_array_equal(s.jvp(d, y), s.jvp(np.concatenate([np.zeros(5), d])))
        # Times, by differences of the closed form.
        fit = lambda at: np.linalg.lstsq(np.stack([np.ones(5), at], 1), self.y, rcond=None)[0]
        h = 1e-5
        differences = (fit(self.t + h * d) - fit(self.t - h * d)) / (2 * h)
        np.testing.assert_allclose(s.jvp(d, t), differences, rtol=1e-8)

    def test_against_whole_solves(self):
        # Springs between moving anchors, with a loss, bounds, and a direction.
        rng = np.random.default_rng(3)
        anchors, lengths = rng.normal(size=(6, 3)), rng.uniform(0.5, 1.5, 5)
        points = np.maximum(anchors + 0.1, -0.2)
        direction = np.array([[0.6, 0.8, 0.0]])
        p = topograd.Problem()
        x, u = p.parameters(points), p.parameters(direction)
        a, length, weight = p.data(anchors), p.data(lengths), p.data(0.5)
        p.residuals(lambda at, to: at - to, x, a, loss=("cauchy", 2.0))
        p.residuals(lambda i, j, rest: np.linalg.norm(i - j, axis=1) - rest, x[:-1], x[1:], length)
        p.residuals(lambda i: weight * (u[0] - i), x)
        p.manifold(u, "sphere")
        p.bounds(x[:, 2], lower=-0.2)

        def solve(at):
            p.set(a, anchors + at * d[:18].reshape(6, 3))
            p.set(length, lengths + at * d[18:23])
            p.set(weight, 0.5 + at * d[23])
            p.solve(**TIGHT)
            return p.x()

        d = np.sin(1.3 * np.arange(24))
        solve(0)
        s = topograd.Sensitivity(p)
        self.assertGreater(s.active_bounds, 0)
        dx = s.jvp(d)
        np.testing.assert_allclose(dx[u.places] @ direction[0], 0, atol=1e-10)
        central = [(solve(h) - solve(-h)) / (2 * h) for h in (0.02, 0.01, 0.005)]
        first, last = [(4 * b - a) / 3 for a, b in zip(central, central[1:])]
        expected = (16 * last - first) / 15
        # A solve finds about seven digits of x, which lengths of 0.005 multiply by 200.
        self.assertLess(np.linalg.norm(dx - expected), 5e-5 * np.linalg.norm(expected))
        v = np.cos(2.1 * np.arange(dx.size))
        np.testing.assert_allclose(s.vjp(v) @ d, v @ dx, rtol=1e-9)

    def test_constraints(self):
        # The point of a circle that is closest to another one.
        p = topograd.Problem()
        x = p.parameters(np.array([1.0, 1.0]))
        wish, radius = p.data([3.0, 4.0]), p.data(2.0)
        p.residuals(x - wish)
        p.add_equality(np.sqrt(np.sum(x * x)) - radius)
        p.solve(backend="cpu")
        s = topograd.Sensitivity(p)
        self.assertEqual(s.active_constraints, 1)
        np.testing.assert_allclose(s.jvp(1.0, radius), [0.6, 0.8], atol=1e-7)
        np.testing.assert_allclose(s.jvp([1, 0], wish), [0.256, -0.192], atol=1e-7)

    def test_new_numbers_compile_nothing(self):
        p, x, t, y = line(self.t, self.y)
        topologies = p.sizes["topologies"]
        p.set(y, 2 * self.y)
        p.solve(**TIGHT)
        np.testing.assert_allclose(x.value, 2 * np.polyfit(self.t, self.y, 1)[::-1], rtol=1e-12)
        self.assertEqual(p.sizes["topologies"], topologies)

    def test_errors(self):
        p, x, t, y = line(self.t, self.y)
        other, _, _, other_y = line(self.t, self.y)
        with self.assertRaisesRegex(ValueError, "data"):
            topograd.Sensitivity(p, other_y)
        with self.assertRaisesRegex(ValueError, "data"):
            topograd.Sensitivity(p, x)
        with self.assertRaisesRegex(ValueError, "form: expected one of full, gauss_newton"):
            topograd.Sensitivity(p, form="exact")
        with self.assertRaisesRegex(ValueError, "not a part of theta"):
            topograd.Sensitivity(p, y).vjp([1, 0], t)
        with self.assertRaisesRegex(ValueError, "dx needs 2 numbers, got 3"):
            topograd.Sensitivity(p).vjp([1, 0, 0])
        with self.assertRaisesRegex(ValueError, "set: expected an array"):
            p.set(other_y, self.y)
        x.value[0] += 1
        with self.assertRaisesRegex(topograd.SensitivityError, "no solution") as moved:
            topograd.Sensitivity(p)
        self.assertIsInstance(moved.exception, ValueError)
        self.assertEqual(moved.exception.reason, "unconverged")
        free = topograd.Problem()
        z = free.parameters(np.zeros(2), name="z")
        free.residuals(z[:1] - free.data([1.0]))
        free.solve(**TIGHT)
        topograd.Sensitivity(free)  # what nothing reads is undetermined, and no error


if __name__ == "__main__":
    unittest.main()
