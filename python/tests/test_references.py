"""Published problems: NIST's regression sets, and a scene of Bundle Adjustment in the Large."""

import os
import pathlib
import re
import runpy
import sys
import time
import unittest
import warnings

import numpy as np
import scipy.optimize

import topograd

#: nist/*.dat and bal/problem-49-7776-pre.txt; the tests' own folder has two of NIST's sets.
DATA = pathlib.Path(os.environ.get(
    "TOPOGRAD_DATA", pathlib.Path(__file__).resolve().parents[2] / "tests" / "data"))
SAMPLES = pathlib.Path(__file__).resolve().parents[1] / "samples"

#: Ends in another minimum, as with other solvers.
KNOWN = {"BoxBOD from start 1"}


def read_nist(path):
    """(model(b, x), starts (2, n), certified (n,), x, y) of a file of NIST's StRD."""
    lines = path.read_text().splitlines()
    first, last = map(int, re.search(r"Data +\(lines +(\d+) to +(\d+)\)", "\n".join(lines)).groups())
    rows = np.array([line.split() for line in lines[first - 1:last]], dtype=float)
    parameters = [re.match(r"\s*b\d+ *= *(\S+) +(\S+) +(\S+)", line) for line in lines[:first]]
    numbers = np.array([m.groups() for m in parameters if m], dtype=float)
    begin = next(k for k, line in enumerate(lines) if line.startswith("Model:"))
    text = " ".join(lines[begin:first])
    text = re.search(r"\b(?:log\[)?y\]? *= *(.*?) *\+ *e\b", text).group(1)
    text = text.replace("[", "(").replace("]", ")").replace("arctan", "np.arctan")
    text = re.sub(r"\b(exp|sin|cos|log)\b", r"np.\1", text)
    text = re.sub(r"\bb(\d+)\b", lambda m: f"b[{int(m.group(1)) - 1}]", text)
    text = re.sub(r"\bx(\d)\b", lambda m: f"x[{int(m.group(1)) - 1}]", text)
    model = eval(f"lambda b, x, pi=np.pi: {text}", {"np": np})
    logarithmic = "log[y]" in "\n".join(lines)
    y = np.log(rows[:, 0]) if logarithmic else rows[:, 0]
    x = rows[:, 1] if rows.shape[1] == 2 else rows[:, 1:].T
    return model, numbers[:, :2].T, numbers[:, 2], x, y


class Nist(unittest.TestCase):
    def test_four_digits_from_both_starts(self):
        errors = {}
        for path in sorted((DATA / "nist").glob("*.dat")):
            model, starts, certified, x, y = read_nist(path)
            for number, start in enumerate(starts):
                result = topograd.least_squares(
                    lambda b: model(b, x) - y, start, x_scale="jac", ftol=1e-15, xtol=1e-15,
                    gtol=1e-15, max_nfev=2000, options={"fallback": False, "scale_free": True})
                error = np.max(np.abs(result.x - certified) / np.abs(certified))
                errors[f"{path.stem} from start {number + 1}"] = error
        self.assertGreaterEqual(len(errors), 4)
        self.assertEqual({name for name, error in errors.items() if error > 1e-4} - KNOWN, set())


class NistByCurveFit(unittest.TestCase):
    #: Ends in another minimum, or on a ridge, with SciPy, too.
    KNOWN = {"BoxBOD from start 1", "MGH17 from start 1"}

    def test_six_digits_by_default_options(self):
        """As many as SciPy's curve_fit, and more."""
        digits = {}
        for path in sorted((DATA / "nist").glob("*.dat")):
            model, starts, certified, x, y = read_nist(path)
            for number, start in enumerate(starts):
                for fit in (topograd.curve_fit, scipy.optimize.curve_fit):
                    with warnings.catch_warnings(), np.errstate(all="ignore"):
                        warnings.simplefilter("ignore")
                        try:
                            found, _ = fit(lambda x, *b: model(b, x), x, y, start)
                            error = np.max(np.abs(found - certified) / np.abs(certified))
                        except RuntimeError:
                            error = 1.0
                    digits.setdefault(f"{path.stem} from start {number + 1}", []).append(-np.log10(error + 1e-16))
        self.assertGreaterEqual(len(digits), 4)
        ours, scipys = ({name for name, d in digits.items() if d[k] > 6} for k in (0, 1))
        self.assertEqual(set(digits) - ours - self.KNOWN, set())
        self.assertLessEqual(scipys, ours)
        means = np.mean(list(digits.values()), axis=0)
        print(f"six digits: {len(ours)} of {len(digits)} fits, SciPy {len(scipys)}; four digits: "
              f"{sum(d[0] > 4 for d in digits.values())} and {sum(d[1] > 4 for d in digits.values())}; "
              f"mean {means[0]:.1f} and {means[1]:.1f}", file=sys.stderr)


def read_bal(path):
    with open(path) as file:
        cameras, points, observations = map(int, file.readline().split())
        seen = np.array([file.readline().split() for _ in range(observations)], dtype=float)
        numbers = np.array(file.read().split(), dtype=float)
    return numbers, (cameras, seen[:, 0].astype(int), seen[:, 1].astype(int), seen[:, 2:])


BAL = DATA / "bal" / "problem-49-7776-pre.txt"


@unittest.skipUnless(BAL.is_file(), "no file bal/problem-49-7776-pre.txt in TOPOGRAD_DATA")
class BundleAdjustment(unittest.TestCase):
    def test_ladybug_49(self):
        errors = runpy.run_path(str(SAMPLES / "bundle_adjustment.py"))["reprojection_errors"]
        x0, arguments = read_bal(BAL)
        started = time.perf_counter()
        result = topograd.least_squares(
            errors, x0, x_scale="jac", ftol=1e-4, method="trf", args=arguments,
            options={"fallback": False, "backend": "cpu"})
        seconds = time.perf_counter() - started
        self.assertLess(result.cost, 13_408.9)  # SciPy's, with the same tolerance
        self.assertEqual(result.status, 2)
        traced = seconds - result.summary.seconds
        print(f"bundle adjustment: {seconds:.2f} s, of which {traced:.2f} s are not the solve; "
              f"cost {result.cost:.1f}", file=sys.stderr)
        self.assertLess(traced, 2.0)  # 0.5 s on a machine that does nothing else


if __name__ == "__main__":
    unittest.main()
