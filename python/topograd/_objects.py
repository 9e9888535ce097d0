"""SciPy's rotations and interpolators in traced code: objects with the same names."""
#
# NumPy's stubs do not know that traced arrays implement its functions:
# mypy: disable-error-code="call-overload,arg-type,operator,index,var-annotated"

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np
import scipy.interpolate as interpolate
from scipy.spatial import distance
from scipy.spatial.transform import Rotation

from . import _linear
from ._functions import implements
from ._trace import Trace, TracingError, contains_traced, plain, tracer_of

#: NumPy for traced arrays: its stubs do not know that these implement its functions.
_numpy: Any = np
#: Pieces of a function that is looked up at unknowns: each is a term of a sum in every row.
_MOST_PIECES = 1000


# Interpolation.


def piecewise_polynomial(trace: Trace, x: Any, breaks: np.ndarray, coefficients: np.ndarray,
                         extrapolate: bool = True) -> Any:
    """Σ_k [breaks_k <= x < breaks_k+1] Σ_i c_ik (x - breaks_k)^(n - i): shape of x."""
    if len(breaks) - 1 > _MOST_PIECES:
        raise TracingError(f"a function of more than {_MOST_PIECES} pieces at unknowns cannot be traced")
    at = trace.array(x)[..., np.newaxis]
    inside = _in_pieces(at, breaks)
    step = at - breaks[:-1]
    value: Any = coefficients[0]
    for row in coefficients[1:]:
        value = value * step + row
    found = np.sum(_numpy.where(inside, value, 0.0), axis=-1)
    if extrapolate:
        return found
    outside = np.logical_or(np.less(at[..., 0], breaks[0]), np.greater(at[..., 0], breaks[-1]))
    return _numpy.where(outside, math.nan, found)


def _pieces(spline: Any) -> interpolate.PPoly:
    """Any of SciPy's interpolators of one variable as polynomials in pieces."""
    if isinstance(spline, interpolate.PPoly):
        return spline
    if isinstance(spline, interpolate.BSpline):
        return interpolate.PPoly.from_spline(spline, extrapolate=spline.extrapolate)
    if isinstance(spline, interpolate.UnivariateSpline):
        return interpolate.PPoly.from_spline(spline._eval_args)
    kind = getattr(spline, "_kind", "")
    if kind == "linear":
        slopes = np.diff(spline.y) / np.diff(spline.x)
        return interpolate.PPoly(np.stack([slopes, spline.y[:-1]]), spline.x)
    inner = getattr(spline, "_spline", None)
    if inner is not None:
        return interpolate.PPoly.from_spline((inner.t, inner.c.reshape(len(inner.c), -1)[:, 0], inner.k))
    raise TracingError(f"{type(spline).__name__} of kind {kind!r} cannot be traced")


def _outside(spline: Any) -> tuple[Any, Any] | None:
    """What an interpolator gives below and above its points; None if it extrapolates."""
    if isinstance(spline, interpolate.interp1d) and not spline._extrapolate:
        return spline._fill_value_below, spline._fill_value_above
    ext = getattr(spline, "ext", 0) if isinstance(spline, interpolate.UnivariateSpline) else 0
    if ext in (1, "zeros"):
        return 0.0, 0.0
    if ext not in (0, "extrapolate"):
        raise TracingError(f"a UnivariateSpline with ext={ext!r} cannot be traced")
    return None


def evaluate(trace: Trace, spline: Any, x: Any, derivative: int = 0) -> Any:
    """A spline's values at traced points."""
    outside = _outside(spline)
    if outside is not None:
        pieces = _pieces(spline)
        if np.ndim(pieces.c) > 2 or derivative:
            raise TracingError(f"{type(spline).__name__} of several values that does not extrapolate cannot be traced")
        at = trace.array(x)
        found = _numpy.where(at < pieces.x[0], np.asarray(outside[0]).item(), evaluate(trace, pieces, at))
        return _numpy.where(at > pieces.x[-1], np.asarray(outside[1]).item(), found)
    pieces = _pieces(spline)
    if derivative:
        pieces = pieces.derivative(derivative)
    c = np.asarray(pieces.c)
    breaks = np.asarray(pieces.x)
    used = np.concatenate([np.diff(breaks) > 0, [True]])
    breaks, c = breaks[used], c[:, used[:-1]]
    extrapolate = pieces.extrapolate if isinstance(spline, (interpolate.PPoly, interpolate.BSpline)) else True
    if extrapolate == "periodic":
        period = breaks[-1] - breaks[0]
        x = np.mod(trace.array(x) - breaks[0], period) + breaks[0]
    if c.ndim == 2:
        return piecewise_polynomial(trace, x, breaks, c, bool(extrapolate))
    flat = c.reshape(*c.shape[:2], -1)
    found = [piecewise_polynomial(trace, x, breaks, flat[..., k], bool(extrapolate))
             for k in range(flat.shape[-1])]
    return trace.stack(found, -1).reshape(np.shape(x) + c.shape[2:])


