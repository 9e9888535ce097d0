"""Linear algebra on traced matrices."""
#
# NumPy's stubs do not know that traced arrays implement its functions:
# mypy: disable-error-code="call-overload,arg-type,operator,index,var-annotated"

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg

from ._complex import COMPLEX_FUNCTIONS, as_complex
from ._functions import implements
from ._trace import Array, Trace, TracingError
from ._ufuncs import reduce

#: NumPy for traced arrays: its stubs do not know that these implement its functions.
_numpy: Any = np
#: Rows of matrices that are factorised: every number of a factor is an expression.
_MOST_ROWS = 24


def _square(trace: Trace, a: Any, name: str) -> Array:
    m = trace.array(a)
    if m.ndim < 2 or m.shape[-1] != m.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    if m.shape[-1] > _MOST_ROWS:
        raise TracingError(f"{name} of matrices above {_MOST_ROWS} x {_MOST_ROWS} cannot be traced")
    return m


def _elements(m: Array) -> list[list[Any]]:
    return [[m[..., i, j] for j in range(m.shape[-1])] for i in range(m.shape[-2])]


def _matrix(trace: Trace, rows: list[list[Any]]) -> Array:
    shape = np.broadcast_shapes(*[np.shape(v) for row in rows for v in row])
    ones = np.ones(shape)
    return trace.stack([trace.stack([trace.array(v) if np.shape(v) == shape else trace.array(v * ones)
                                     for v in row], -1) for row in rows], -2)


@implements(np.linalg.cholesky)
def cholesky(trace: Trace, a: Any) -> Array:
    """L with a = L Lᵀ."""
    m = _elements(_square(trace, a, "np.linalg.cholesky"))
    n = len(m)
    low: list[list[Any]] = [[0.0] * n for _ in range(n)]
    for j in range(n):
        rest = m[j][j]
        for k in range(j):
            rest = rest - np.square(low[j][k])
        low[j][j] = np.sqrt(rest)
        for i in range(j + 1, n):
            rest = m[i][j]
            for k in range(j):
                rest = rest - low[i][k] * low[j][k]
            low[i][j] = rest / low[j][j]
    return _matrix(trace, low)


@implements(scipy.linalg.cholesky)
def _scipys_cholesky(trace: Trace, a: Any, lower: bool = False, **_: Any) -> Array:
    factor = cholesky(trace, a)
    return factor if lower else factor.swapaxes(-1, -2)


@implements(scipy.linalg.cho_factor)
def _cho_factor(trace: Trace, a: Any, lower: bool = False, **_: Any) -> Any:
    return _scipys_cholesky(trace, a, lower), lower


@implements(scipy.linalg.cho_solve)
def _cho_solve(trace: Trace, c_and_lower: Any, b: Any, **_: Any) -> Array:
    factor, lower = c_and_lower
    low = trace.array(factor) if lower else trace.array(factor).swapaxes(-1, -2)
    return _triangular(trace, low.swapaxes(-1, -2), _triangular(trace, low, b, True), False)


def _columns(trace: Trace, b: Any) -> tuple[Array, bool]:
    array = trace.array(b)
    return (array[:, np.newaxis], True) if array.ndim == 1 else (array, False)


def _triangular(trace: Trace, m: Array, b: Any, lower: bool, unit: bool = False) -> Array:
    right, single = _columns(trace, b)
    n = m.shape[-1]
    found: list[Any] = [None] * n
    for i in range(n) if lower else range(n - 1, -1, -1):
        rest = right[..., i, :]
        for k in range(i) if lower else range(i + 1, n):
            rest = rest - m[..., i, k, np.newaxis] * found[k]
        found[i] = rest if unit else rest / m[..., i, i, np.newaxis]
    out = trace.stack(found, -2)
    return out[..., 0] if single else out


