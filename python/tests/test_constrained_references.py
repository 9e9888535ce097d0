"""The table of constrained problems (tests/api/data/hock_schittkowski.json) against SciPy's SLSQP and trust-constr."""

import json
import math
import pathlib
import unittest
import warnings

import numpy as np
import scipy.optimize

TABLE = pathlib.Path(__file__).resolve().parents[2] / "tests/api/data/hock_schittkowski.json"
NAMES = {name: getattr(np, name) for name in ("log", "sin", "cos", "exp", "sqrt")}
NAMES["pi"] = math.pi
# SLSQP stays at the published start of problem 61, where gradients of constraints vanish.
OTHER_START = {61: [4.0, -1.0, 2.0]}


def function(text):
    code = compile(text.replace("^", "**"), text, "eval")
    return lambda x: eval(code, NAMES, {f"x{k + 1}": value for k, value in enumerate(x)})


def objective(row):
    if "energy" in row:
        return function(row["energy"])
    terms = [function(text) for text in row["squares"]]
    return lambda x: row.get("offset", 0) + sum(term(x) ** 2 for term in terms)


class HockSchittkowski(unittest.TestCase):
    def test_minima(self):
        rows = json.loads(TABLE.read_text())["problems"]
        self.assertGreaterEqual(len(rows), 30)
        for row in rows:
            with self.subTest(problem=row["number"]):
                self.check(row)

    def check(self, row):
        f, n, minimum = objective(row), len(row["start"]), row["minimum"]
        constraints = [{"type": "eq", "fun": function(t)} for t in row.get("equalities", [])]
        constraints += [{"type": "ineq", "fun": function(t)} for t in row.get("inequalities", [])]
        bounds = list(zip(row.get("lower", [None] * n), row.get("upper", [None] * n)))
        start = np.array(OTHER_START.get(row["number"], row["start"]), float)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # trial points outside of domains
            found = scipy.optimize.minimize(f, start, method="SLSQP", jac="3-point", bounds=bounds,
                                            constraints=constraints,
                                            options={"ftol": 1e-15, "maxiter": 1000})
        size = max(1.0, abs(minimum))
        self.assertLess(abs(found.fun - minimum) / size, 1e-6)
        if "at" not in row:
            return
        at = np.array(row["at"])
        self.assertLess(abs(f(at) - minimum) / size, 1e-6)
        for constraint in constraints:
            value = constraint["fun"](at)
            broken = abs(value) if constraint["type"] == "eq" else max(0.0, -value)
            self.assertLess(broken, 2e-5)  # as many digits as the book prints
        off = np.max(np.abs(found.x - at) / np.maximum(1.0, np.abs(at)))
        self.assertLess(off, 3 * row.get("at_within", 1e-6))

    def test_trust_constr(self):
        """A second method on a few of them."""
        rows = {row["number"]: row for row in json.loads(TABLE.read_text())["problems"]}
        for number in (6, 12, 28, 43, 71):
            row = rows[number]
            f, n = objective(row), len(row["start"])
            constraints = [scipy.optimize.NonlinearConstraint(function(t), 0, 0)
                           for t in row.get("equalities", [])]
            constraints += [scipy.optimize.NonlinearConstraint(function(t), 0, np.inf)
                            for t in row.get("inequalities", [])]
            bounds = list(zip(row.get("lower", [-np.inf] * n), row.get("upper", [np.inf] * n)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = scipy.optimize.minimize(f, row["start"], method="trust-constr",
                                                constraints=constraints, bounds=bounds,
                                                options={"maxiter": 3000, "gtol": 1e-10,
                                                         "xtol": 1e-12, "barrier_tol": 1e-10})
            with self.subTest(problem=number):
                self.assertLess(abs(found.fun - row["minimum"]) / max(1, abs(row["minimum"])), 1e-6)


if __name__ == "__main__":
    unittest.main()
