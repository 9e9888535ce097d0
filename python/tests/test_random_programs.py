"""Random programs of arrays: values of traced functions are NumPy's, and derivatives are those of
differences.

A program is a text of statements, each of which was run with numbers before it is kept. More of them:

    PYTHONPATH=build/python python3 python/tests/test_random_programs.py 5000 [first seed]
"""

import sys
import unittest
import warnings

import numpy as np

import topograd
from test_tracing import model_of
from topograd import _core

UNARY = ("np.sin({a})", "np.cos({a})", "np.tanh({a})", "np.exp(-{a}**2)", "np.log(1 + {a}**2)", "np.sqrt({a}**2 + 0.5)",
         "np.arctan({a})", "np.square({a})", "np.abs({a})", "-{a}", "1 / (1 + {a}**2)", "np.log1p(np.abs({a}))",
         "np.cbrt({a} + 3)", "np.expm1({a} / 4)", "np.sinc({a})", "np.arcsinh({a})", "({a}).copy()", "np.negative({a})",
         "np.sign({a}) * {a}", "np.where({a} > {s}, {a}, {s} * {a})", "np.clip({a}, -1, {s} + 1)", "np.maximum({a}, {s})",
         "np.float64({s}) * {a}", "{a} ** 3", "2.0 ** ({a} / 3)", "np.heaviside({a}, 0.5) + {a}", "np.minimum({s}, {a}) / 2",
         "np.reciprocal(2 + np.cos({a}))", "np.deg2rad({a}) * 40", "np.logaddexp({a}, {s})", "np.nan_to_num({a})",
         "np.fmod({a}, 7.5)", "np.hypot({a}, {s})", "np.piecewise({a}, [{a} < 0, {a} >= 0], [lambda v: v / 2, lambda v: v**2])",
         "np.select([{a} < -1, {a} > 1], [-1.0, {a}**2], {a})", "np.copysign({a}, {s})", "({a}).astype(float)")
BINARY = ("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / (1.5 + {b}**2)", "np.maximum({a}, {b})", "np.minimum({a}, {b})",
          "np.arctan2({a}, 3 + np.abs({b}))", "np.hypot({a}, {b})", "(1 + np.abs({a})) ** np.tanh({b})",
          "np.where({a} > {b}, {a}, {b} / 2)", "np.fmax({a}, {b})", "np.add({a}, {b})", "np.logaddexp({a}, {b})",
          "np.multiply({a}, {b}) + {s}", "np.where(({a} > 0) & ({b} < 1), {a}, -{b})", "np.fmin({a}, {b})",
          "np.copysign({a}, {b})", "np.true_divide({a}, 2 + np.cos({b}))", "np.where(~({a} < {b}), 1.0, {a})")
REDUCTIONS = ("np.sum({a}{ax})", "np.mean({a}{ax})", "np.max({a}{ax})", "np.min({a}{ax})", "np.std({a}{ax})", "np.var({a}{ax})",
              "np.prod(np.tanh({a}) + 0.2{ax})", "({a}).sum({axis}).copy()", "({a}).mean({axis})", "np.linalg.norm({a}{ax1})",
              "np.median({a}{ax1})", "np.ptp({a}{ax1})", "np.cumsum({a}{ax1})", "np.average({a}{ax1})", "({a}).max({axis})",
              "np.cumprod(np.cos({a}){ax1})", "np.percentile({a}, 30{ax1})", "np.nansum({a}{ax})", "np.sqrt(np.sum({a}**2{ax}) + 1)",
              "np.add.reduce({a}{ax1})", "np.count_nonzero({a} > 0) * {a}", "np.sort({a}{ax2})", "np.diff({a}{ax2})",
              "np.trapz({a}{ax2})", "np.gradient({a}{ax2})", "np.flip({a}{ax1})", "np.roll({a}, 2{ax1})", "np.partition({a}, 0)[..., 0]")