@implements(scipy.linalg.solve_triangular)
def _solve_triangular(trace: Trace, a: Any, b: Any, trans: Any = 0, lower: bool = False,
                      unit_diagonal: bool = False, **_: Any) -> Array:
    m = _square(trace, a, "scipy.linalg.solve_triangular")
    if trans in (1, "T", 2, "C"):
        m, lower = m.swapaxes(-1, -2), not lower
    return _triangular(trace, m, b, lower, unit_diagonal)


def _eliminated(trace: Trace, m: Array, right: Array | None) -> tuple[list[Any], Any, list[Any]]:
    """Gauss' elimination with rows exchanged where a pivot is smaller, by selections: pivots, sign of
    the exchanges, and the eliminated rows with their right-hand sides."""
    n = m.shape[-1]
    rows = [[m[..., i, j] for j in range(n)] + ([] if right is None else [
        right[..., i, j] for j in range(right.shape[-1])]) for i in range(n)]
    sign: Any = 1.0
    for j in range(n):
        for i in range(j + 1, n):  # the largest pivot comes up
            swap = np.abs(rows[i][j]) > np.abs(rows[j][j])
            upper = [np.where(swap, b, a) for a, b in zip(rows[j][j:], rows[i][j:])]
            lower = [np.where(swap, a, b) for a, b in zip(rows[j][j:], rows[i][j:])]
            rows[j][j:], rows[i][j:] = upper, lower
            sign = sign * np.where(swap, -1.0, 1.0)
        for i in range(j + 1, n):
            factor = rows[i][j] / rows[j][j]
            rows[i][j + 1:] = [b - factor * a for a, b in zip(rows[j][j + 1:], rows[i][j + 1:])]
    return [rows[k][k] for k in range(n)], sign, rows


def _solved(trace: Trace, m: Array, right: Array) -> Array:
    n = m.shape[-1]
    pivots, _, rows = _eliminated(trace, m, right)
    found: list[list[Any]] = [[] for _ in range(n)]
    for i in range(n - 1, -1, -1):
        for c in range(right.shape[-1]):
            rest = rows[i][n + c]
            for k in range(i + 1, n):
                rest = rest - rows[i][k] * found[k][c]
            found[i].append(rest / pivots[i])
    return _matrix(trace, found)


def solve_large(trace: Trace, a: Any, b: Any) -> Array:
    """np.linalg.solve of matrices above 4 x 4."""
    m = _square(trace, a, "np.linalg.solve")
    right, single = _columns(trace, b)
    out = _solved(trace, m, right)
    return out[..., 0] if single else out


def inverse_large(trace: Trace, a: Any) -> Array:
    """np.linalg.inv of matrices above 4 x 4."""
    m = _square(trace, a, "np.linalg.inv")
    return _solved(trace, m, trace.numbers(np.eye(m.shape[-1])))


def determinant_large(trace: Trace, a: Any) -> Array:
    """np.linalg.det of matrices above 4 x 4."""
    pivots, sign, _ = _eliminated(trace, _square(trace, a, "np.linalg.det"), None)
    out: Any = sign
    for pivot in pivots:
        out = out * pivot
    return out


@implements(np.linalg.slogdet)
def _slogdet(trace: Trace, a: Any) -> Any:
    found = np.linalg.det(trace.array(a))
    return np.sign(found), np.log(np.abs(found))


@implements(np.linalg.matrix_power)
def _matrix_power(trace: Trace, a: Any, n: int) -> Array:
    m = trace.array(a)
    if n < 0:
        m, n = _numpy.linalg.inv(m), -n
    out = trace.numbers(np.broadcast_to(np.eye(m.shape[-1]), m.shape))
    for k in range(n):
        out = m if k == 0 else np.matmul(out, m)
    return out


@implements(np.linalg.multi_dot)
def _multi_dot(trace: Trace, arrays: Any, **_: Any) -> Any:
    out = arrays[0]
    for a in arrays[1:]:
        out = np.matmul(out, a)
    return out


@implements(np.linalg.pinv)
def _pinv(trace: Trace, a: Any, *args: Any, **_: Any) -> Any:
    m = trace.array(a)
    t = m.swapaxes(-1, -2)
    if m.shape[-2] >= m.shape[-1]:
        return np.matmul(_numpy.linalg.inv(np.matmul(t, m)), t)
    return np.matmul(t, _numpy.linalg.inv(np.matmul(m, t)))


