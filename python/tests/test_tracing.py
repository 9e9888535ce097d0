"""Traced functions have the values of NumPy's, and derivatives that agree with differences."""

import abc
import copy
import functools
import math
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import scipy.interpolate
import scipy.integrate
import scipy.ndimage
import scipy.signal
import scipy.sparse.linalg
import scipy.spatial
import scipy.stats
from numpy import zeros
from scipy import special

import topograd
from topograd import TracingError, _core
from topograd._least_squares import trace_function

#: NumPy 2.4 has the new name alone.
trapezoid = getattr(np, "trapz", None) or np.trapezoid

RANDOM = np.random.default_rng(1)
NUMBERS = RANDOM.uniform(0.5, 2.0, (4, 3))
PHASES = RANDOM.uniform(-1, 1, 6) + 1j * RANDOM.uniform(0.5, 2, 6)
TIMES = np.linspace(0, 3, 20)
INDICES = np.array([3, 0, 2, 2, 1])


def filled(x):
    f = np.zeros(6)
    f[0] = x[0] * x[1]
    f[1:4] = x[2:5] ** 2
    f[4] += x[5]
    f[5] = f[0] - f[1]
    return f


def overlapping(x):
    f = (3 - x) * x + 1
    f[1:] -= x[:-1]
    f[:-1] -= 2 * x[1:]
    return f


def view_of_a_view(x):
    m = x.reshape(4, 3) * 1.0
    row = m[1]
    row *= 2.0
    m[:, 2] = 5.0 * x[0]
    return (m + row).ravel()


def plate(x):
    u = np.zeros((6, 5))
    u[1:-1, 1:-1] = x.reshape(4, 3)
    return (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]).ravel()


def in_arrays_like_numbers(x):
    f = np.zeros_like(NUMBERS)
    f[1] = x[:3]
    f += np.full_like(NUMBERS, 0.5) * x[3]
    g = np.empty_like(NUMBERS[:, 0])
    g[:] = x[4:8]
    return f * g[:, None] * np.ones_like(NUMBERS)


def as_complex(x):
    return x[:6] + 1j * x[6:]


def filled_complex(x):
    z = np.zeros(6, dtype=complex)
    z[1:4] = as_complex(x)[:3]
    z += np.array([1j * x[0], 2.0, x[1] + 0.5j, 0, 0, 1 - 1j])
    z[0] *= 2j
    return z.view(float)


def into_integers(x):
    f = np.arange(3)
    f[0] = x[0]
    return f


def into_what_numpy_made(x):
    rotation = np.eye(3)
    rotation[:2, :2] = [[np.cos(x[0]), -np.sin(x[0])], [np.sin(x[0]), np.cos(x[0])]]
    of_numbers, steps, copied = np.array([1.0, 2.0, 3.0]), np.linspace(0, 1, 3), NUMBERS.copy()
    of_numbers[1] = x[1]
    steps[::-2] += x[2:4]
    copied[1:3, ::2] *= x[4:6]
    diagonal = np.diag([1.0, 2.0, 3.0])
    diagonal[2] = x[6] * diagonal[0] + rotation[1]
    tiled = np.tile(of_numbers, 2).reshape(2, 3)
    tiled.T[0] = x[7:9]
    from_product = NUMBERS[0] * 2
    from_product[0] -= x[9]
    return np.concatenate([rotation.ravel(), of_numbers, steps, copied.ravel(), diagonal.ravel(),
                           tiled.ravel(), from_product])


def through_a_view(x):
    whole = np.zeros((3, 4))
    row, last = whole[1], whole[:, -1]
    whole[0, 0] = x[0]
    row[1:3] = x[1:3]
    last[::-1] = x[3:6]
    return whole


def numbers_that_were_read(x):
    f = x * 1.0
    before, unknown = f[0], x[1]
    f[0] = x[2]
    between = f[0]
    f[:2] = x[3:5]
    return np.array([before, between, f[0], unknown])


def numbers_that_are_replaced(x):
    a, total, box = x[0], np.sum(x), np.array(x[5])
    b, c, same = a, total, box
    a += x[1]
    a -= 0.25
    c *= 2
    c /= 3.0
    box += 1.0
    g = x * 1.0
    g[0] = a
    h = g[0]
    h **= 2
    return np.array([a, b, total, c, same, a - 1, 1 - a, 2 / a, a / 2, b * a, -a, 2.0**a, a % 0.3, g[0], h,
                     NUMBERS[0, 0] * a, a * NUMBERS[1, 1], x[np.int64(2)], x[-1], (a < b) * x[3],
                     (3 >= a) * x[4], (a == b) * 1.0, np.float64(3) - g[-2]])