_ONE_VARIABLE = (interpolate.PPoly, interpolate.BSpline, interpolate.UnivariateSpline,
                 interpolate.interp1d)


class Interpolator:
    """An interpolator of SciPy's, which is also evaluated at traced points."""

    def __init__(self, trace: Trace, original: Any) -> None:
        self._trace, self._original = trace, original

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        if not contains_traced(x):
            return self._original(plain(x), *args, **kwargs)
        derivative = args[0] if args else kwargs.get("nu", 0)
        return evaluate(self._trace, self._original, plain(x), int(derivative))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        if name not in ("derivative", "antiderivative"):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            return Interpolator(self._trace, found(*args, **kwargs))

        return call


class _OfTracedValues:
    """An interpolator that is linear in its traced values, at points that are numbers."""

    def __init__(self, kind: type, x: Any, y: Any, position: int, args: tuple, kwargs: dict) -> None:
        self._make = lambda v: kind(*((x, v) if position else (v, x)), *args, **kwargs)
        self._make_bspline = lambda v: kind(x, v, *args, **kwargs)
        self._y = y

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        if contains_traced(x):
            raise TracingError("an interpolator of traced values at traced points cannot be traced")
        points = plain(x)
        return _linear.apply(tracer_of(self._y), lambda v: self._make_bspline(v)(points, *args, **kwargs),
                             plain(self._y))


#: Interpolators whose second argument is what they are linear in.
_LINEAR = (interpolate.CubicSpline, interpolate.BSpline, interpolate.interp1d,
           interpolate.InterpolatedUnivariateSpline)


