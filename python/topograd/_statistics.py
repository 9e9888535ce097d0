"""NumPy's functions of order and statistics, and further ones of shapes, on traced arrays."""
#
# NumPy's stubs do not know that traced arrays implement its functions:
# mypy: disable-error-code="call-overload,arg-type,operator,index,var-annotated"

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from ._functions import implements
from ._trace import Array, Trace, TracingError, contains_traced
from ._ufuncs import accumulate, masked, reduce, select

#: NumPy for traced arrays: its stubs do not know that these implement its functions.
_numpy: Any = np
#: Elements that are sorted: each result is an expression of all of them.
_MOST_SORTED = 128


# Order.


def _exchanges(n: int) -> list[list[tuple[int, int]]]:
    """Rounds of Batcher's merge exchange."""
    rounds = []
    p = 1 << max((n - 1).bit_length() - 1, 0)
    step = p
    while step > 0:
        q, r, d = p, 0, step
        while True:
            rounds.append([(i, i + d) for i in range(n - d) if i & step == r])
            if q == step:
                break
            d, q, r = q - step, q >> 1, step
        step >>= 1
    return rounds


def sort_last(trace: Trace, array: Array) -> Array:
    """Sorted along the last axis, by minima and maxima of pairs."""
    n = array.shape[-1]
    if n > _MOST_SORTED:
        raise TracingError(f"sorting more than {_MOST_SORTED} values cannot be traced")
    out = array.copy()
    for pairs in _exchanges(n) if n > 1 else []:
        i, j = [a for a, _ in pairs], [b for _, b in pairs]
        a, b = out[..., i], out[..., j]
        out[..., i], out[..., j] = np.minimum(a, b), np.maximum(a, b)
    return out


def _along(trace: Trace, a: Any, axis: Any) -> Array:
    """With this axis at the end; all in one for None."""
    array = trace.array(a)
    return array.reshape(-1) if axis is None else _numpy.moveaxis(array, axis, -1)


@implements(np.sort)
def _sort(trace: Trace, a: Any, axis: Any = -1, **_: Any) -> Array:
    found = sort_last(trace, _along(trace, a, axis))
    return found if axis is None else _numpy.moveaxis(found, -1, axis)


@implements(np.partition)
def _partition(trace: Trace, a: Any, kth: Any, axis: Any = -1, **_: Any) -> Array:
    return _sort(trace, a, axis)


@implements(np.quantile)
def _quantile(trace: Trace, a: Any, q: Any, axis: Any = None, out: Any = None,
              overwrite_input: bool = False, method: str = "linear", keepdims: bool = False,
              **kwargs: Any) -> Any:
    if method != "linear" or kwargs or out is not None or isinstance(axis, tuple) or contains_traced(q):
        raise TracingError("np.quantile with these arguments cannot be traced")
    ordered = sort_last(trace, _along(trace, a, axis))
    at = np.asarray(q, dtype=float) * (ordered.shape[-1] - 1)
    below = np.clip(np.floor(at).astype(int), 0, max(ordered.shape[-1] - 2, 0))
    above = np.minimum(below + 1, ordered.shape[-1] - 1)
    found = ordered[..., below] + (ordered[..., above] - ordered[..., below]) * (at - below)
    if at.ndim:
        found = _numpy.moveaxis(found, list(range(-at.ndim, 0)), list(range(at.ndim)))
    if keepdims:
        kept = [1] * np.ndim(a) if axis is None else list(np.shape(a))
        if axis is not None:
            kept[axis] = 1
        return found.reshape(at.shape + tuple(kept))
    return found


@implements(np.percentile)
def _percentile(trace: Trace, a: Any, q: Any, *args: Any, **kwargs: Any) -> Any:
    return _quantile(trace, a, np.asarray(q, dtype=float) / 100.0, *args, **kwargs)


@implements(np.median)
def _median(trace: Trace, a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
            keepdims: bool = False) -> Any:
    return _quantile(trace, a, 0.5, axis, keepdims=keepdims)