@implements(np.linalg.lstsq, scipy.linalg.lstsq)
def _lstsq(trace: Trace, a: Any, b: Any, *args: Any, **_: Any) -> Any:
    """The solution alone is exact: the rank is taken to be full."""
    m, right = trace.array(a), trace.array(b)
    found = np.matmul(_pinv(trace, m), right)
    rest = right - np.matmul(m, found)
    return found, np.sum(np.square(rest), axis=0), min(m.shape), None


def _of_numpys(name: str, theirs: Any) -> None:
    function = getattr(np.linalg, name)

    def call(trace: Trace, *args: Any, **kwargs: Any) -> Any:
        for own in ("overwrite_a", "overwrite_b", "check_finite", "assume_a", "lower", "sym_pos"):
            kwargs.pop(own, None)
        return function(*args, **kwargs)

    implements(theirs)(call)


for _name in ("solve", "inv", "det", "norm", "pinv"):
    _of_numpys(_name, getattr(scipy.linalg, _name))


@implements(scipy.linalg.expm)
def _expm(trace: Trace, a: Any) -> Array:
    """Scaling by 2⁻⁶, eighteen terms, and six squarings."""
    m = _square(trace, a, "scipy.linalg.expm") * 2.0**-6
    out: Any = trace.numbers(np.eye(m.shape[-1]))
    term: Any = out
    for k in range(1, 19):
        term = m if k == 1 else np.matmul(term, m) / float(k)
        out = out + term
    for _ in range(6):
        out = np.matmul(out, out)
    return out


@implements(np.kron)
def _kron(trace: Trace, a: Any, b: Any) -> Array:
    a, b = trace.array(a), trace.array(b)
    axes = max(a.ndim, b.ndim)
    a = a.reshape((1,) * (axes - a.ndim) + a.shape)
    b = b.reshape((1,) * (axes - b.ndim) + b.shape)
    left = a[tuple(v for _ in range(axes) for v in (slice(None), np.newaxis))]
    right = b[tuple(v for _ in range(axes) for v in (np.newaxis, slice(None)))]
    return (left * right).reshape([m * n for m, n in zip(a.shape, b.shape)])


@implements(np.block)
def _block(trace: Trace, arrays: Any) -> Any:
    def depth(value: Any) -> int:
        return 1 + depth(value[0]) if isinstance(value, list) else 0

    def joined(value: Any, level: int) -> Any:
        if not isinstance(value, list):
            array = trace.array(value)
            missing = max(levels - array.ndim, 0)
            return array.reshape((1,) * missing + array.shape)
        return trace.concatenate([joined(v, level - 1) for v in value], -level)

    levels = depth(arrays)
    return joined(arrays, levels)


@implements(scipy.linalg.block_diag)
def _block_diag(trace: Trace, *arrays: Any) -> Array:
    blocks = [_numpy.atleast_2d(trace.array(a)) for a in arrays]
    out = trace.numbers(np.zeros([sum(b.shape[k] for b in blocks) for k in (0, 1)]))
    i = j = 0
    for b in blocks:
        out[i: i + b.shape[0], j: j + b.shape[1]] = b
        i, j = i + b.shape[0], j + b.shape[1]
    return out


@implements(scipy.linalg.toeplitz)
def _toeplitz(trace: Trace, c: Any, r: Any = None) -> Array:
    c = trace.array(c).ravel()
    r = c if r is None else trace.array(r).ravel()
    values = trace.concatenate([c[::-1], r[1:]], 0)
    return values[c.size - 1 - np.arange(c.size)[:, np.newaxis] + np.arange(r.size)]


@implements(scipy.linalg.circulant)
def _circulant(trace: Trace, c: Any) -> Array:
    c = trace.array(c).ravel()
    at = np.arange(c.size)
    return c[(at[:, np.newaxis] - at) % c.size]


