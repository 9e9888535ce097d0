"""The table of constrained problems (tests/api/data/hock_schittkowski.json) against SciPy's SLSQP and trust-constr, and
by topograd.Problem."""

import json
import math
import pathlib
import unittest
import warnings

import numpy as np
import scipy.optimize

import topograd

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
        self.assertLess(off, 6 * row.get("at_within", 1e-6))  # SLSQP of SciPy 1.17: 5.4e-6 in problem 37

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


def traced_problem(row, start="start"):
    """(problem, x, handles of constraints) of a row of the table."""
    start = np.array(row.get(start, row["start"]), float)
    p = topograd.Problem()
    x = p.parameters(start, block=1, name="x")
    n = len(start)
    p.bounds(x, [-np.inf if b is None else b for b in row.get("lower", [None] * n)],
             [np.inf if b is None else b for b in row.get("upper", [None] * n)])
    if "energy" in row:
        p.energies(lambda v: np.stack([function(row["energy"])(v)]), x)
    else:
        p.residuals(lambda v: np.stack([math.sqrt(2) * function(t)(v) for t in row["squares"]]), x)
    kept = {}
    for kind, add in (("equalities", p.equalities), ("inequalities", p.inequalities)):
        if row.get(kind):
            kept[kind] = add(lambda v: np.stack([function(t)(v) for t in row[kind]]), x, label=kind)
    return p, x, kept


class TracedProblems(unittest.TestCase):
    def test_minima(self):
        rows = json.loads(TABLE.read_text())["problems"]
        for row in rows:
            with self.subTest(problem=row["number"]):
                p, x, kept = traced_problem(row)
                summary = p.solve(backend="cpu", max_iterations=300)
                self.assertEqual(summary.termination, "CONVERGENCE", summary.message)
                minimum = row["minimum"]
                found = summary.final_cost + row.get("offset", 0)
                self.assertLess(abs(found - minimum) / max(1.0, abs(minimum)), 1e-6)
                self.check_kkt(row, x.value, summary, kept)

    def test_barrier(self):
        """Those with inequalities, which hold at every step."""
        rows = [row for row in json.loads(TABLE.read_text())["problems"] if "inequalities" in row]
        self.assertGreaterEqual(len(rows), 20)
        for row in rows:
            with self.subTest(problem=row["number"]):
                p, x, kept = traced_problem(row, "interior")
                points = []
                summary = p.solve(backend="cpu", method="barrier", max_iterations=300,
                                  callback=lambda _, x=x, points=points: points.append(x.value.copy()),
                                  update_state_every_iteration=True)
                self.assertEqual(summary.termination, "CONVERGENCE", summary.message)
                minimum = row["minimum"]
                found = summary.final_cost + row.get("offset", 0)
                self.assertLess(abs(found - minimum) / max(1.0, abs(minimum)), 1e-6)
                for text in row["inequalities"]:
                    self.assertGreater(min(function(text)(at) for at in points), 0)
                self.check_kkt(row, x.value, summary, kept)

    def check_kkt(self, row, x, summary, kept):
        """Of the table's functions by differences, with the multipliers of the summary."""
        def gradient(f):
            return scipy.optimize.approx_fprime(x, f, 1e-7 * np.maximum(1, np.abs(x)))

        left = gradient(objective(row))
        scale = max(1.0, np.max(np.abs(left)))
        for kind, constraints in kept.items():
            numbers = summary.multipliers(constraints)
            self.assertEqual(len(numbers), len(row[kind]))
            for text, number in zip(row[kind], numbers):
                left = left - number * gradient(function(text))
                value = function(text)(x)
                if kind == "inequalities":
                    self.assertGreaterEqual(number, 0)
                    self.assertLess(abs(number * value), 1e-6 * scale)
                else:
                    self.assertLess(abs(value), 1e-9)
        n = len(x)
        for k, (low, high) in enumerate(zip(row.get("lower", [None] * n), row.get("upper", [None] * n))):
            if low is not None and x[k] <= low + 1e-9:
                left[k] = min(left[k], 0)
            if high is not None and x[k] >= high - 1e-9:
                left[k] = max(left[k], 0)
        scale = max(scale, *(np.max(np.abs(summary.multipliers(c)), initial=0) for c in kept.values()))
        self.assertLess(np.max(np.abs(left)), 2e-5 * scale)


class Constraints(unittest.TestCase):
    def test_order_of_multipliers(self):
        """Rows of different topologies, in the order of the traced array."""
        p = topograd.Problem()
        x = p.parameters(np.full(4, 3.0))
        p.residuals(lambda v: v - np.array([1.0, 2.0, 3.0, 4.0]), x)
        # Half the squared distance with x_k = b_k: the multiplier is b_k - (k + 1).
        first = p.add_equality(lambda v: np.stack([v[2] - 5.0, 2.0 * v[0] - 8.0]), x, label="two")
        second = p.add_inequality(lambda v: np.stack([v[3] - 1.0, v[1] - 6.0]), x)
        summary = p.solve()
        np.testing.assert_allclose(x.value, [4, 6, 5, 4], atol=1e-8)
        np.testing.assert_allclose(summary.multipliers(first), [2, 1.5], atol=1e-7)
        np.testing.assert_allclose(summary.multipliers(second), [0, 4], atol=1e-7)
        np.testing.assert_allclose(summary.multipliers(), [2, 1.5, 0, 4], atol=1e-7)
        self.assertEqual(summary.json()["constraints"]["blocks"][0]["label"], "two")
        self.assertEqual(len(p.evaluate()), 4)
        p.add_equality(lambda v: v[:1] - 4.0, x)
        with self.assertRaisesRegex(topograd.Error, "added after the solve"):
            summary.multipliers(first)

    def test_infeasible(self):
        p = topograd.Problem()
        x = p.parameters(np.array([0.5]))
        p.residuals(lambda v: v - 1.0, x)
        p.equalities(lambda v: v - 2.0, x, label="two")
        p.equalities(lambda v: v - 3.0, x, label="three")
        summary = p.solve()
        self.assertEqual(summary.termination, "INFEASIBLE")
        self.assertRegex(summary.message, "two|three")

    def test_rows_without_unknowns(self):
        p = topograd.Problem()
        x = p.parameters(np.array([0.5, 1.0]))
        with self.assertRaisesRegex(topograd.Error, "add_equalities: row 1 reads no unknown"):
            p.equalities(lambda v: np.stack([v[0] - 1.0, 0 * np.array(2.0)]), x)
        with self.assertRaises(topograd.TracingError):
            p.inequalities(lambda v: int(v[0]), x)


if __name__ == "__main__":
    unittest.main()