def filled_by_two_indices(x):
    c = np.zeros((4, 3))
    c[0] = x[:3]
    for i in range(3):
        a, b, d = c[i]
        c[i + 1, 0] = a - 0.1 * x[3] * a
        c[i + 1, -2] = b + c[i + 1, 0]
        c[i + 1][2] = d * x[4] + c[-4, 1]
    with_numbers = np.arange(4.0)
    with_numbers[-1] = x[5]
    with_numbers[0] = 2.5
    return np.concatenate([c[::2].ravel(), with_numbers])


class Curve:
    """Methods, a property, attributes of every kind, and a helper."""

    scale = np.array([2.0, 3.0])

    def __init__(self, amplitude):
        self.amplitude, self.helper, self.calls = amplitude, halves, 0

    @property
    def first(self):
        return self.scale[0]

    @staticmethod
    def filled(n, value):
        out = np.zeros(n)
        out[:] = value
        return out

    def __call__(self, x):
        self.calls += 1
        return self.filled(3, self.amplitude * x[0]) * self.helper(x)[:3] * self.first


class Abstract(abc.ABC):
    """A class with slots, and attributes that are looked up by the class."""

    __slots__ = ("table",)

    @classmethod
    def make(cls):
        made = cls()
        made.table = {"rate": 0.5}
        return made

    def __getattr__(self, name):
        if name == "table":
            raise AttributeError(name)
        return self.table[name]

    @abc.abstractmethod
    def values(self, x): ...


class Concrete(Abstract):
    def values(self, x):
        out = np.empty(3)
        for k in range(3):
            out[k] = copy.copy(x)[k] * math.exp(-self.rate * x[k + 1])
        return out + np.fromiter((v * v for v in copy.deepcopy(x[:3])), float)


CONCRETE = Concrete.make()


class Damped(Curve):
    def __call__(self, x):
        return super().__call__(x) * math.exp(-x[1]) if isinstance(x, np.ndarray) else np.full(3, np.nan)


def halves(x):
    out = zeros(6)
    for k in range(6):
        out[k] = 0.5 * x[k]
    return out


def decorated(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args) + 1.0

    return call


@decorated
def of_numbers_of_python(x):
    import numpy as own

    f = own.empty(5)
    f[0] = math.sin(x[0]) + math.log(x[1], 2) + math.hypot(x[2], 3)
    f[1] = float(x[3]) + max(x[4], 0.9, x[5]) + min(x[0], 1)
    f[2] = abs(complex(x[6], x[7]))
    f[3:] = own.vectorize(lambda v: v * v + 1)(x[8:10])
    return np.r_[f, x[:2], 1.0, 0:3] * np.c_[x[:11], np.ones(11)].sum(axis=1)


def m43(x):
    return x.reshape(4, 3)


CURVE = Curve(1.5)
CURVES = {"damped": Damped(0.5)}
POINTS = np.random.default_rng(3).uniform(0, 3, (20, 2))
GRID = np.linspace(0.5, 3, 6)
MATRIX = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])