SHAPES = ("({a}).T", "np.ravel({a})", "({a}).reshape(-1)", "({a})[::-1]", "({a})[..., ::2]", "({a})[1:]", "({a})[..., -1]",
          "({a})[None]", "({a})[..., None]", "np.repeat({a}, 2, axis=0)", "np.tile({a}, 2)", "np.stack([{a}, {a} * 2])",
          "np.concatenate([{a}, {a} ** 2])", "np.pad({a}, 1)", "np.atleast_2d({a})", "np.squeeze({a})", "({a}).swapaxes(0, -1)",
          "np.broadcast_to({a}, (2,) + np.shape({a}))", "({a})[np.arange(len({a})) % 2 == 0]", "({a})[[0, -1, 0]]",
          "np.take({a}, [0, -1], axis=-1)", "np.moveaxis({a}, 0, -1)", "np.array([{a}[0], {a}[-1]])", "np.outer({a}, [1.0, {s}])",
          "({a}).flatten('F')", "np.vstack([{a}, {a}])", "np.hstack([{a}, {a}])", "np.expand_dims({a}, 1)", "np.append({a}, {s})",
          "np.array([v * {s} for v in {a}])", "np.delete({a}, 0, axis=0)", "np.insert(np.atleast_1d({a}), 1, {s})", "np.array_split({a}, 2)[0]",
          "np.array({a}.tolist())", "np.column_stack([{a}, {a}])", "np.rot90(np.atleast_2d({a}))", "np.asarray(list({a}))",
          "np.meshgrid({a}, [1.0, 2.0])[0]", "np.resize({a}, 7)", "np.kron({a}, [1.0, {s}])", "np.pad({a}, 1, mode='edge')",
          "np.transpose({a})[..., :2]", "np.split({a}, [1])[1]", "({a})[tuple(np.nonzero(np.ones(np.shape({a}))))]",
          "np.lib.stride_tricks.sliding_window_view({a}, 2, axis=0)", "np.diag({a})", "np.triu(np.atleast_2d({a}))",
          "np.compress([True, False], {a}, axis=0)", "np.fliplr(np.atleast_2d({a}))", "np.einsum('i...->...i', {a})")
PRODUCTS = ("{a} @ {b}", "np.dot({a}, {b})", "np.outer({a}, {b})", "({a}).T @ {a}", "np.einsum('...i,...i->...', {a}, {b})",
            "np.tensordot({a}, {b}, 1)", "np.inner({a}, {b})", "np.cross({a}, {b})", "np.vdot({a}, {b})",
            "np.linalg.solve({a} @ ({a}).T + 3 * np.eye(len({a})), {b})", "np.linalg.inv({a} @ ({a}).T + 3 * np.eye(len({a})))",
            "np.linalg.det({a} @ ({a}).T / 4 + np.eye(len({a})))", "np.convolve({a}, {b})", "np.interp({a}, [-2.0, 0.0, 2.0], [0.0, 1.0, {s}])",
            "np.polyval({a}, 0.3 * {b})", "np.linalg.cholesky({a} @ ({a}).T + np.eye(len({a})))", "np.einsum('ij,kj->ik', {a}, {b})",
            "np.trace({a} @ ({a}).T)", "np.correlate({a}, {b}, 'same')", "np.linalg.norm({a} @ {b})", "np.multiply.outer({a}, {b})",
            "np.subtract.outer({a}, {b})", "np.linalg.lstsq(np.vander(np.arange(len({a})), 2), {a}, rcond=None)[0]",
            "np.concatenate([np.ravel({a}), np.ravel({b})])", "np.stack(np.broadcast_arrays({a}, {b}))", "np.cov({a})")
COMPLEX = ("np.abs({a} + 1j * {b})", "(({a} + 1j * {b}) ** 2).imag", "np.exp(1j * {a}).real * {b}", "np.angle(2 + np.abs({a}) + 1j * {b})",
           "np.abs(np.fft.fft({a}))**2", "np.real(np.conj({a} + 2j) * {b})", "np.fft.irfft(np.fft.rfft({a}))", "np.abs(1 / ({a} + 1j))",
           "np.real(np.sqrt({a} + 1j))", "np.imag(np.exp((0.1 + 1j) * {a}))", "np.abs(np.sum({a} * np.exp(1j * {b})))")