@implements(np.ptp)
def _ptp(trace: Trace, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    array = trace.array(a)
    return (reduce(trace, "max", array, axis, keepdims is True) -
            reduce(trace, "min", array, axis, keepdims is True))


# Sums without NaN.


def _without_nan(name: str, op: str) -> Callable:
    def call(trace: Trace, a: Any, axis: Any = None, **kwargs: Any) -> Any:
        array = trace.array(a)
        found = reduce(trace, op, masked(trace, op, array, np.logical_not(np.isnan(array))), axis,
                       kwargs.get("keepdims", False) is True)
        return found

    call.__name__ = name
    return call


for _name, _op in (("nansum", "add"), ("nanprod", "mul"), ("nanmin", "min"), ("nanmax", "max")):
    implements(getattr(np, _name))(_without_nan(_name, _op))
for _name in ("mean", "var", "std"):
    def _nan(trace: Trace, a: Any, *args: Any, _function: Any = getattr(np, _name),
             **kwargs: Any) -> Any:
        array = trace.array(a)
        return _function(array, *args, where=np.logical_not(np.isnan(array)), **kwargs)

    implements(getattr(np, "nan" + _name))(_nan)


@implements(np.cumprod)
def _cumprod(trace: Trace, a: Any, axis: Any = None, **_: Any) -> Array:
    array = trace.array(a)
    return accumulate(trace, np.multiply, array.ravel() if axis is None else array, axis or 0)


@implements(np.nancumprod)
def _nancumprod(trace: Trace, a: Any, axis: Any = None, **_: Any) -> Array:
    return _numpy.cumprod(np.nan_to_num(trace.array(a), nan=1.0), axis=axis)


@implements(np.nancumsum)
def _nancumsum(trace: Trace, a: Any, axis: Any = None, **_: Any) -> Array:
    return _numpy.cumsum(np.nan_to_num(trace.array(a)), axis=axis)


@implements(np.count_nonzero)
def _count_nonzero(trace: Trace, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    counted = select(trace, np.not_equal(trace.array(a), 0.0), 1.0, 0.0)
    return reduce(trace, "add", counted, axis, keepdims)


@implements(np.cov)
def _cov(trace: Trace, m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None,
         fweights: Any = None, aweights: Any = None, **_: Any) -> Array:
    if fweights is not None or aweights is not None:
        raise TracingError("np.cov with weights cannot be traced")
    rows = _numpy.atleast_2d(trace.array(m))
    if not rowvar and rows.shape[0] != 1:
        rows = rows.T
    if y is not None:
        other = _numpy.atleast_2d(trace.array(y))
        rows = trace.concatenate([rows, other if rowvar or other.shape[0] == 1 else other.T], 0)
    centred = rows - np.mean(rows, axis=1, keepdims=True)
    share = rows.shape[1] - ((0 if bias else 1) if ddof is None else ddof)
    return _numpy.squeeze(np.matmul(centred, centred.T) / float(share))


@implements(np.corrcoef)
def _corrcoef(trace: Trace, x: Any, y: Any = None, rowvar: bool = True, **_: Any) -> Array:
    found = _numpy.atleast_2d(_cov(trace, x, y, rowvar))
    sizes = np.sqrt(found.diagonal())
    return _numpy.squeeze(found / sizes[:, np.newaxis] / sizes)


# Functions.


@implements(np.sinc)
def _sinc(trace: Trace, x: Any) -> Array:
    """Its series near 0, where the quotient has no derivatives."""
    angle = trace.array(x) * math.pi
    small = np.less(np.abs(angle), 0.03)
    y, square = select(trace, small, 1.0, angle), np.square(angle)
    series = 1.0 - square / 6.0 * (1.0 - square / 20.0 * (1.0 - square / 42.0 * (1.0 - square / 72.0)))
    return select(trace, small, series, np.sin(y) / y)


@implements(np.unwrap)
def _unwrap(trace: Trace, p: Any, discont: Any = None, axis: int = -1, *,
            period: float = 2 * math.pi) -> Array:
    array = _along(trace, p, axis)
    steps = array[..., 1:] - array[..., :-1]
    half = 0.5 * period
    inside = np.mod(steps + half, period) - half
    inside = select(trace, np.logical_and(np.equal(inside, -half), np.greater(steps, 0.0)), half, inside)
    jumps = select(trace, np.less(np.abs(steps), half if discont is None else discont), 0.0,
                   inside - steps)
    total = _numpy.cumsum(jumps, axis=-1)
    return _numpy.moveaxis(trace.concatenate([array[..., :1], array[..., 1:] + total], -1), -1, axis)


@implements(np.fix)
def _fix(trace: Trace, x: Any, out: Any = None) -> Array:
    return np.trunc(trace.array(x))


@implements(np.angle)
def _angle(trace: Trace, z: Any, deg: bool = False) -> Array:
    found = select(trace, np.less(trace.array(z), 0.0), math.pi, 0.0)
    return found * (180 / math.pi) if deg else found


@implements(np.real_if_close)
def _real_if_close(trace: Trace, a: Any, tol: float = 100) -> Array:
    return trace.array(a)


@implements(np.isclose)
def _isclose(trace: Trace, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8,
             equal_nan: bool = False) -> Array:
    a, b = trace.array(a), trace.array(b)
    return np.logical_or(np.less_equal(np.abs(a - b), atol + rtol * np.abs(b)), np.equal(a, b))


@implements(np.logspace)
def _logspace(trace: Trace, start: Any, stop: Any, num: int = 50, endpoint: bool = True,
              base: Any = 10.0, **kwargs: Any) -> Array:
    return np.power(base, _numpy.linspace(start, stop, num, endpoint, **kwargs))


@implements(np.geomspace)
def _geomspace(trace: Trace, start: Any, stop: Any, num: int = 50, endpoint: bool = True,
               **kwargs: Any) -> Array:
    return np.exp(_numpy.linspace(np.log(start), np.log(stop), num, endpoint, **kwargs))


# Parts.


@implements(np.insert)
def _insert(trace: Trace, arr: Any, obj: Any, values: Any, axis: Any = None) -> Array:
    array, added = trace.array(arr), trace.array(values)
    order = np.arange(array.size + added.size)
    own, new = order[: array.size].reshape(array.shape), order[array.size:].reshape(added.shape)
    return trace.concatenate([array.reshape(-1), added.reshape(-1)], 0)[np.insert(own, obj, new, axis)]


@implements(np.compress)
def _compress(trace: Trace, condition: Any, a: Any, axis: Any = None, out: Any = None) -> Array:
    if contains_traced(condition):
        raise TracingError("np.compress by values that depend on unknowns cannot be traced")
    return _numpy.take(trace.array(a), np.flatnonzero(np.asarray(condition)), axis)


@implements(np.extract)
def _extract(trace: Trace, condition: Any, arr: Any) -> Array:
    if contains_traced(condition):
        raise TracingError("np.extract by values that depend on unknowns cannot be traced")
    return trace.array(arr).reshape(-1)[np.flatnonzero(np.asarray(condition))]


@implements(np.choose)
def _choose(trace: Trace, a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Array:
    if contains_traced(a):
        raise TracingError("np.choose by values that depend on unknowns cannot be traced")
    found: Any = 0.0
    for k, choice in enumerate(choices):
        found = select(trace, np.asarray(a) == k, choice, found)
    return found


def _target(array: Any, function: str) -> Any:
    if not isinstance(array, Array) and type(array) is np.ndarray:
        raise TracingError(f"np.{function} into an array that traced code did not make")
    return array


@implements(np.copyto)
def _copyto(trace: Trace, dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    target = _target(dst, "copyto")
    target[...] = src if where is True else select(trace, where, src, target)


@implements(np.putmask)
def _putmask(trace: Trace, a: Any, mask: Any, values: Any) -> None:
    target = _target(a, "putmask")
    repeated = _numpy.resize(trace.array(values), np.shape(a))
    target[...] = select(trace, mask, repeated, target)


@implements(np.put)
def _put(trace: Trace, a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    target = _target(a, "put")
    indices = np.unravel_index(np.atleast_1d(ind), np.shape(a))
    target[indices] = _numpy.resize(trace.array(v), np.size(ind))


@implements(np.fill_diagonal)
def _fill_diagonal(trace: Trace, a: Any, val: Any, wrap: bool = False) -> None:
    at = np.arange(min(np.shape(a)))
    _target(a, "fill_diagonal")[at, at] = val


@implements(np.apply_along_axis)
def _apply_along_axis(trace: Trace, func1d: Callable, axis: int, arr: Any, *args: Any,
                      **kwargs: Any) -> Array:
    array = _along(trace, arr, axis)
    found = [trace.array(func1d(array[at], *args, **kwargs)) for at in np.ndindex(array.shape[:-1])]
    whole = trace.stack(found, 0).reshape(array.shape[:-1] + found[0].shape)
    return _numpy.moveaxis(whole, -1, axis) if found[0].ndim else whole


@implements(np.trim_zeros)
def _trim_zeros(trace: Trace, filt: Any, trim: str = "fb") -> Array:
    """Values are not known, so none is taken to be 0."""
    return trace.array(filt)


# Polynomials.


@implements(np.polyadd)
def _polyadd(trace: Trace, a1: Any, a2: Any) -> Array:
    a, b = (_numpy.atleast_1d(trace.array(p)) for p in (a1, a2))
    n = max(a.size, b.size)
    zeros = [trace.numbers(np.zeros(n - p.size)) for p in (a, b)]
    return trace.concatenate([zeros[0], a], 0) + trace.concatenate([zeros[1], b], 0)


@implements(np.polysub)
def _polysub(trace: Trace, a1: Any, a2: Any) -> Array:
    return _polyadd(trace, a1, -trace.array(a2))


@implements(np.polymul)
def _polymul(trace: Trace, a1: Any, a2: Any) -> Array:
    return np.convolve(trace.array(a1), trace.array(a2))


@implements(np.roots)
def _roots(trace: Trace, p: Any) -> Array:
    """Of quadratic polynomials with real roots; NaN for others."""
    a = [p[k] for k in range(len(p))]
    if len(a) == 2:
        return trace.stack([trace.array(-a[1] / a[0])], 0)
    if len(a) != 3:
        raise TracingError("np.roots of polynomials above degree 2 cannot be traced")
    root = np.sqrt(np.square(a[1]) - 4.0 * a[0] * a[2])
    q = -0.5 * (a[1] + select(trace, np.less(a[1], 0.0), -root, root))
    return trace.stack([trace.array(q / a[0]), trace.array(a[2] / q)], 0)