# Of numbers alone: what traced functions compute beside the unknowns.
OF_NUMBERS = {
    "normal": lambda: np.random.default_rng(0).normal(size=6),
    "multivariate normal": lambda: np.random.default_rng(0).multivariate_normal(np.zeros(3), MATRIX),
    "seeded": lambda: (np.random.seed(0), np.random.rand(6))[1],
    "shuffled": lambda: (lambda z: (np.random.RandomState(0).shuffle(z), z)[1])(GRID.copy()),
    "rvs": lambda: scipy.stats.norm.rvs(size=6, random_state=0),
    "spline": lambda: scipy.interpolate.CubicSpline(GRID, GRID**2)(GRID + 0.01),
    "griddata": lambda: scipy.interpolate.griddata(POINTS, np.arange(20.0), np.c_[GRID, GRID], fill_value=0.0),
    "Delaunay": lambda: scipy.spatial.Delaunay(POINTS).simplices[:2].ravel() * 1.0,
    "tree": lambda: scipy.spatial.cKDTree(GRID[:, None]).query(GRID[:, None] + 0.1)[0],
    "rotation": lambda: scipy.spatial.transform.Rotation.align_vectors(np.eye(3), np.eye(3))[0].as_rotvec(),
    "filter": lambda: scipy.ndimage.gaussian_filter(GRID, 1.0),
    "hilbert": lambda: np.abs(scipy.signal.hilbert(GRID)),
    "sparse": lambda: scipy.sparse.csr_matrix(MATRIX) @ GRID[:3],
    "sparse solve": lambda: scipy.sparse.linalg.spsolve(scipy.sparse.csc_matrix(MATRIX), GRID[:3]),
    "solve_ivp": lambda: scipy.integrate.solve_ivp(lambda t, y: -y, (0, 3), [1.0], t_eval=GRID).y[0],
    "svd": lambda: np.linalg.svd(MATRIX)[1],
    "expm": lambda: scipy.linalg.expm(MATRIX).ravel(),
    "masked": lambda: np.ma.masked_less(GRID, 1).filled(0),
    "in place": lambda: np.add(GRID, 1.0, out=np.zeros(6)),
    "nested fit": lambda: topograd.least_squares(lambda v: v - GRID, GRID * 0).x,
}




def onset(x):
    f = np.zeros_like(TIMES)
    late = TIMES > x[0]
    f[late] = x[1] * np.sqrt(TIMES[late] - x[0]) * np.exp(-(TIMES[late] - x[0]) / x[2])
    return f


def in_parts(x):
    f, high = x * 2, (x > 0.9) & (x < 1.3)
    f[high] *= x[0]
    f[~high] = x[~high] ** 2 - 1
    f[x >= 1.3] -= 0.5
    return f


def flat_parts(x):
    f = np.zeros((3, 4))
    f.flat[2:6] = x[:4] ** 2
    f.flat[::5] += 1.0
    return f.T