def matrix_norm(trace: Trace, array: Array, ord: Any, axes: Any, keepdims: bool) -> Array:
    """Norms of matrices that are sums."""
    if ord in (1, -1, math.inf, -math.inf):
        moved = _numpy.moveaxis(array, axes or (0, 1), (-2, -1))
        sums = reduce(trace, "add", np.abs(moved), -2 if ord in (1, -1) else -1)
        found = reduce(trace, "max" if ord > 0 else "min", sums, -1)
        return found.reshape(found.shape + (1, 1)) if keepdims and axes is None else found
    raise TracingError(f"a matrix norm with ord={ord!r} cannot be traced")


def is_matrix_norm(array: Array, ord: Any, axis: Any) -> bool:
    """True for norms of matrices that are not those of their elements."""
    return ord not in (None, "fro") and (isinstance(axis, tuple) and len(axis) == 2 or
                                         axis is None and array.ndim == 2)


def solve_complex(trace: Trace, a: Any, b: Any) -> Any:
    """np.linalg.solve of complex systems, as a real one of twice the size."""
    m, right = as_complex(trace, a), as_complex(trace, b)
    whole = _numpy.block([[m.real, -m.imag], [m.imag, m.real]])
    found = _numpy.linalg.solve(whole, _numpy.concatenate([right.real, right.imag]))
    n = m.shape[-1]
    return type(m)(found[:n], found[n:])


@implements(np.linalg.norm)
def _norm(trace: Trace, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    array = trace.array(x)
    if array.ndim == 0 and axis is not None:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension 0")
    if is_matrix_norm(array, ord, axis):
        return matrix_norm(trace, array, ord, axis, keepdims)
    if ord in (None, 2, "fro"):
        return np.sqrt(reduce(trace, "add", np.square(array), axis, keepdims))
    if ord == 1:
        return reduce(trace, "add", np.abs(array), axis, keepdims)
    if ord in (math.inf, -math.inf):
        return reduce(trace, "max" if ord > 0 else "min", np.abs(array), axis, keepdims)
    return reduce(trace, "add", np.abs(array) ** ord, axis, keepdims) ** (1.0 / ord)


@implements(np.linalg.det)
def _det(trace: Trace, a: Any) -> Array:
    m = trace.array(a)
    n = m.shape[-1]
    if n == 1:
        return m[..., 0, 0]
    if n > 4:
        return determinant_large(trace, m)
    rest = list(range(n))
    terms: Any = 0.0
    for k in range(n):
        columns = rest[:k] + rest[k + 1:]
        minor = _det(trace, m[..., 1:, :][..., columns])
        term = m[..., 0, k] * minor
        terms = term if k == 0 else terms + term if k % 2 == 0 else terms - term
    return terms


@implements(np.linalg.inv)
def _inv(trace: Trace, a: Any) -> Array:
    m = trace.array(a)
    n = m.shape[-1]
    if n > 4:
        return inverse_large(trace, m)
    rows = []
    for i in range(n):
        row = []
        for j in range(n):
            keep_rows = [k for k in range(n) if k != j]
            keep_columns = [k for k in range(n) if k != i]
            minor = (m[..., keep_rows, :][..., keep_columns] if n > 1 else None)
            cofactor = _det(trace, minor) if n > 1 else m[..., 0, 0] * 0.0 + 1.0
            row.append(cofactor if (i + j) % 2 == 0 else -cofactor)
        rows.append(trace.stack(row, -1))
    return trace.stack(rows, -2) / _det(trace, m)[..., np.newaxis, np.newaxis]


@implements(np.linalg.solve)
def _solve(trace: Trace, a: Any, b: Any) -> Array:
    if np.shape(a)[-1] > 4:
        return solve_large(trace, a, b)
    return _numpy.matmul(_inv(trace, a), trace.array(b))


COMPLEX_FUNCTIONS[np.linalg.solve] = solve_complex
COMPLEX_FUNCTIONS[np.linalg.inv] = lambda trace, a: solve_complex(trace, a, np.eye(np.shape(a)[-1]))