def _interpolator_class(trace: Trace, kind: type) -> Callable:
    def make(x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        if contains_traced((x, *args, *kwargs.values())):
            raise TracingError(f"{kind.__name__} of places that depend on unknowns cannot be traced")
        x, args, kwargs = plain(x), plain(args), {k: plain(v) for k, v in kwargs.items()}
        if not contains_traced(y):
            return Interpolator(trace, kind(x, plain(y), *args, **kwargs))
        if kind not in _LINEAR:
            raise TracingError(f"{kind.__name__} of values that depend on unknowns cannot be traced")
        return _OfTracedValues(kind, x, y, 1, args, kwargs)

    make.__name__ = kind.__name__
    return make


@implements(interpolate.splev)
def _splev(trace: Trace, x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    if type(tck) in (tuple, list) and contains_traced(tck[1]) and not contains_traced((x, tck[0])):
        t, c, k = tck  # linear in the coefficients, of which FITPACK wants as many as knots
        count = len(t) - k - 1

        def of(coefficients: np.ndarray) -> Any:
            padded = np.concatenate([coefficients[:count], np.zeros(k + 1)])
            return interpolate.splev(x, (t, padded, k), der, ext)

        return _linear.apply(trace, of, c)
    if ext != 0 or contains_traced(tck):
        raise TracingError("scipy.interpolate.splev with these arguments cannot be traced")
    return evaluate(trace, interpolate.BSpline(*tck), x, der)


@implements(interpolate.make_interp_spline)
def _make_interp_spline(trace: Trace, x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    if contains_traced(x):
        raise TracingError("make_interp_spline of places that depend on unknowns cannot be traced")
    return _OfTracedValues(interpolate.make_interp_spline, x, y, 1, args, kwargs)  # type: ignore[arg-type]


# Tables of several variables.


#: Numbers of a table that is looked up at unknowns: each is a term of a sum in every row.
_MOST_IN_TABLE = 1000


def _table_sum(trace: Trace, table: np.ndarray, weights: list[Any]) -> Any:
    """Σ table_ij... w_i(x) v_j(y) ...: weights have the shape of the points and an axis more."""
    if table.size > _MOST_IN_TABLE:
        raise TracingError(f"a table of more than {_MOST_IN_TABLE} numbers at unknowns cannot be traced; leave out "
                           "the numbers that the fit does not reach")
    found: Any = table
    for k, weight in reversed(list(enumerate(weights))):
        w = weight.reshape(*weight.shape[:-1], *(1,) * k, weight.shape[-1])
        found = np.sum(w * found, axis=-1)
    return found


def _in_pieces(at: Any, breaks: np.ndarray) -> Any:
    """Which pieces between ascending breaks values are in; the outer ones go on beyond the ends."""
    lower, upper = breaks[:-1].copy(), breaks[1:].copy()
    lower[0], upper[-1] = -math.inf, math.inf
    return np.logical_and(np.greater_equal(at, lower), np.less(at, upper))


def _hats(trace: Trace, x: Any, grid: np.ndarray) -> Any:
    """Weights of linear interpolation of the values on an ascending grid, and beyond it."""
    at = x[..., np.newaxis]
    inside = _in_pieces(at, grid)
    share = (at - grid[:-1]) / np.diff(grid)
    left, right = _numpy.where(inside, 1.0 - share, 0.0), _numpy.where(inside, share, 0.0)
    none = left[..., :1] * 0.0
    return np.concatenate([left, none], axis=-1) + np.concatenate([none, right], axis=-1)


def _basis(trace: Trace, x: Any, knots: np.ndarray, degree: int, derivative: int) -> Any:
    """B-splines of a degree, or their derivatives, at x, which FITPACK moves between the ends."""
    count = len(knots) - degree - 1
    each = [interpolate.PPoly.from_spline((knots, one, degree)).derivative(derivative) for one in np.eye(count)]
    used = np.diff(each[0].x) > 0
    breaks = np.append(each[0].x[:-1][used], each[0].x[-1])
    c = np.stack([p.c[:, used] for p in each], axis=-1)
    at = np.clip(x, breaks[0], breaks[-1])[..., np.newaxis]
    inside = _in_pieces(at, breaks)
    step = at - breaks[:-1]
    # Of each B-spline a few pieces are not 0.
    most = int(np.any(c != 0, axis=0).sum(axis=0).max(initial=1))
    own = np.argsort(~np.any(c != 0, axis=0), axis=0, kind="stable")[:most].T
    of_own = np.take_along_axis(c, own.T[np.newaxis], 1).swapaxes(1, 2)
    value: Any = of_own[0]
    for row in of_own[1:]:
        value = value * step[..., own] + row
    return np.sum(_numpy.where(inside[..., own], value, 0.0), axis=-1)


class TableInterpolator:
    """RegularGridInterpolator and BivariateSpline of numbers, which are also evaluated at traced points."""

    def __init__(self, trace: Trace, original: Any) -> None:
        self._trace, self._original = trace, original

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        if not contains_traced((x, *args)):
            return self._original(plain(x), *plain(args), **{k: plain(v) for k, v in kwargs.items()})
        if isinstance(self._original, interpolate.BivariateSpline):
            return self._spline(x, *args, **kwargs)
        return self._grid(x, *args, **kwargs)

    def ev(self, x: Any, y: Any, dx: int = 0, dy: int = 0) -> Any:
        """A bivariate spline at points x, y."""
        return self(x, y, dx, dy, False)

    def _grid(self, points: Any, method: Any = None) -> Any:
        made, trace = self._original, self._trace
        count, values = len(made.grid), np.asarray(made.values)
        if (method or made.method) != "linear" or values.ndim != count or values.dtype.kind not in "fiu" or any(
                not np.all(np.diff(g) > 0) for g in made.grid):
            raise TracingError("a RegularGridInterpolator at unknowns can be traced by 'linear', of real numbers on "
                               f"ascending places; this one is by {method or made.method!r}")
        if isinstance(points, tuple):
            x = [trace.array(plain(p)) for p in points]
            x = [c + sum(0.0 * o for o in x) for c in x] if len({c.shape for c in x}) > 1 else x
        else:
            whole = trace.array(plain(points))
            if whole.ndim == 1:
                whole = whole.reshape(-1, count) if count > 1 else whole.reshape(-1, 1)
            x = [whole[..., k] for k in range(count)]
        if len(x) != count:
            raise ValueError(f"The requested sample points xi have dimension {len(x)} but this "
                             f"RegularGridInterpolator has dimension {count}")
        axes = [np.asarray(g, float) for g in made.grid]
        found = _table_sum(trace, values.astype(float), [_hats(trace, c, g) for c, g in zip(x, axes)])
        if made.fill_value is None and not made.bounds_error:
            return found
        # SciPy raises for a point outside if bounds_error is set; a step to there is refused.
        fill = math.nan if made.bounds_error else float(made.fill_value)
        for c, g in zip(x, axes):
            found = _numpy.where(np.logical_or(np.less(c, g[0]), np.greater(c, g[-1])), fill, found)
        return found

    def _spline(self, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Any:
        trace = self._trace
        (tx, ty, c), (kx, ky) = self._original.tck, self._original.degrees
        u, v = trace.array(plain(x)), trace.array(plain(y))
        if grid:
            u, v = u.reshape(-1, 1) + 0.0 * v.reshape(1, -1), 0.0 * u.reshape(-1, 1) + v.reshape(1, -1)
        elif u.shape != v.shape:
            u, v = u + 0.0 * v, 0.0 * u + v
        table = np.asarray(c, float).reshape(len(tx) - kx - 1, len(ty) - ky - 1)
        return _table_sum(trace, table, [_basis(trace, u, tx, kx, dx), _basis(trace, v, ty, ky, dy)])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


_TABLES = (interpolate.RegularGridInterpolator, interpolate.BivariateSpline)


def _table_class(trace: Trace, kind: type) -> Callable:
    def make(*args: Any, **kwargs: Any) -> Any:
        if contains_traced((*args, *kwargs.values())):
            raise TracingError(f"a {kind.__name__} of values that depend on unknowns cannot be traced")
        return TableInterpolator(trace, kind(*plain(args), **{k: plain(v) for k, v in kwargs.items()}))

    make.__name__ = kind.__name__
    return make


@implements(interpolate.interpn)
def _interpn(trace: Trace, points: Any, values: Any, xi: Any, method: str = "linear", bounds_error: bool = True,
             fill_value: Any = math.nan) -> Any:
    if contains_traced((points, values)):
        raise TracingError("scipy.interpolate.interpn of values that depend on unknowns cannot be traced")
    made = interpolate.RegularGridInterpolator(points, values, method, bounds_error, fill_value)
    return TableInterpolator(trace, made)(xi)


# Distances.

_METRICS: dict[str, Callable[[Any], Any]] = {
    "euclidean": lambda d: _numpy.linalg.norm(d, axis=-1),
    "sqeuclidean": lambda d: _numpy.sum(d * d, axis=-1),
    "cityblock": lambda d: _numpy.sum(_numpy.abs(d), axis=-1),
    "chebyshev": lambda d: _numpy.max(_numpy.abs(d), axis=-1),
}


def _metric(metric: Any, kwargs: dict) -> Callable[[Any], Any]:
    if not isinstance(metric, str) or metric not in _METRICS or any(v is not None for v in kwargs.values()):
        raise TracingError(f"distances by {metric!r} cannot be traced; they are by " + ", ".join(_METRICS))
    return _METRICS[metric]


@implements(distance.cdist)
def _cdist(trace: Trace, XA: Any, XB: Any, metric: Any = "euclidean", **kwargs: Any) -> Any:
    measure, a, b = _metric(metric, kwargs), trace.array(XA), trace.array(XB)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError("XA and XB must be 2-dimensional, with the same number of columns.")
    return measure(a[:, None] - b[None])


@implements(distance.pdist)
def _pdist(trace: Trace, X: Any, metric: Any = "euclidean", **kwargs: Any) -> Any:
    measure, a = _metric(metric, kwargs), trace.array(X)
    if a.ndim != 2:
        raise ValueError("A 2-dimensional array must be passed.")
    first, second = np.triu_indices(a.shape[0], 1)
    return measure(a[first] - a[second])


# Rotations.


#: Signs of an inverse quaternion, which differ between versions of SciPy.
_INVERSE = np.sign(Rotation.from_quat([0.5, 0.5, 0.5, 0.5]).inv().as_quat())


def _cross(a: Any, b: Any) -> Any:
    return np.cross(a, b)


class TracedRotation:
    """scipy.spatial.transform.Rotation of traced values: quaternions x, y, z, w, shape (..., 4)."""

    def __init__(self, quaternion: Any) -> None:
        self._q = quaternion
        self.single = np.ndim(quaternion) == 1

    @staticmethod
    def from_quat(quaternion: Any) -> "TracedRotation":
        return TracedRotation(quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True))

    @staticmethod
    def from_rotvec(vector: Any, degrees: bool = False) -> "TracedRotation":
        """By the series of the sine near 0, where the angle has no derivative."""
        vector = vector * (math.pi / 180) if degrees else vector
        square = np.sum(np.square(vector), axis=-1, keepdims=True)
        small = square < 1e-4
        angle = np.sqrt(_numpy.where(small, 1.0, square))
        series = 0.5 - square / 48.0 * (1.0 - square / 80.0 * (1.0 - square / 168.0))
        scale = _numpy.where(small, series, np.sin(0.5 * angle) / angle)
        cosine = 1.0 - square / 8.0 * (1.0 - square / 48.0 * (1.0 - square / 120.0))
        real = _numpy.where(small, cosine, np.cos(0.5 * angle))
        return TracedRotation(np.concatenate([vector * scale, real], axis=-1))

    @staticmethod
    def from_euler(seq: str, angles: Any, degrees: bool = False) -> "TracedRotation":
        angles = angles * (math.pi / 180) if degrees else angles
        if len(seq) == 1:
            angles = angles[..., np.newaxis] if np.ndim(angles) == 0 or np.shape(angles)[-1] != 1 else angles
        found: TracedRotation | None = None
        for k, axis in enumerate(seq.lower()):
            half = 0.5 * angles[..., k]
            zero = half * 0.0
            parts = [zero, zero, zero, np.cos(half)]
            parts["xyz".index(axis)] = np.sin(half)
            one = TracedRotation(np.stack(parts, axis=-1))
            found = one if found is None else found * one if seq.isupper() else one * found
        assert found is not None
        return found

    @staticmethod
    def from_matrix(matrix: Any) -> "TracedRotation":
        """By the largest of four quaternions, as numbers cannot be compared beforehand."""
        m = [[matrix[..., i, j] for j in range(3)] for i in range(3)]
        trace = m[0][0] + m[1][1] + m[2][2]
        rows = []
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            parts = [None] * 4
            parts[i] = 1.0 - trace + 2.0 * m[i][i]
            parts[j], parts[k] = m[j][i] + m[i][j], m[k][i] + m[i][k]
            parts[3] = m[k][j] - m[j][k]
            rows.append(np.stack(parts, axis=-1))
        rows.append(np.stack([m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1], 1.0 + trace], axis=-1))
        choice = [m[0][0], m[1][1], m[2][2], trace]
        best, found = choice[3], rows[3]
        for value, row in zip(choice[:3], rows[:3]):
            found = _numpy.where((value > best)[..., np.newaxis], row, found)
            best = np.maximum(value, best)
        return TracedRotation.from_quat(found)

    def as_quat(self, canonical: bool = False) -> Any:
        return self._q

    def as_matrix(self) -> Any:
        x, y, z, w = (self._q[..., k] for k in range(4))
        rows = [[x * x - y * y - z * z + w * w, 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
                [2.0 * (x * y + z * w), y * y - x * x - z * z + w * w, 2.0 * (y * z - x * w)],
                [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), z * z - x * x - y * y + w * w]]
        return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)

    def as_rotvec(self, degrees: bool = False) -> Any:
        sign = _numpy.where(self._q[..., 3:] < 0, -1.0, 1.0)
        q = self._q * sign
        square = np.sum(np.square(q[..., :3]), axis=-1, keepdims=True)
        small = square < 1e-6
        size = np.sqrt(_numpy.where(small, 1.0, square))
        scale = _numpy.where(small, 2.0 + square * (1.0 / 3.0 + square * 0.15),
                             2.0 * np.arctan2(size, q[..., 3:]) / size)
        found = q[..., :3] * scale
        return found * (180 / math.pi) if degrees else found

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """Angles about three different axes."""
        if len(set(seq.lower())) != 3:
            raise TracingError("as_euler about an axis twice cannot be traced")
        outer = seq.isupper()
        i, j, k = ("xyz".index(a) for a in (seq if outer else seq[::-1]).lower())
        m = self.as_matrix()
        sign = 1.0 if (i, j, k) in ((0, 1, 2), (1, 2, 0), (2, 0, 1)) else -1.0
        first = np.arctan2(-sign * m[..., j, k], m[..., k, k])
        second = np.arcsin(np.clip(sign * m[..., i, k], -1.0, 1.0))
        third = np.arctan2(-sign * m[..., i, j], m[..., i, i])
        found = np.stack([first, second, third] if outer else [third, second, first], axis=-1)
        return found * (180 / math.pi) if degrees else found

    def magnitude(self) -> Any:
        return 2.0 * np.arctan2(np.linalg.norm(self._q[..., :3], axis=-1), np.abs(self._q[..., 3]))

    def inv(self) -> "TracedRotation":
        return TracedRotation(self._q * _INVERSE)

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        matrix, vectors = self.as_matrix(), tracer_of(self._q).array(vectors)
        if inverse:
            matrix = matrix.swapaxes(-1, -2)
        return np.sum(matrix * vectors[..., np.newaxis, :], axis=-1)

    def __mul__(self, other: Any) -> "TracedRotation":
        a, b = self._q, other._q if isinstance(other, TracedRotation) else other.as_quat()
        vector = a[..., 3:] * b[..., :3] + b[..., 3:] * a[..., :3] + _cross(a[..., :3], b[..., :3])
        real = a[..., 3:] * b[..., 3:] - np.sum(a[..., :3] * b[..., :3], axis=-1, keepdims=True)
        return TracedRotation(np.concatenate([vector, real], axis=-1))

    def __rmul__(self, other: Any) -> "TracedRotation":
        return TracedRotation(other.as_quat()) * self

    def __pow__(self, n: Any) -> "TracedRotation":
        return TracedRotation.from_rotvec(self.as_rotvec() * n)

    def __len__(self) -> int:
        return len(self._q)

    def __getitem__(self, key: Any) -> "TracedRotation":
        return TracedRotation(self._q[key])


def _owned(made: Any) -> Any:
    """A Rotation as an OwnRotation: SciPy's methods return their own class since 1.17."""
    if isinstance(made, tuple):
        return tuple(map(_owned, made))
    return OwnRotation(made.as_quat(), normalize=False) if type(made) is Rotation else made


def _returns_own(name: str) -> Any:
    """A method of Rotation whose result is an OwnRotation."""
    original = getattr(Rotation, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _owned(original(self, *args, **kwargs))

    return method


def _makes_own(name: str) -> Any:
    """A function of the class Rotation whose result is an OwnRotation."""
    return staticmethod(lambda *args, **kwargs: _owned(getattr(Rotation, name)(*args, **kwargs)))


def _either(name: str) -> Any:
    def make(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if contains_traced((*args, *kwargs.values())):
            trace = tracer_of((*args, *kwargs.values()))
            arrays = [a if isinstance(a, (str, bool)) else trace.array(a) for a in args]
            named = {k: v if isinstance(v, (str, bool)) else trace.array(v) for k, v in kwargs.items()}
            return getattr(TracedRotation, name)(*arrays, **named)
        return _owned(getattr(Rotation, name)(*plain(args), **{k: plain(v) for k, v in kwargs.items()}))

    return classmethod(make)


class OwnRotation(Rotation):
    """Rotation of numbers, which also turns traced vectors and is multiplied by traced rotations."""

    _topograd_original = Rotation

    from_quat, from_rotvec, from_euler, from_matrix = (
        _either(n) for n in ("from_quat", "from_rotvec", "from_euler", "from_matrix"))

    @classmethod
    def concatenate(cls, rotations: Any) -> Any:
        if not any(isinstance(r, TracedRotation) for r in rotations):
            return _owned(Rotation.concatenate(rotations))
        return TracedRotation(np.concatenate([np.atleast_2d(r.as_quat()) for r in rotations]))

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        if not contains_traced(vectors):
            return super().apply(plain(vectors), inverse)
        matrix = self.as_matrix()
        array = tracer_of(vectors).array(vectors)
        return np.sum((matrix.swapaxes(-1, -2) if inverse else matrix) * array[..., np.newaxis, :], axis=-1)

    def __mul__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, TracedRotation) else _owned(super().__mul__(other))


for _name in ("from_mrp", "identity", "random", "align_vectors"):
    setattr(OwnRotation, _name, _makes_own(_name))
for _name in {"inv", "__pow__", "__getitem__", "reduce", "mean"} & set(dir(Rotation)):
    setattr(OwnRotation, _name, _returns_own(_name))


def own_class(trace: Trace, kind: type) -> Any:
    """What traced code sees for a class of SciPy's, or None."""
    if kind is Rotation:
        return OwnRotation
    if kind.__module__.startswith("scipy.interpolate") and issubclass(kind, _ONE_VARIABLE):
        return _interpolator_class(trace, kind)
    if kind.__module__.startswith("scipy.interpolate") and issubclass(kind, _TABLES):
        return _table_class(trace, kind)
    return None


def own_instance(trace: Trace, value: Any) -> Any:
    """What traced code sees for an object of SciPy's, or None."""
    if type(value) is Rotation:
        return _owned(value)
    if isinstance(value, _ONE_VARIABLE):
        return Interpolator(trace, value)
    if isinstance(value, _TABLES):
        return TableInterpolator(trace, value)
    return None