# Functions of twelve unknowns, whose results may have any shape.
FUNCTIONS = {
    "elements by a condition": onset,
    "parts by conditions": in_parts,
    "sums by a condition": lambda x: np.sum(x[x > 1]) * x[x > 1].mean() + np.max(x[x < 1] * 2),
    "flat elements": flat_parts,
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 3)[::2].sum(axis=1),
    "insert along an axis": lambda x: np.insert(m43(x), [1, 3], x[:3], axis=0),
    "insert into a number": lambda x: np.insert(x[:1].reshape(()), 0, x[1:3]),
    "columns of numbers": lambda x: np.column_stack([np.sum(x), np.prod(x)]),
    "flip of a number": lambda x: np.logaddexp(np.flip(np.mean(x) * -0.3), np.mean(x)) + x,
    "arithmetic": lambda x: (x + 2) * (x - 1) / (x * x + 3) - (-x) ** 3,
    "powers of zero": lambda x: x + x**0 + np.float_power(2 * x, 0.0) + ((x + 1j * x) ** 0).real,
    "nonzero elements": lambda x: np.linalg.norm(m43(x) - x[0], ord=0, axis=1) + x[1],
    "powers": lambda x: x**2 + x**0.5 + x**-1 + x**1.7 + 2.0**x + x**x,
    "broadcast": lambda x: m43(x) * NUMBERS + m43(x)[:, :1] - NUMBERS[0],
    "floor_divide": lambda x: x // 0.7 + x % 0.7,
    "functions": lambda x: np.sin(x) + np.cos(x) * np.tan(x) + np.exp(-x) * np.log(x),
    "more functions": lambda x: np.arctan2(x, x[::-1]) + np.hypot(x, 2) + np.log1p(x) + np.cbrt(x),
    "inverse functions": lambda x: np.arcsin(x / 3) + np.arccos(x / 3) + np.arctan(x),
    "hyperbolic": lambda x: np.sinh(x) + np.cosh(x) + np.tanh(x) + np.arcsinh(x),
    "special": lambda x: special.erf(x) + special.expit(x) + special.erfc(x),
    "logaddexp": lambda x: np.logaddexp(x, 2 * x[::-1]) + np.logaddexp2(x, x[::-1]),
    "degrees": lambda x: np.deg2rad(x) + np.rad2deg(x),
    "extremes": lambda x: np.maximum(x, 1.1) + np.minimum(x, x[::-1]) + np.clip(x, 0.8, 1.3),
    "abs and sign": lambda x: np.abs(x - 1) + np.sign(x - 1) + np.copysign(x, x - 1),
    "where": lambda x: np.where(x > 1, x, x**2) + np.where(np.arange(12) % 2 == 0, x, 0.0),
    "logic": lambda x: np.where((x > 0.8) & ~(x > 1.2) | (x < 0.6), 3 * x, x),
    "select": lambda x: np.select([x < 0.8, x < 1.2], [x, x * x], 7 * x),
    "heaviside": lambda x: x * np.heaviside(x - 1, 0.5),
    "nan_to_num": lambda x: np.nan_to_num(x / np.where(np.arange(12) == 3, 0.0, x)),
    "slices": lambda x: x[1:] - x[:-1] + x[::-1][1:],
    "fancy": lambda x: m43(x)[INDICES] * m43(x)[INDICES[::-1], 1][:, None],
    "mask": lambda x: x[np.arange(12) % 3 == 1] ** 2,
    "one with all": lambda x: x[3] * x**2 + np.sin(x[3] - x[::-1]) * NUMBERS[1, 1],
    "sequences": lambda x: np.concatenate([x[::2] * x[1], x[1::2] * x[1], x[5:0:-2] ** 2, x[[7, 4, 1]]]),
    "pairs": lambda x: m43(x)[[0, 1, 2], [2, 1, 0]],
    "newaxis": lambda x: x[:3, None] * x[None, 3:5] + m43(x)[..., 0, np.newaxis][:3],
    "transpose": lambda x: (m43(x).T @ m43(x)) + m43(x).T[:, :3],
    "swapaxes": lambda x: np.moveaxis(x.reshape(2, 3, 2), 0, -1) * x.reshape(3, 2, 2).swapaxes(1, 2),
    "reshape of a view": lambda x: m43(x).T.reshape(6, 2),
    "sum": lambda x: np.sum(m43(x), axis=1) + m43(x).sum(axis=0).sum() + np.sum(x),
    "sum keepdims": lambda x: m43(x) - m43(x).mean(axis=1, keepdims=True),
    "prod": lambda x: np.prod(m43(x), axis=1),
    "var": lambda x: np.array([np.var(x), np.std(x, ddof=1), np.mean(x)]),
    "min and max": lambda x: np.stack([m43(x).max(axis=0), m43(x).min(axis=0)]),
    "cumsum": lambda x: np.cumsum(x),
    "diff": lambda x: np.diff(x, n=2),
    "norm": lambda x: np.linalg.norm(m43(x), axis=1) + np.linalg.norm(x),
    "other norms": lambda x: np.linalg.norm(m43(x), 1, axis=1) * np.linalg.norm(x, np.inf),
    "dot": lambda x: np.dot(m43(x), NUMBERS[0]) + np.dot(x[:3], x[3:6]),
    "matmul": lambda x: NUMBERS @ m43(x)[:3] + m43(x) @ x[:3].reshape(3, 1),
    "matmul of stacks": lambda x: x.reshape(3, 2, 2) @ x.reshape(3, 2, 2)[::-1],
    "cross": lambda x: np.cross(m43(x), m43(x)[::-1]) + np.cross(m43(x), [1.0, 2.0, 3.0]),
    "cross in 2-D": lambda x: np.cross(x.reshape(6, 2), x.reshape(6, 2)[::-1]),
    "einsum": lambda x: np.einsum("ij,kj->ik", m43(x), NUMBERS) + np.einsum("ij,ij", NUMBERS, m43(x)),
    "einsum of stacks": lambda x: np.einsum("nij,nj->ni", x.reshape(3, 2, 2), x[:6].reshape(3, 2)),
    "einsum diagonal": lambda x: np.einsum("ii->i", x[:9].reshape(3, 3)),
    "einsum ellipsis": lambda x: np.einsum("...ij,...j->...i", x.reshape(3, 2, 2), x[:2]),
    "outer": lambda x: np.outer(x[:3], x[3:6]) + np.multiply.outer(x[:3], NUMBERS[0]),
    "inner": lambda x: np.inner(m43(x), NUMBERS) + np.tensordot(m43(x), NUMBERS, ([1], [1])),
    "det and inv": lambda x: np.linalg.det(x[:9].reshape(3, 3)) * np.linalg.inv(x[:4].reshape(2, 2)),
    "solve": lambda x: np.linalg.solve(x[:9].reshape(3, 3) + 3 * np.eye(3), x[9:]),
    "trace": lambda x: np.trace(x[:9].reshape(3, 3)) * np.diag(x[:9].reshape(3, 3)),
    "stack": lambda x: np.stack([x[:4], x[4:8] ** 2, NUMBERS[:, 0]], axis=-1),
    "concatenate": lambda x: np.concatenate([x[:2], [1.0], np.sin(x[2:4])]),
    "stacks": lambda x: np.hstack([np.vstack([x[:3], x[3:6]]), np.column_stack([x[:2], x[2:4]])]),
    "array of scalars": lambda x: np.array([x[0] * x[1], 10 * (x[2] - x[3] ** 2), 3.0, -x[4]]),
    "list": lambda x: [x[0] - 1, math.pi * x[1] ** 2],
    "loop": lambda x: np.array([a * b for a, b in zip(x, x[1:])]),
    "unpacking": lambda x: (lambda a, b, *_: np.array([a + b, a * b]))(*x),
    "filled": filled,
    "into what NumPy made": into_what_numpy_made,
    "through a view": through_a_view,
    "numbers that were read": numbers_that_were_read,
    "objects": lambda x: Curve(x[2])(x) + CURVE(x) + CURVES["damped"](x),
    "classes": lambda x: Concrete.make().values(x) * CONCRETE.values(x[3:]),
    "partial": functools.partial(lambda n, x: np.full(n, x[0]) * halves(x)[:n], 4),
    "decorated": of_numbers_of_python,
    "overlapping": overlapping,
    "view of a view": view_of_a_view,
    "plate": plate,
    "repeat": lambda x: np.repeat(x[:3], 2) * np.tile(x[3:5], 3),
    "roll": lambda x: np.roll(x, 1) - np.flip(x),
    "polyval": lambda x: np.polyval(x[:4], np.linspace(0, 1, 5)) + np.polyval([1.0, 2.0], x[:5]),
    "meshgrid": lambda x: np.meshgrid(x[:3], x[3:5])[0] * np.meshgrid(x[:3], x[3:5])[1],
    "interp": lambda x: np.interp(np.linspace(-0.5, 6.5, 20), np.arange(6.0), x[:6], right=7.0),
    "interp of unknowns": lambda x: np.interp(3 * x - 1, np.array([0.0, 0.4, 1.1, 2.3]),
                                              np.array([1.0, -2.0, 0.5, 4.0]), left=-1.0),
    "interp of both": lambda x: np.interp(x[:5], np.array([0.2, 0.9, 1.6]), x[5:8]),
    "trapz": lambda x: trapezoid(m43(x), np.array([0.0, 0.5, 2.0])) + trapezoid(m43(x), x[:4], axis=0)[0],
    "gradient": lambda x: np.gradient(x, 0.5) + np.gradient(x, np.arange(12.0) ** 1.5),
    "gradient of a plane": lambda x: np.stack(np.gradient(m43(x))) + np.gradient(m43(x), axis=1),
    "convolve": lambda x: np.convolve(x, NUMBERS[0], "same") + np.convolve(x[:3], x, "same"),
    "convolve, ends": lambda x: np.concatenate([np.convolve(x, x[:2]), np.convolve(x[:4], x, "valid")]),
    "vander": lambda x: np.vander(x, 4) * np.vander(x, 4, increasing=True),
    "linspace": lambda x: np.linspace(x[0], x[1], 5) * np.linspace(0, x[2], 5, endpoint=False),
    "piecewise": lambda x: np.piecewise(x, [x < 0.8, x > 1.2], [lambda v: v**2, 3.0, lambda v: -v]),
    "piecewise of numbers": lambda x: np.piecewise(
        NUMBERS[:, 0], [NUMBERS[:, 0] < 1.2], [lambda v: v * x[0], lambda v: x[1] - v]),
    "like numbers": in_arrays_like_numbers,
    "complex products": lambda x: (as_complex(x) * as_complex(x)[::-1] / (as_complex(x) + PHASES)).view(float),
    "complex functions": lambda x: (np.exp(1j * x) + np.sqrt(x[::-1] - 1j * x) + np.log(x + 2j)).view(float),
    "complex sines": lambda x: (np.sin(as_complex(x)) * np.cosh(as_complex(x)) - np.cos(1j * x[:6])
                                + np.sinh(as_complex(x))).view(float),
    "complex powers": lambda x: (as_complex(x)**3 + as_complex(x)**-1 + as_complex(x)**0.7
                                 + 2.0**as_complex(x)).view(float),
    "complex sizes": lambda x: np.concatenate([np.abs(as_complex(x)), np.angle(as_complex(x)),
                                               np.angle(as_complex(x), deg=True)]),
    "complex parts": lambda x: np.concatenate([(x * PHASES[0]).real, np.imag(PHASES * as_complex(x)),
                                               np.real(as_complex(x).conj()), x[:2].imag]),
    "complex sums": lambda x: np.hstack([(as_complex(x).sum() * PHASES).view(float),
                                         np.mean(as_complex(x).reshape(2, 3), axis=0).view(float)]),
    "complex joins": lambda x: np.abs(np.concatenate([as_complex(x), x[:2], PHASES])),
    "complex matrices": lambda x: (PHASES.reshape(2, 3) @ as_complex(x).reshape(3, 2)
                                   - NUMBERS[:2, :2] @ as_complex(x)[:4].reshape(2, 2)).ravel().view(float),
    "complex norm": lambda x: np.linalg.norm(as_complex(x).reshape(2, 3), axis=1),
    "complex choice": lambda x: np.abs(np.where(x[:6] > 1, as_complex(x), PHASES)),
    "complex from real": lambda x: (x.astype(complex) * (1 + 2j)).view(float),
    "filled complex": filled_complex,
    "numbers that are replaced": numbers_that_are_replaced,
    "filled by two indices": filled_by_two_indices,
    "zeros_like": lambda x: np.zeros_like(x) + np.ones_like(x) * x + np.full_like(x, 2.0),
    "split": lambda x: np.split(x, 3)[1] * np.array_split(x, 3)[2],
    "fixed rows": lambda x: np.array([x[0], 5.0, x[1], -2.0]),
    "scalar": lambda x: np.sum(x**2),
}