STATEMENTS = ("{v} = ({a}).copy(); {v}[0] = {s}", "{v} = ({a}).copy(); {v}[1:] += {a}[:-1]", "{v} = {a} * 1.0; {v} *= {s}",
              "{v} = np.zeros(np.shape({a})); {v}[...] = {a}", "{v} = np.zeros((3,) + np.shape({a})); {v}[1] = {a}; {v}[2] = {a} / 2",
              "{v} = np.eye(3); {v}[0, 1] = np.sum({a})", "{v} = ({a}).copy(); {v}[{v} > {s}] = 1.0",
              "{v} = ({a}).copy(); {v}[{v} < {s}] *= -0.5", "{v} = np.zeros(np.shape({a})); {v}[{a} > {s}] = {a}[{a} > {s}] ** 2",
              "{v} = np.log1p(np.sum(np.atleast_1d({a})[np.atleast_1d({a}) > {s}]) ** 2)", "{v} = ({a}).copy(); {v}.T[0] = -1.5", "{v} = np.empty_like({a}); {v}[:] = 2.0; {v} -= {a}",
              "{v} = ({a}).copy(); np.add.at({v}, [0, 0, -1], {s})", "{v} = np.zeros(4); np.add.at({v}, [0, 1, 1], np.ravel({a})[:3])",
              "{v} = {a} + 0; {v}[::2] = {v}[::2] ** 2", "{v} = [p + {s} for p in {a}]; {v} = np.array({v})",
              "{v} = ({a}).copy(); w = {v}[0:1]; w *= 3; w[...] += {s}", "{v} = np.multiply({a}, 2.0, out=np.zeros(np.shape({a})))",
              "{v} = sum(q * k for k, q in enumerate({a})); {v} = np.atleast_1d({v})", "{v} = ({a}).copy(); {v}[-1], {v}[0] = {v}[0] * 2, {v}[-1] + 1",
              "{v} = 0.0\nfor k in range(3):\n    {v} = np.tanh({v} + {a} * k)", "{v} = ({a}).copy(); {v}[[0, -1]] = {v}[[-1, 0]] * 2",
              "{v} = np.full(np.shape({a}), {s}); {v} /= 1 + {a}**2", "{v}, w = np.divmod({a}, 9.5); {v} = w + {a}",
              "{v} = ({a}).copy(); {v}.reshape(-1)[1] = 0.25", "{v} = np.where(np.any({a} > 0), {a}, -{a})",
              "{v} = np.array([[np.cos({a}[0]), -np.sin({a}[0])], [np.sin({a}[0]), np.cos({a}[0])]])",
              "{v} = ({a}).copy(); {v}[..., 0] -= np.mean({v})", "{v} = ({a}).ravel().copy(); {v}.sort()",
              "{v} = np.ones(5); {v}[1:3] = np.ravel({a})[:2]; {v} = np.cumsum({v})", "{v} = np.array({a}); {v} **= 2",
              "{v} = np.zeros((2, 2)); {v}.flat[:3] = np.ravel({a})[:3]", "{v} = ({a}).copy(); np.copyto({v}, {s}, where=D0[0] > 0)",
              "{v} = np.vectorize(lambda q: q * {s} + 1)({a})", "{v} = np.apply_along_axis(lambda r: r - r.mean(), 0, {a})",
              "{v} = np.arange(4.0); {v}[2:] = np.ravel({a})[-2:]; {v} = {v}[::-1]", "{v} = np.linspace(0, 1, 3); {v} = {v} * np.ravel({a})[0]",
              "{v} = np.nanmax({a}) - {a}", "{v} = ({a}).copy(); {v} += {v}", "{v} = ({a}).copy(); {v}[1:] = {v}[:-1]")  # fmt: skip
#: kinds with their shares
KINDS = ((UNARY, 5), (BINARY, 5), (REDUCTIONS, 4), (SHAPES, 4), (PRODUCTS, 3), (COMPLEX, 1))
DATA = {
    "D0": np.array([0.3, -1.2, 0.8]), "D1": np.arange(6).reshape(2, 3) - 2, "D2": np.array([1, -1, 0, 2]),
    "D3": np.array([[1.5, -0.5], [0.25, 2.0]]), "D4": np.arange(12.0).reshape(3, 4)[:, ::2] / 7, "D5": np.array(1.7),
}  # fmt: skip


