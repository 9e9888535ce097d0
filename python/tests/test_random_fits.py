"""Random fits: where least_squares reports success, no Gauss-Newton step gains one per cent.

Derivatives are differences of the function's numbers, of fourth order.
"""

import unittest

import numpy as np

import topograd

T = np.linspace(0, 1, 40)
MODELS = {
    "decay": lambda p: p[0] * np.exp(-p[1] * T) + p[2],
    "gaussian": lambda p: p[0] * np.exp(-(((T - p[1]) / p[2]) ** 2)) + p[3],
    "lorentzian": lambda p: p[0] / (1 + ((T - p[1]) / p[2]) ** 2),
    "logistic": lambda p: p[0] / (1 + np.exp(-p[1] * (T - p[2]))),
    "sine": lambda p: p[0] * np.sin(p[1] * T + p[2]) + p[3],
    "power": lambda p: p[0] * (T + 0.1) ** p[1] + p[2],
    "saturation": lambda p: p[0] * T / (p[1] + T),
    "decays": lambda p: p[0] * np.exp(-p[1] * T) + p[2] * np.exp(-p[3] * T),
    "rational": lambda p: (p[0] + p[1] * T) / (1 + p[2] * T + p[3] * T * T),
    "polynomial": lambda p: p[0] + p[1] * T + p[2] * T**2 + p[3] * T**3,
    "arrhenius": lambda p: np.exp(p[0] - p[1] / (T + 0.3)),
    "stretched": lambda p: p[0] * np.exp(-((np.maximum(p[1], 1e-9) * T + 1e-9) ** p[2])),
}
LOSSES = {
    "linear": (lambda z: z, lambda z: np.ones_like(z)),
    "soft_l1": (lambda z: 2 * (np.sqrt(1 + z) - 1), lambda z: (1 + z) ** -0.5),
    "huber": (lambda z: np.where(z <= 1, z, 2 * np.sqrt(z) - 1), lambda z: np.maximum(z, 1) ** -0.5),
    "cauchy": (np.log1p, lambda z: 1 / (1 + z)),
    "arctan": (np.arctan, lambda z: 1 / (1 + z**2)),
}


def jacobian(f, x):
    columns = []
    for i in range(x.size):
        h = np.zeros(x.size)
        h[i] = 1e-4 * max(abs(x[i]), 1e-3)
        columns.append((8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h[i]))
    return np.stack(columns, axis=1)