def model_of(function, x):
    trace, rows = trace_function(lambda x: np.ravel(np.asarray(function(x))), x.size, 1.0, (), {})
    return trace.model(rows, x, None, True)


def jacobian(values, model, x):
    numbers, columns, starts = values.jacobian(x)
    dense = np.zeros((model.row_count(), x.size))
    for row in range(model.row_count()):
        for k in range(starts[row], starts[row + 1]):
            dense[row, columns[k]] += numbers[k]
    return dense


class Tracing(unittest.TestCase):
    def test_values_and_derivatives(self):
        for name, function in FUNCTIONS.items():
            with self.subTest(name):
                x = np.random.default_rng(7).uniform(0.5, 1.5, 12)
                start = x.copy()
                model = model_of(function, x)
                values = _core.Values(model, {"backend": "cpu"}, False)
                for shift in (0.0, 0.03):
                    at = start + shift
                    expected = np.ravel(np.asarray(function(at), dtype=float))
                    np.testing.assert_allclose(values.residuals(at), expected, 1e-12, 1e-12)
                steps = 1e-6 * np.eye(12)
                differences = np.stack(
                    [(np.ravel(np.asarray(function(start + h), dtype=float)) -
                      np.ravel(np.asarray(function(start - h), dtype=float))) / 2e-6
                     for h in steps], axis=1)
                np.testing.assert_allclose(
                    jacobian(values, model, start), differences, 2e-6, 2e-6)

    def test_equal_rows_are_one_topology(self):
        cases = {
            "springs": (lambda x: np.linalg.norm(m43(x)[INDICES] - m43(x)[INDICES - 1], axis=1), 1),
            "scalars": (lambda x: np.array([x[k] * x[k + 1] - 0.3 * k for k in range(11)]), 1),
            "two kinds": (lambda x: np.concatenate([np.sin(x), np.cos(x)]), 2),
            "differences": (lambda x: m43(x)[1:] - m43(x)[:-1], 1),
        }
        for name, (function, topologies) in cases.items():
            with self.subTest(name):
                sizes = model_of(function, np.linspace(0.5, 1.5, 12)).sizes()
                self.assertEqual(sizes["topologies"], topologies)

    def test_rows_that_share_blocks_are_joined(self):
        def image(x):
            camera, points = x[:3], x[3:].reshape(3, 3)
            shifted = points[[0, 1, 2, 1]] - camera
            return (shifted[:, :2] / shifted[:, 2:]).ravel()

        sizes = model_of(image, np.linspace(1.0, 3.0, 12)).sizes()
        self.assertEqual((sizes["blocks"], sizes["rows"]), (4, 8))
        self.assertEqual(sizes["arrays"], [(1, 3), (3, 3)])

    def test_what_cannot_be_traced_is_named(self):
        def branch(x):
            if x[0] > 0:
                return x
            return -x

        cases = {
            "branch": (branch, "a branch on a value", "branch()"),
            "float": (lambda x: np.float32(x[0]) * x, "float() of a traced value", "<lambda>"),
            "mathematics": (lambda x: np.array([math.perm(x[0], 2)]), "math.perm cannot", "<lambda>"),
            "whole numbers": (into_integers, "in an array of integers", "into_integers()"),
            "integer": (lambda x: x * int(x[0]), "as an integer", "test_tracing.py"),
            "function": (lambda x: np.linalg.svd(x.reshape(4, 3))[1], "np.linalg.svd",
                         "of test_tracing.py, in <lambda>()"),
            "complex": (lambda x: 1j * x, "complex numbers where real ones are needed", "<lambda>"),
            "complex function": (lambda x: np.arcsin(1j * x), "np.arcsin of complex", "<lambda>"),
            "special": (lambda x: special.airy(x)[0], "scipy.special.airy cannot", "<lambda>"),
            "inverse": (lambda x: np.linalg.inv(np.eye(30) * x[0]), "np.linalg.inv of matrices above 24",
                        "<lambda>"),
            "many points": (lambda x: np.interp(x, np.arange(100.0), x[0] * np.arange(100.0)),
                            "between more than 64 unknowns", "test_tracing.py"),
            "long sort": (lambda x: np.sort(np.outer(x, x).ravel()), "sorting more than 128", "<lambda>"),
            "index": (lambda x: NUMBERS[x[:2]], "cannot be traced", "line "),
            "mask": (lambda x: x[x > 1], "elements that a condition on unknowns chooses", "<lambda>"),
            "two masks": (lambda x: np.sum(x[x > 1] * x[x < 1]), "different conditions", "<lambda>"),
            "a part of a mask": (lambda x: x[x > 1][0] * x, "some of the elements", "<lambda>"),
            "the size of a mask": (lambda x: len(x[x > 1]) * x, "the number of elements", "<lambda>"),
            "a mask of rows": (lambda x: m43(x)[m43(x)[:, 0] > 1], "of another shape", "<lambda>"),
        }
        for name, (function, what, where) in cases.items():
            with self.subTest(name):
                with self.assertRaises((TracingError, IndexError)) as raised:
                    trace_function(function, 12, 1.0, (), {})
                if isinstance(raised.exception, TracingError):
                    self.assertIn(what, str(raised.exception))
                    self.assertIn(where, str(raised.exception))

    def test_types_that_drop_fractions_are_refused(self):
        for name, f in (("sum", lambda x: np.atleast_1d(np.sum(x, dtype=int))),
                        ("mean", lambda x: np.atleast_1d(np.mean(x, dtype=np.int32))),
                        ("cumsum", lambda x: np.cumsum(x, dtype=int)),
                        ("multiply", lambda x: np.multiply(x, 2, dtype=int, casting="unsafe")),
                        ("add", lambda x: np.atleast_1d(np.add.reduce(x, dtype=int)))):
            with self.assertRaisesRegex(topograd.TracingError, f"{name}.*drops fractions.*leave dtype out"):
                topograd.least_squares(f, [1.3, 2.7], options={"fallback": False})
        for f in (lambda x: np.atleast_1d(np.sum(x, dtype=float)) - 1,
                  lambda x: x * np.sum(x > 1, dtype=int) - 1):
            self.assertTrue(topograd.least_squares(f, [1.3, 2.7], options={"fallback": False}).success)

    def test_smooth_functions_at_ties(self):
        # Points, slopes by both operands.
        rows = [((2.0, 2.0), (0.5, 0.5)), ((0.0, -40.0), (1.0, None)), ((1e300, 1e300), (0.5, 0.5))]
        for function, base in ((np.logaddexp, math.e), (np.logaddexp2, 2.0)):
            for at, slopes in rows:
                problem = topograd.Problem()
                x = problem.parameters(np.array(at))
                problem.residuals(function(x[0:1], x[1:2]))
                found = problem.jacobian().toarray()[0]
                small = base ** -40.0 / (1 + base**-40.0)
                want = [small if slope is None else slope for slope in slopes]
                np.testing.assert_allclose(found, want, rtol=1e-11, err_msg=f"{function} at {at}")
                np.testing.assert_allclose(problem.evaluate(), function(*at), rtol=1e-14)
        for slopes, f in (((0.0, 0.0), lambda x: np.linalg.norm(x, keepdims=True)),
                          ((0.5, 0.5), lambda x: np.maximum(x[0:1], x[1:2])),
                          ((1.0, 0.0), lambda x: np.maximum(x[0:1], 0) + np.minimum(x[0:1], 0))):
            problem = topograd.Problem()
            problem.residuals(f(problem.parameters(np.zeros(2))))
            np.testing.assert_array_equal(problem.jacobian().toarray()[0], slopes)

    def test_numbers_beside_the_unknowns_are_numpys(self):
        for name, function in OF_NUMBERS.items():
            with self.subTest(name):
                expected = np.asarray(function(), dtype=float)
                problem = topograd.Problem()
                x = problem.parameters(np.array([2.0]))
                problem.residuals(lambda v: v[0] * np.asarray(function(), float), x)
                np.testing.assert_allclose(problem.evaluate(), 2.0 * expected, 1e-14)
                self.assertIs(type(function()), np.ndarray)

    def test_nothing_outside_is_replaced(self):
        before = {name: getattr(np, name) for name in dir(np)}
        seen = []

        def function(x):
            import lazily_imported

            own = lazily_imported.design(2)
            seen.append(np.zeros is before["zeros"])  # a copy of the list: this one stays empty
            own[0, 0] = x[0]
            return own.ravel()[:2]

        with tempfile.TemporaryDirectory() as folder:
            module = pathlib.Path(folder, "lazily_imported.py")
            module.write_text("from numpy import zeros\ndef design(n): return zeros((n, 2))\n")
            sys.path.insert(0, folder)
            try:
                trace, rows = trace_function(function, 2, 1.0, (), {})
            finally:
                sys.path.remove(folder)
        self.assertEqual(rows.shape, (2,))
        lazily_imported = sys.modules.pop("lazily_imported")
        self.assertIs(lazily_imported.zeros, before["zeros"])
        self.assertIs(type(lazily_imported.design(2)), np.ndarray)
        for name, member in before.items():
            self.assertIs(getattr(np, name), member)
        self.assertEqual(seen, [])

    def test_the_users_objects_stay_as_they_are(self):
        curve, data, log = Damped(0.5), np.arange(3.0), {}

        def function(x):
            out = np.asarray(curve(x))
            out[0] = data[0] * x[0]
            log["last"] = out
            return out

        trace_function(function, 12, 1.0, (), {})
        self.assertEqual((type(curve), curve.calls, log), (Damped, 0, {}))
        np.testing.assert_array_equal(data, np.arange(3.0))
        self.assertIs(Damped.__call__.__globals__, globals())

    def test_nodes_of_no_graph_are_refused(self):
        graph = _core.Graph()
        calls = {
            "unknowns_of": (2,), "share": (0,), "loss": (5,), "model": (1, np.zeros(1), [], None, False),
            "repeat": (7, 2, [], []), "copy": (0, 0, [], [3]),
        }
        for name, arguments in calls.items():
            with self.subTest(name), self.assertRaises(topograd.ArgumentError):
                getattr(graph, name)(*arguments)
        source, stand_in = graph.unknowns(0, 4), graph.numbers(np.zeros(2))
        with self.assertRaisesRegex(topograd.ArgumentError, "index out of range"):
            graph.repeat(stand_in, 3, [(stand_in, source, 0, 2)], [])

    def test_shapes_that_do_not_fit(self):
        with self.assertRaises(ValueError):
            trace_function(lambda x: x[:3] + x[:4], 12, 1.0, (), {})


if __name__ == "__main__":
    unittest.main()
