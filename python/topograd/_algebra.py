"""Linear algebra on traced matrices."""
#
# NumPy's stubs do not know that traced arrays implement its functions:
# mypy: disable-error-code="call-overload,arg-type,operator,index,var-annotated"

from __future__ import annotations

import functools
import itertools
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


def _of_any_size(trace: Trace, a: Any) -> Array:
    m = trace.array(a)
    if m.ndim < 2 or m.shape[-1] != m.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    return m


def _square(trace: Trace, a: Any, name: str) -> Array:
    m = _of_any_size(trace, a)
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


class _Factor:
    """Gauss' elimination of a matrix, on rows, which are exchanged by selections where a pivot is smaller.

    What solves the same matrix again, as the steps of an implicit integrator do, multiplies by its inverse."""

    def __init__(self, m: Array) -> None:
        self.n = n = m.shape[-1]
        rows = [m[..., i, :] for i in range(n)]  # from the pivot's column on
        #: by column: where the rows below are exchanged with the pivot's, and what is subtracted of it
        self.steps: list[tuple[list[Any], list[Any]]] = []
        for j in range(n):
            swaps, factors = [], []
            for i in range(j + 1, n):  # the largest pivot comes up
                swaps.append(np.abs(rows[i][..., :1]) > np.abs(rows[j][..., :1]))
                rows[j], rows[i] = _exchanged(swaps[-1], rows[j], rows[i])
            for i in range(j + 1, n):
                factors.append(rows[i][..., :1] / rows[j][..., :1])
                rows[i] = rows[i][..., 1:] - factors[-1] * rows[j][..., 1:]
            self.steps.append((swaps, factors))
        self.pivots = [row[..., :1] for row in rows]
        self._rows = rows
        self._was_solved = False
        self._inverse: Any = None

    def determinant(self) -> Any:
        out: Any = 1.0
        for swaps, _ in self.steps:
            for swap in swaps:
                out = out * np.where(swap, -1.0, 1.0)
        for pivot in self.pivots:
            out = out * pivot
        return out[..., 0]

    def solve(self, trace: Trace, right: Array) -> Array:
        """The columns of m⁻¹ right."""
        if self._inverse is None and self._was_solved:
            self._inverse = self._solve(trace, trace.numbers(np.eye(self.n)))
        self._was_solved = True
        if self._inverse is None:
            return self._solve(trace, right)
        return np.matmul(self._inverse, right)

    def _solve(self, trace: Trace, right: Array) -> Array:
        n, found = self.n, [None] * self.n
        rest = trace.stack(self._forward([right[..., i, :] for i in range(n)]), -2)
        for k in range(n - 1, -1, -1):
            found[k] = rest[..., k, :] / self.pivots[k]
            if k:
                column = trace.stack([self._rows[i][..., k - i] for i in range(k)], -1)
                rest = rest[..., :k, :] - column[..., np.newaxis] * found[k][..., np.newaxis, :]
        return trace.stack(found, -2)

    def _forward(self, rows: list[Any]) -> list[Any]:
        for j, (swaps, factors) in enumerate(self.steps):
            for i, swap in enumerate(swaps, j + 1):
                rows[j], rows[i] = _exchanged(swap, rows[j], rows[i])
            for i, factor in enumerate(factors, j + 1):
                rows[i] = rows[i] - factor * rows[j]
        return rows


def _exchanged(swap: Any, a: Any, b: Any) -> tuple[Any, Any]:
    return np.where(swap, b, a), np.where(swap, a, b)


def _factor(trace: Trace, m: Array) -> _Factor:
    key = (m._whole_node(), m.shape)
    if key not in trace.factors:
        trace.factors[key] = _Factor(m)
    return trace.factors[key]


def solve_large(trace: Trace, a: Any, b: Any) -> Array:
    """np.linalg.solve of matrices above 4 x 4."""
    m = _square(trace, a, "np.linalg.solve")
    right, single = _columns(trace, b)
    out = _factor(trace, m).solve(trace, right)
    return out[..., 0] if single else out


def inverse_large(trace: Trace, a: Any) -> Array:
    """np.linalg.inv of matrices above 4 x 4."""
    m = _square(trace, a, "np.linalg.inv")
    return _factor(trace, m).solve(trace, trace.numbers(np.eye(m.shape[-1])))


def determinant_large(trace: Trace, a: Any) -> Array:
    """np.linalg.det of matrices above 4 x 4."""
    return _factor(trace, _square(trace, a, "np.linalg.det")).determinant()


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
    if ord == 0:
        return reduce(trace, "add", np.where(array != 0, 1.0, 0.0), axis, keepdims)
    if ord == 1:
        return reduce(trace, "add", np.abs(array), axis, keepdims)
    if ord in (math.inf, -math.inf):
        return reduce(trace, "max" if ord > 0 else "min", np.abs(array), axis, keepdims)
    return reduce(trace, "add", np.abs(array) ** ord, axis, keepdims) ** (1.0 / ord)