class Fit:
    """A random fit: residuals, start and arguments."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)

        def between(low, high):
            return np.exp(rng.uniform(np.log(low), np.log(high)))

        self.name = rng.choice(list(MODELS))
        model = MODELS[self.name]
        p = np.array({
            "decay": [between(0.1, 1e3), between(0.1, 30), 10 * rng.normal()],
            "gaussian": [between(0.1, 1e4), rng.uniform(0.1, 0.9), between(0.02, 0.5), rng.normal()],
            "lorentzian": [between(0.1, 1e4), rng.uniform(0.1, 0.9), between(0.02, 0.5)],
            "logistic": [between(0.1, 1e5), between(1, 60), rng.uniform(0.1, 0.9)],
            "sine": [between(0.1, 100), between(2, 30), rng.uniform(-3, 3), rng.normal()],
            "power": [between(0.1, 100), rng.uniform(-3, 3), rng.normal()],
            "saturation": [between(0.1, 1e6), between(1e-3, 10)],
            "decays": [between(0.1, 100), between(0.1, 3), between(0.1, 100), between(5, 50)],
            "rational": [3 * rng.normal(), 3 * rng.normal(), between(0.1, 5), between(0.1, 5)],
            "polynomial": between(0.01, 1e4) * rng.normal(size=4),
            "arrhenius": [rng.uniform(-2, 8), between(0.1, 5)],
            "stretched": [between(0.1, 100), between(0.5, 20), rng.uniform(0.4, 2)],
        }[self.name])
        clean = model(p)
        range_of = np.ptp(clean)
        y = clean + rng.normal(0, 1, T.size) * rng.choice([0, 1e-6, 1e-2, 0.2]) * range_of
        if rng.random() < 0.3:
            y[rng.integers(T.size, size=4)] += 3 * range_of
        unit = rng.choice([1e-6, 1, 1, 1e6])
        self.x0 = [p * rng.uniform(0.2, 3, p.size), p * np.exp(rng.normal(0, 1.5, p.size)), np.ones(p.size),
                   np.full(p.size, rng.choice([0, 1e-3]))][rng.choice(4, p=[0.4, 0.3, 0.15, 0.15])]
        self.fun = lambda x: unit * (model(x) - y)
        self.lower, self.upper = np.full(p.size, -np.inf), np.full(p.size, np.inf)
        if rng.random() < 0.3:
            wide = np.abs(self.x0) * rng.uniform(0.1, 3, (2, p.size)) + 0.1
            self.lower, self.upper = self.x0 - wide[0], self.x0 + wide[1]
        self.loss = rng.choice(list(LOSSES)) if rng.random() < 0.5 else "linear"
        self.f_scale = 1.0 if self.loss == "linear" else unit * max(range_of, 1e-9) * rng.choice([0.01, 0.1, 1])
        #: below this cost all is rounding
        self.rounding = 1e-20 * unit**2 * (np.sum(y**2) + np.sum(clean**2))

    def arguments(self):
        return {"bounds": (self.lower, self.upper), "loss": self.loss, "f_scale": self.f_scale}

    def cost(self, f):
        return self.f_scale**2 * np.sum(LOSSES[self.loss][0]((f / self.f_scale) ** 2))

    def gain(self, x):
        """The share of the cost that a Gauss-Newton step promises and gains; steps far beyond the
        numbers, as on a plateau, are not meant."""
        f, rows = self.fun(x), jacobian(self.fun, x)
        cost = self.cost(f)
        if not cost > self.rounding or not np.all(np.isfinite(rows)):
            return 0.0
        weights = np.sqrt(LOSSES[self.loss][1]((f / self.f_scale) ** 2))
        rows, f = rows * weights[:, None], f * weights
        gradient = rows.T @ f
        free = ~((x <= self.lower) & (gradient > 0) | (x >= self.upper) & (gradient < 0))
        lengths = np.linalg.norm(rows, axis=0)
        free &= lengths > 1e-150
        most = 0.0
        for share in (1e-12, 1e-8, 1e-5, 1e-3):
            step = np.zeros(x.size)
            step[free] = -np.linalg.lstsq(rows[:, free] / lengths[free], f, rcond=share)[0] / lengths[free]
            promised = (f @ f - np.sum((f + rows @ step) ** 2)) / cost
            if np.linalg.norm(step) > 1e4 * (1 + np.linalg.norm(x)):
                continue
            for length in (1.0, 0.5, 0.2):
                beside = np.clip(x + length * step, self.lower, self.upper)
                gained = 1 - self.cost(self.fun(beside)) / cost
                most = max(most, min(gained, promised)) if np.isfinite(gained) else most
        return most


class RandomFits(unittest.TestCase):
    def setUp(self):
        settings = np.seterr(all="ignore")
        self.addCleanup(np.seterr, **settings)

    def test_success_is_success(self):
        solved = 0
        for seed in range(500):
            fit = Fit(seed)
            try:
                result = topograd.least_squares(fit.fun, fit.x0, options={"fallback": False}, **fit.arguments())
            except ValueError as error:  # no value at the start
                self.assertIn("not finite", str(error))
                continue
            if result.success:
                solved += 1
                self.assertLess(fit.gain(result.x), 0.01, f"fit {seed}, {fit.name}, {fit.loss}")
        self.assertGreater(solved, 445)

    def test_small_numbers_are_no_success(self):
        """SciPy's gtol is an absolute number: of residuals in small units, and of x in large ones."""
        solved = 0
        for seed in range(1000, 1150):
            fit = Fit(seed)
            small = 1e-9 * max(np.max(np.abs(fit.fun(fit.x0))), 1e-300) ** -1
            fun = fit.fun

            def residuals(x, fun=fun, small=small):
                return small * fun(x)

            arguments = {**fit.arguments(), "f_scale": small * fit.f_scale}
            try:
                result = topograd.least_squares(residuals, fit.x0, x_scale=np.abs(fit.x0) + 0.1,
                                                options={"fallback": False}, **arguments)
            except ValueError:
                continue
            if result.success:
                solved += 1
                self.assertLess(fit.gain(result.x), 0.01, f"fit {seed}, {fit.name}, {fit.loss}")
        self.assertGreater(solved, 130)

    def test_minimize_in_any_units(self):
        solved = 0
        for seed in range(150):
            fit = Fit(seed)
            fun, unit = fit.fun, 10.0 ** np.random.default_rng(seed).choice([-9, 0, 9], fit.x0.size)
            start = fun(fit.x0)
            if fit.loss != "linear" or not np.all(np.isfinite(start)) or not np.any(start):
                continue
            weight = 1 / np.sum(start**2)

            def cost(x, fun=fun, weight=weight, unit=unit):
                return weight * np.sum(fun(x / unit) ** 2)

            result = topograd.minimize(cost, fit.x0 * unit, bounds=list(zip(fit.lower * unit, fit.upper * unit)))
            if result.success:
                solved += 1
                self.assertLess(fit.gain(result.x / unit), 0.01, f"fit {seed}, {fit.name}")
        self.assertGreater(solved, 50)

    def test_large_rows_hide_nothing(self):
        """Steps that reduce the cost by ten powers of ten each, while all cosines are below 1e-8."""
        for power, start in ((-27.0, [0.05, -27.0, -0.1]), (-52.0, [3.5, -53.0, 2.4])):
            y = 2 * (T + 0.1) ** -1.3 - 0.5
            result = topograd.least_squares(lambda p: p[0] * (T + 0.1) ** p[1] + p[2] - y, start,
                                            options={"fallback": False})
            if result.success:
                self.assertLess(result.cost, 1e3, power)

    def test_what_scipy_ends_too_early_is_solved_on(self):
        """From far away at a rate of exp(1) a step: the limit is reached, and SciPy's gtol is an
        absolute number."""
        y = np.exp(3.74226296 - 0.76328892 / (T + 0.3))

        def residuals(p, unit=1e-6):
            return unit * (np.exp(p[0] - p[1] / (T + 0.3)) - y)

        result = topograd.least_squares(residuals, [104.08734198, 0.3545204])
        self.assertTrue(result.success)
        np.testing.assert_allclose(result.x, [3.74226296, 0.76328892], rtol=1e-6)

    def test_a_limit_is_no_success_in_small_units(self):
        """SciPy's gtol is an absolute number: it holds at the start if residuals are small."""
        t = np.linspace(0, 1, 40)

        def residuals(p, unit=1e-6):
            return unit * (p[0] * np.exp(-(np.maximum(p[1], 1e-9) * t + 1e-9) ** p[2]) - np.exp(-(5 * t) ** 0.7))

        for evaluations in (2, 3, 5):
            result = topograd.least_squares(residuals, np.zeros(3) + 0.1, max_nfev=evaluations,
                                            options={"fallback": False})
            self.assertEqual((result.status, result.success), (0, False))


if __name__ == "__main__":
    unittest.main()
