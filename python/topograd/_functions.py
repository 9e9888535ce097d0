"""NumPy's functions on traced arrays."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from ._complex import call_function, horner, is_complex
from ._masked import Masked
from ._trace import Array, Trace, TracingError, cannot, contains_traced, handlers, plain
from ._ufuncs import MISSING, accumulate, check_dtype, masked, reduce, select

_FUNCTIONS: dict[Any, Callable[..., Any]] = {}
#: NumPy for traced arrays: its stubs do not know that these implement its functions.
_numpy: Any = np


#: Called with the module of a function of SciPy's that is not in the table: they enter what they know of it.
PROVIDERS: list[Callable[[str], Any]] = []
#: Functions that put values into their first argument.
INTO = (np.copyto, np.putmask, np.put, np.fill_diagonal)


def find(func: Any) -> Callable[..., Any] | None:
    """The implementation of a function for traced arrays, if there is one."""
    try:
        found = _FUNCTIONS.get(func)
    except TypeError:  # no key of a dictionary
        return None
    if found is None and (getattr(func, "__module__", None) or "").startswith("scipy."):
        for enter in PROVIDERS:
            enter(func.__module__)
        found = _FUNCTIONS.get(func)
    return found


def call(trace: Trace, func: Any, args: Any, kwargs: Any) -> Any:
    """What Array.__array_function__ does."""
    if func not in INTO:
        args = plain(args)
    kwargs = {k: plain(v) for k, v in kwargs.items()}
    for value in args:
        if isinstance(value, Masked):
            return value.__array_function__(func, (), args, kwargs)
    if any(is_complex(value) for value in args):
        return call_function(trace, func, args, kwargs)
    found = find(func)
    if found is None:
        module = getattr(func, "__module__", "numpy").replace("numpy", "np")
        raise TracingError(cannot(f"{module}.{func.__name__}"))
    if "dtype" in kwargs and not func.__name__.endswith("_like"):
        check_dtype(func.__name__, kwargs["dtype"], args)
    return found(trace, *args, **kwargs)


def implements(*functions: Any) -> Callable:
    """Enters an implementation in the table, for these functions of NumPy."""
    def register(implementation: Callable) -> Callable:
        for function in functions:
            _FUNCTIONS[function] = implementation
        return implementation

    return register


def _register_views() -> None:
    """Functions that only change how elements are indexed: NumPy applies them to shadows."""

    def check(function: Any, args: Any, kwargs: Any) -> None:
        if contains_traced((*args, *kwargs.values())):
            raise TracingError(f"np.{function.__name__} by places that depend on unknowns cannot be traced")

    def view(function: Any) -> Callable:
        def apply(trace: Trace, a: Any, *args: Any, **kwargs: Any) -> Array:
            check(function, args, kwargs)
            array = trace.array(a)
            return array._view(function(array._shadow, *args, **kwargs))

        return apply

    for name in ("transpose swapaxes moveaxis rollaxis expand_dims squeeze diagonal flip fliplr "
                 "flipud rot90").split():
        _FUNCTIONS[getattr(np, name)] = view(getattr(np, name))
    _FUNCTIONS[np.broadcast_to] = view(np.broadcast_to)
    windows = np.lib.stride_tricks.sliding_window_view
    _FUNCTIONS[windows] = view(windows)

    def strided(trace: Trace, *_: Any, **__: Any) -> Array:
        raise TracingError("np.lib.stride_tricks.as_strided cannot be traced; use sliding_window_view")

    _FUNCTIONS[np.lib.stride_tricks.as_strided] = strided

    def positions(function: Any) -> Callable:
        def apply(trace: Trace, a: Any, *args: Any, **kwargs: Any) -> Array:
            check(function, args, kwargs)
            array = trace.array(a)
            at = function(np.arange(array.size).reshape(array.shape), *args, **kwargs)
            node = trace.graph.gather(array._whole_node(), np.asarray(at).reshape(-1))
            return trace.wrap(node, np.shape(at), array.boolean)

        return apply

    for name in "take repeat tile roll take_along_axis resize delete".split():
        _FUNCTIONS[getattr(np, name)] = positions(getattr(np, name))

    def several(function: Any) -> Callable:
        def apply(trace: Trace, a: Any, *args: Any, **kwargs: Any) -> list:
            check(function, args, kwargs)
            array = trace.array(a)
            return [array._view(s) for s in function(array._shadow, *args, **kwargs)]

        return apply

    for name in "split array_split hsplit vsplit dsplit".split():
        _FUNCTIONS[getattr(np, name)] = several(getattr(np, name))


_register_views()


# Shapes.


@implements(np.shape)
def _shape(trace: Trace, a: Any) -> tuple:
    return trace.array(a).shape


@implements(np.ndim)
def _ndim(trace: Trace, a: Any) -> int:
    return trace.array(a).ndim


@implements(np.size)
def _size(trace: Trace, a: Any, axis: Any = None) -> int:
    return trace.array(a).size if axis is None else trace.array(a).shape[axis]


@implements(np.iscomplexobj)
def _iscomplexobj(trace: Trace, a: Any) -> bool:
    return False


@implements(np.isrealobj)
def _isrealobj(trace: Trace, a: Any) -> bool:
    return True


@implements(np.real)
def _real(trace: Trace, a: Any) -> Array:
    return trace.array(a)


@implements(np.imag)
def _imag(trace: Trace, a: Any) -> Array:
    return trace.array(a).imag


@implements(np.reshape)
def _reshape(trace: Trace, a: Any, newshape: Any, order: str = "C") -> Array:
    return trace.array(a).reshape(newshape, order=order)


@implements(np.ravel)
def _ravel(trace: Trace, a: Any, order: str = "C") -> Array:
    return trace.array(a).ravel(order)


@implements(np.copy)
def _copy(trace: Trace, a: Any, **_: Any) -> Array:
    return trace.array(a).copy()


@implements(np.broadcast_arrays)
def _broadcast_arrays(trace: Trace, *arrays: Any, subok: bool = False) -> list:
    traced = [trace.array(a) for a in arrays]
    shape = np.broadcast_shapes(*[a.shape for a in traced])
    return [a._view(np.broadcast_to(a._shadow, shape)) for a in traced]


def _at_least(axes: int, function: Any) -> None:
    def apply(trace: Trace, *arrays: Any) -> Any:
        traced = [trace.array(a) for a in arrays]
        out = [a._view(function(a._shadow)) for a in traced]
        return out[0] if len(out) == 1 else out

    _FUNCTIONS[function] = apply


for _axes, _function in enumerate((np.atleast_1d, np.atleast_2d, np.atleast_3d)):
    _at_least(_axes, _function)


@implements(np.zeros_like, np.empty_like)
def _zeros_like(trace: Trace, a: Any, dtype: Any = None, shape: Any = None, **_: Any) -> Array:
    return trace.numbers(np.zeros(trace.array(a).shape if shape is None else shape))


@implements(np.ones_like)
def _ones_like(trace: Trace, a: Any, dtype: Any = None, shape: Any = None, **_: Any) -> Array:
    return trace.numbers(np.ones(trace.array(a).shape if shape is None else shape))


@implements(np.full_like)
def _full_like(trace: Trace, a: Any, fill_value: Any, dtype: Any = None, shape: Any = None,
               **_: Any) -> Array:
    out = _zeros_like(trace, a, shape=shape)
    out[...] = fill_value
    return out


# Joining.


@implements(np.concatenate)
def _concatenate(trace: Trace, arrays: Any, axis: Any = 0, **_: Any) -> Array:
    traced = [trace.array(a) for a in arrays]
    if axis is None:
        return trace.concatenate([a.ravel() for a in traced], 0)
    return trace.concatenate(traced, axis)


@implements(np.stack)
def _stack(trace: Trace, arrays: Any, axis: int = 0, **_: Any) -> Array:
    return trace.stack([trace.array(a) for a in arrays], axis)


@implements(np.hstack)
def _hstack(trace: Trace, tup: Any, **_: Any) -> Array:
    traced = [_numpy.atleast_1d(trace.array(a)) for a in tup]
    return trace.concatenate(traced, 0 if traced[0].ndim == 1 else 1)


@implements(np.vstack, getattr(np, "row_stack", np.vstack))
def _vstack(trace: Trace, tup: Any, **_: Any) -> Array:
    return trace.concatenate([_numpy.atleast_2d(trace.array(a)) for a in tup], 0)


@implements(np.dstack)
def _dstack(trace: Trace, tup: Any) -> Array:
    return trace.concatenate([_numpy.atleast_3d(trace.array(a)) for a in tup], 2)


@implements(np.column_stack)
def _column_stack(trace: Trace, tup: Any) -> Array:
    traced = [trace.array(a) for a in tup]
    return trace.concatenate([a.reshape(-1, 1) if a.ndim < 2 else a for a in traced], 1)


@implements(np.append)
def _append(trace: Trace, arr: Any, values: Any, axis: Any = None) -> Array:
    return _concatenate(trace, (arr, values), axis)


# Reductions.


def _reduction(op: str) -> Callable:
    def apply(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
              keepdims: Any = False, initial: Any = MISSING, where: Any = MISSING) -> Array:
        if out is not None:
            raise TracingError("a reduction with out= cannot be traced")
        array = trace.array(a)
        if where is not MISSING and where is not True:
            array = masked(trace, op, array, where)
        result = reduce(trace, op, array, axis, keepdims is True)
        if initial is MISSING:
            return result
        return trace.apply(op, result, initial)

    return apply


_FUNCTIONS[np.sum] = _reduction("add")
_FUNCTIONS[np.prod] = _reduction("mul")
_FUNCTIONS[np.all] = _reduction("and")
_FUNCTIONS[np.any] = _reduction("or")


def _extreme(op: str) -> Callable:
    reduction = _reduction(op)

    def apply(trace: Trace, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False,
              initial: Any = MISSING, where: Any = MISSING) -> Array:
        return reduction(trace, a, axis, None, out, keepdims, initial, where)

    return apply


for _name, _op in (("min", "min"), ("amin", "min"), ("max", "max"), ("amax", "max")):
    _FUNCTIONS[getattr(np, _name)] = _extreme(_op)


def _count(array: Array, axis: Any) -> int:
    if axis is None:
        return array.size
    return math.prod(array.shape[a] for a in (axis if isinstance(axis, tuple) else (axis,)))


@implements(np.mean)
def _mean(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
          keepdims: Any = False, where: Any = True, **_: Any) -> Array:
    array = trace.array(a)
    if where is not True:
        return _sum(trace, array, axis, keepdims, where) / _sum(
            trace, trace.numbers(np.ones(array.shape)), axis, keepdims, where)
    return reduce(trace, "add", array, axis, keepdims is True) / float(_count(array, axis))


def _sum(trace: Trace, array: Array, axis: Any, keepdims: Any, where: Any) -> Array:
    return reduce(trace, "add", masked(trace, "add", array, where), axis, keepdims is True)


@implements(np.average)
def _average(trace: Trace, a: Any, axis: Any = None, weights: Any = None, **_: Any) -> Array:
    if weights is None:
        return _mean(trace, a, axis)
    return np.sum(a * weights, axis=axis) / np.sum(weights * np.ones(np.shape(a)), axis=axis)


@implements(np.var)
def _var(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
         ddof: int = 0, keepdims: Any = False, where: Any = True, **_: Any) -> Array:
    array = trace.array(a)
    centred = array - _mean(trace, array, axis, keepdims=True, where=where)
    if where is not True:
        count = _sum(trace, trace.numbers(np.ones(array.shape)), axis, keepdims, where)
        return _sum(trace, np.square(centred), axis, keepdims, where) / (count - float(ddof))
    total = reduce(trace, "add", np.square(centred), axis, keepdims is True)
    return total / float(_count(array, axis) - ddof)


@implements(np.std)
def _std(trace: Trace, a: Any, *args: Any, **kwargs: Any) -> Array:
    return np.sqrt(_var(trace, a, *args, **kwargs))


@implements(np.cumsum)
def _cumsum(trace: Trace, a: Any, axis: Any = None, **_: Any) -> Array:
    array = trace.array(a)
    return accumulate(trace, np.add, array.ravel() if axis is None else array, axis or 0)


@implements(np.diff)
def diff(trace: Trace, a: Any, n: int = 1, axis: int = -1, **kwargs: Any) -> Array:
    array = trace.array(a)
    before, after = (kwargs.get(name, MISSING) for name in ("prepend", "append"))
    parts = [before, array, after]
    for k in (0, 2):
        if parts[k] is not MISSING and np.ndim(parts[k]) == 0:
            shape = list(array.shape)
            shape[axis] = 1
            parts[k] = parts[k] * np.ones(shape)
    array = trace.concatenate([trace.array(p) for p in parts if p is not MISSING], axis)
    for _ in range(n):
        moved = _numpy.moveaxis(array, axis, -1)
        array = _numpy.moveaxis(moved[..., 1:] - moved[..., :-1], -1, axis)
    return array


@implements(np.round, np.around)
def _round(trace: Trace, a: Any, decimals: int = 0, out: Any = None) -> Array:
    return np.rint(a * 10.0**decimals) / 10.0**decimals


# Choices.


@implements(np.where)
def _where(trace: Trace, condition: Any, *choices: Any) -> Array:
    if len(choices) != 2:
        raise TracingError("np.where of a condition alone cannot be traced")
    return select(trace, condition, *choices)


@implements(np.select)
def _select(trace: Trace, condlist: Any, choicelist: Any, default: Any = 0) -> Array:
    out = default
    for condition, choice in reversed(list(zip(condlist, choicelist))):
        out = select(trace, condition, choice, out)
    return out


@implements(np.nan_to_num)
def _nan_to_num(trace: Trace, x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None,
                neginf: Any = None) -> Array:
    largest = float(np.finfo(float).max)
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    finite = select(trace, x == math.inf, high, select(trace, x == -math.inf, low, x))
    out = select(trace, np.isnan(x), nan, finite)
    return out if copy else x._assign(out)


@implements(np.clip)
def _clip(trace: Trace, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *,
          min: Any = None, max: Any = None, **_: Any) -> Array:
    a_min, a_max = min if a_min is None else a_min, max if a_max is None else a_max
    out = a if a_min is None else np.maximum(a, a_min)
    return out if a_max is None else np.minimum(out, a_max)


# Products.


@implements(np.dot)
def _dot(trace: Trace, a: Any, b: Any, out: Any = None) -> Array:
    a, b = trace.array(a), trace.array(b)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    if b.ndim <= 2:
        return np.matmul(a, b)
    return _tensordot(trace, a, b, ((-1,), (-2,)))


@implements(np.vdot)
def _vdot(trace: Trace, a: Any, b: Any) -> Array:
    return np.sum(trace.array(a).ravel() * trace.array(b).ravel())


@implements(np.inner)
def _inner(trace: Trace, a: Any, b: Any) -> Array:
    a, b = trace.array(a), trace.array(b)
    return a * b if a.ndim == 0 or b.ndim == 0 else _tensordot(trace, a, b, ((-1,), (-1,)))


@implements(np.outer)
def _outer(trace: Trace, a: Any, b: Any, out: Any = None) -> Array:
    return trace.array(a).ravel()[:, np.newaxis] * trace.array(b).ravel()


@implements(np.tensordot)
def _tensordot(trace: Trace, a: Any, b: Any, axes: Any = 2) -> Array:
    a, b = trace.array(a), trace.array(b)
    if isinstance(axes, int):
        axes = (tuple(range(-axes, 0)), tuple(range(axes)))
    of_left, of_right = ((s,) if isinstance(s, int) else tuple(s) for s in axes)
    left = [range(a.ndim)[k] for k in of_left]
    right = [range(b.ndim)[k] for k in of_right]
    names = [chr(ord("a") + k) for k in range(a.ndim + b.ndim)]
    of_a, of_b = names[: a.ndim], names[a.ndim:]
    for i, j in zip(left, right):
        of_b[j] = of_a[i]
    kept = [n for n in of_a + of_b if (of_a + of_b).count(n) == 1]
    return np.einsum(f"{''.join(of_a)},{''.join(of_b)}->{''.join(kept)}", a, b)


def _einsum_operand(array: Array, labels: str, order: str) -> Array:
    """Axes by their labels, in this order; those that are missing have one element."""
    shadow = array._shadow
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            shadow = shadow.diagonal(0, first, second)
            labels = labels[:first] + labels[first + 1: second] + labels[second + 1:] + label
    shadow = shadow.transpose([labels.index(n) for n in order if n in labels])
    index = tuple(slice(None) if n in labels else np.newaxis for n in order)
    return array._view(shadow[index])


@implements(np.einsum)
def _einsum(trace: Trace, subscripts: Any, *operands: Any, **_: Any) -> Array:
    if not isinstance(subscripts, str):
        raise TracingError("np.einsum without a string of subscripts cannot be traced")
    arrays = [trace.array(a) for a in operands]
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if "..." in text:
        free = [a.ndim - len(t.replace("...", "")) for a, t in zip(arrays, terms)]
        names = "".join(c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in text)[: max(free)]
        terms = [t.replace("...", names[len(names) - n:] if n else "")
                 for t, n in zip(terms, free)]
        output = output.replace("...", names)
        if not arrow:
            output = names
    labels = "".join(terms)
    if not arrow:
        output += "".join(sorted(c for c in set(labels) if labels.count(c) == 1 and
                                 c not in output))
    summed = [c for c in dict.fromkeys(labels) if c not in output]
    order = output + "".join(summed)
    product: Any = None
    for array, term in zip(arrays, terms):
        operand = _einsum_operand(array, term, order)
        product = operand if product is None else product * operand
    if not summed:
        return product.copy()
    return reduce(trace, "add", product, tuple(range(len(output), len(order))))


@implements(np.cross)
def _cross(trace: Trace, a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1,
           axis: Any = None) -> Array:
    if axis is not None:
        axisa = axisb = axisc = axis
    a = _numpy.moveaxis(trace.array(a), axisa, -1)
    b = _numpy.moveaxis(trace.array(b), axisb, -1)
    if a.shape[-1] == 2 and b.shape[-1] == 2:
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise TracingError("np.cross of vectors of 2 and 3 elements cannot be traced")
    parts = [
        a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return trace.stack(parts, -1 if axisc == -1 else axisc)


@implements(np.trace)
def _trace(trace: Trace, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1,
           **_: Any) -> Array:
    return _numpy.sum(trace.array(a).diagonal(offset, axis1, axis2), axis=-1)


@implements(np.diag)
def _diag(trace: Trace, v: Any, k: int = 0) -> Array:
    array = trace.array(v)
    if array.ndim == 2:
        return array.diagonal(k).copy()
    n = array.size + abs(k)
    out = trace.numbers(np.zeros((n, n)))
    at = np.arange(array.size)
    out[at + max(-k, 0), at + max(k, 0)] = array
    return out


@implements(np.vander)
def _vander(trace: Trace, x: Any, N: Any = None, increasing: bool = False) -> Array:
    array = trace.array(x)
    powers: Any = range(array.size if N is None else N)
    columns = [trace.numbers(np.ones(array.shape))]
    for _ in powers[1:]:
        columns.append(columns[-1] * array if len(columns) > 1 else array)
    return trace.stack(columns if increasing else columns[::-1], -1)


@implements(np.polyval)
def _polyval(trace: Trace, p: Any, x: Any) -> Array:
    out: Any = horner(x, list(p) or [0.0])
    return out * np.ones(np.shape(x)) if np.ndim(out) < np.ndim(x) else out


@implements(np.meshgrid)
def _meshgrid(trace: Trace, *xi: Any, indexing: str = "xy", **_: Any) -> list:
    arrays = [trace.array(x).ravel() for x in xi]
    at = _numpy.meshgrid(*[np.arange(a.size) for a in arrays], indexing=indexing)
    return [a[i] for a, i in zip(arrays, at)]


def stacked(trace: Trace, value: Any) -> Any:
    """np.array of something that has traced arrays inside."""
    return trace.array(value).copy() if contains_traced(value) else value


handlers.function = call