@functools.lru_cache(maxsize=None)
def _minor_indices(n: int) -> tuple[np.ndarray, ...]:
    """Of the adjugate of n x n numbers, row by row, n from 2 to 4: signs, and the indices of factors whose
    products are summed with alternating signs. For n = 4 the second factors are minors of two rows."""
    at = np.arange(n * n).reshape(n, n)
    kept = [[k for k in range(n) if k != i] for i in range(n)]
    pairs = list(itertools.combinations(range(n), 2))
    signs, factors = [], []
    for i, j in itertools.product(range(n), repeat=2):
        signs.append((-1.0) ** (i + j))
        rows, columns = kept[j], kept[i]
        if n == 2:
            factors.append([at[rows[0], columns[0]]])
        elif n == 3:
            (p, q), (k, m) = rows, columns
            factors.append([at[p, k], at[q, m], at[p, m], at[q, k]])
        else:  # along the row that is alone among the first or the last two
            row, first = (1 - j, len(pairs)) if j < 2 else (5 - j, 0)
            others = [first + pairs.index((columns[1], columns[2])), first + pairs.index((columns[0], columns[2])),
                      first + pairs.index((columns[0], columns[1]))]
            factors.append([v for k, other in zip(columns, others) for v in (at[row, k], other)])
    return (np.array(signs), *np.array(factors).T.copy())


def _take(trace: Trace, flat: Array, indices: np.ndarray) -> Array:
    """flat[..., indices]."""
    if flat.ndim == 1:
        return trace.wrap(trace.graph.gather(flat._whole_node(), indices), indices.shape)
    return flat[..., indices]


class _Adjugate:
    """Cramer's rule for matrices up to 4 x 4: some operations on whole arrays."""

    def __init__(self, trace: Trace, m: Array) -> None:
        n = m.shape[-1]
        flat = m.reshape(m.shape[:-2] + (n * n,))
        signs, *indices = _minor_indices(n)
        if n == 2:
            found = _take(trace, flat, indices[0])
        elif n == 3:
            a, b, c, d = (_take(trace, flat, p) for p in indices)
            found = a * b - c * d
        else:
            p, q = np.array(list(itertools.combinations(range(4), 2))).T
            a, b, c, d = (_take(trace, flat, np.concatenate([k, k + 8])) for k in (p, q + 4, q, p + 4))
            minors = a * b - c * d
            a, b, c = (_take(trace, flat, indices[k]) * _take(trace, minors, indices[k + 1])
                       for k in (0, 2, 4))
            found = a - b + c
        #: det(m) m⁻¹, and det(m)
        self.adjugate = (found * signs).reshape(m.shape)
        self.determinant = reduce(trace, "add", m[..., 0, :] * self.adjugate[..., :, 0], -1)


def _adjugate(trace: Trace, m: Array) -> _Adjugate:
    key = m._identity()
    if key not in trace.factors:
        trace.factors[key] = _Adjugate(trace, m)
    return trace.factors[key]


@implements(np.linalg.det)
def _det(trace: Trace, a: Any) -> Array:
    m = _of_any_size(trace, a)
    if m.shape[-1] == 1:
        return m[..., 0, 0]
    return determinant_large(trace, m) if m.shape[-1] > 4 else _adjugate(trace, m).determinant


@implements(np.linalg.inv)
def _inv(trace: Trace, a: Any) -> Array:
    m = _of_any_size(trace, a)
    if m.shape[-1] == 1:
        return 1.0 / m
    if m.shape[-1] > 4:
        return inverse_large(trace, m)
    found = _adjugate(trace, m)
    return found.adjugate / found.determinant[..., np.newaxis, np.newaxis]


@implements(np.linalg.solve)
def _solve(trace: Trace, a: Any, b: Any) -> Array:
    m = _of_any_size(trace, a)
    if m.shape[-1] > 4:
        return solve_large(trace, m, b)
    right = trace.array(b)
    if m.shape[-1] == 1:
        return right / (m[..., 0] if right.ndim == 1 else m)
    found = _adjugate(trace, m)
    product = _numpy.matmul(found.adjugate, right)
    under = found.determinant
    return product / (under[..., np.newaxis] if right.ndim == 1 else under[..., np.newaxis, np.newaxis])


COMPLEX_FUNCTIONS[np.linalg.solve] = solve_complex
COMPLEX_FUNCTIONS[np.linalg.inv] = lambda trace, a: solve_complex(trace, a, np.eye(np.shape(a)[-1]))