class Program:
    """A random program of x, of 3 to 8 unknowns."""

    def __init__(self, seed):
        self.seed, self._random = seed, np.random.default_rng(seed)
        self.x = self._random.uniform(-1.5, 1.5, self._random.integers(3, 9))
        self.values = {"x": self.x}
        self.lines = []
        for _ in range(self._random.integers(3, 12)):
            self._add_line()
        names = [n for n in self.values if n != "x"][-2:] or ["x"]
        self.lines.append("return np.concatenate([x[:1], " + ", ".join(f"np.ravel({n})" for n in names) + "])")
        self.text = "def f(x):\n" + "".join(f"    {part}\n" for line in self.lines for part in line.split("\n"))
        scope = {"np": np, **DATA}
        exec(compile(self.text, "program", "exec"), scope)
        self.function = scope["f"]

    def _operand(self):
        random = self._random
        if random.random() < 0.15:
            return str(random.choice(list(DATA)))
        names = list(self.values)
        return names[int(len(names) * random.random() ** 0.6)]

    def _axes(self, a):
        random, dimensions = self._random, np.ndim(self.values.get(a, DATA.get(a)))
        if dimensions == 0 or random.random() < 0.4:
            return {"ax": "", "ax1": "", "ax2": "", "axis": ""}
        k = int(random.integers(-dimensions, dimensions))
        keeps = random.choice(["", ", keepdims=True"])
        return {"ax": f", axis={k}{keeps}", "ax1": f", axis={k}", "ax2": f", axis={k}", "axis": str(k)}

    def _add_line(self):
        """Adds a statement that takes numbers; tries several."""
        random = self._random
        for _ in range(30):
            a, b, name = self._operand(), self._operand(), f"v{len(self.values)}"
            words = {"a": a, "b": b, "v": name, "s": round(float(random.uniform(-1, 1)), 2), **self._axes(a)}
            if random.random() < 0.3:
                line = STATEMENTS[random.integers(len(STATEMENTS))].format(**words)
            else:
                shares = np.array([s for _, s in KINDS], dtype=float)
                kind = KINDS[random.choice(len(KINDS), p=shares / shares.sum())][0]
                line = f"{name} = " + kind[random.integers(len(kind))].format(**words)
            scope = {"np": np, **DATA, **{n: np.copy(v) if isinstance(v, np.ndarray) else v for n, v in self.values.items()}}
            try:
                with np.errstate(all="ignore"):
                    exec(line, scope)
                value = np.asarray(scope[name])
                if (value.dtype.kind in "fiu" and 0 < value.size <= 40 and value.ndim <= 3 and
                        np.all(np.abs(value) < 1e3)):
                    self.lines.append(line)
                    self.values[name] = scope[name]
                    return
            except Exception:  # not for operands of these shapes
                continue


def numbers(function, x):
    with np.errstate(all="ignore"):
        return np.asarray(function(x.copy()), dtype=float)


def differences(function, x, step):
    """The Jacobian by differences of fourth order."""
    columns = []
    for k in range(x.size):
        h = np.zeros(x.size)
        h[k] = step
        columns.append((8 * (numbers(function, x + h) - numbers(function, x - h)) -
                        (numbers(function, x + 2 * h) - numbers(function, x - 2 * h))) / (12 * step))
    return np.stack(columns, axis=1)


def difference(program):
    """What differs, or None; raises what tracing raises."""
    expected = numbers(program.function, program.x)
    model = model_of(program.function, program.x.copy())
    values = _core.Values(model, {"backend": "cpu"}, False)
    found = values.residuals(program.x)
    if found.shape != expected.shape:
        return f"{found.size} rows for {expected.size}"
    if not np.allclose(found, expected, rtol=1e-9, atol=1e-9):
        return f"values {found} for {expected}"
    derivatives = values.dense_jacobian(program.x)
    with np.errstate(all="ignore"):
        close, far = (differences(program.function, program.x, h) for h in (1e-4, 3e-4))
    # Rows with a kink nearby have no difference to compare with.
    smooth = np.isclose(close, far, rtol=1e-6, atol=1e-7)
    scale = 1 + np.max(np.abs(close), axis=1, keepdims=True, initial=0.0)
    wrong = smooth & ~(np.abs(derivatives - close) <= 2e-6 * scale)
    if np.any(wrong):
        row, column = np.argwhere(wrong)[0]
        return f"derivative {derivatives[row, column]} of row {row} by x[{column}] for {close[row, column]}"
    return None


def run(seeds):
    """Texts of programs that differ, messages of those that are not traced, and the number of others."""
    wrong, untraced, right = [], [], 0
    for seed in seeds:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = Program(seed)
                what = difference(program)
        except (topograd.TracingError, topograd.Error) as error:
            untraced.append(f"{seed}: {error}")
            continue
        except Exception as error:  # what NumPy took
            what = f"{type(error).__name__}: {error}"
        if what is None:
            right += 1
        else:
            wrong.append(f"program {seed}: {what}\n{program.text}")
    return wrong, untraced, right


class RandomPrograms(unittest.TestCase):
    def test_values_and_derivatives_are_numpys(self):
        wrong, untraced, right = run(range(300))
        self.assertFalse(wrong, "\n".join(wrong))
        self.assertLess(len(untraced), 15, "\n".join(untraced))
        self.assertGreater(right, 280)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
        all_wrong, all_untraced, all_right = run(range(first, first + int(sys.argv[1])))
        print("\n".join(all_wrong))
        print("\n".join(all_untraced))
        print(f"{all_right} equal, {len(all_untraced)} not traced, {len(all_wrong)} different")
    else:
        unittest.main()
