"""NumPy's universal functions on traced arrays."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from ._complex import call_ufunc, is_complex
from ._masked import Masked
from ._trace import Array, Scalar, Trace, TracingError, cannot, contains_traced, handlers, plain

#: ufuncs that are one op of the table
#: What NumPy passes for an argument that was not given.
MISSING: Any = getattr(np, "_NoValue")
_OPS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div",
    "negative": "neg", "square": "square", "reciprocal": "reciprocal", "sqrt": "sqrt",
    "hypot": "hypot", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log",
    "log2": "log2", "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "absolute": "abs", "fabs": "abs", "sign": "sign", "floor": "floor", "ceil": "ceil",
    "rint": "round", "trunc": "trunc", "remainder": "mod", "minimum": "min", "maximum": "max",
    # scipy.special
    "erf": "erf", "expit": "sigmoid", "ndtr": "normal_cdf",
}  # fmt: skip

#: ufuncs whose results are truth values
_CONDITIONS = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "logical_and": "and", "logical_or": "or", "logical_not": "not",
    "bitwise_and": "and", "bitwise_or": "or", "invert": "not", "logical_xor": "ne",
    "bitwise_xor": "ne",
}  # fmt: skip

_REDUCTIONS = {"add": "add", "multiply": "mul", "minimum": "min", "maximum": "max",
               "logical_and": "and", "logical_or": "or"}  # fmt: skip


def select(trace: Trace, condition: Any, a: Any, b: Any) -> Array:
    """`a` where the condition holds, else `b`."""
    return trace.apply("select", condition, a, b)


def power(trace: Trace, base: Any, exponent: Any) -> Array:
    """Powers; small whole exponents and halves are products and roots, and the power 0 is the number 1."""
    if isinstance(exponent, np.ndarray) and exponent.ndim == 0:
        exponent = exponent.item()
    if isinstance(exponent, (int, float, np.number)):
        ops = {1.0: None, 2.0: "square", 3.0: "cube", 0.5: "sqrt", -1.0: "reciprocal"}
        op = ops.get(float(exponent), "pow")
        if exponent == 0:
            return trace.numbers(np.ones(np.shape(base)))
        if op is None:
            return trace.apply("add", base, 0.0) if not isinstance(base, Array) else base.copy()
        if op != "pow":
            return trace.apply(op, base)
    return trace.apply("pow", base, exponent)


def _matmul(trace: Trace, a: Any, b: Any) -> Array:
    a, b = trace.array(a), trace.array(b)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("matmul: input operand does not have enough dimensions")
    left = a[np.newaxis] if a.ndim == 1 else a
    right = b[:, np.newaxis] if b.ndim == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"matmul: shapes {a.shape} and {b.shape} do not fit")
    product = left[..., :, np.newaxis, :] * right[..., np.newaxis, :, :].swapaxes(-1, -2)
    out = reduce(trace, "add", product, -1)
    if a.ndim == 1:
        out = out[..., 0, :]
    if b.ndim == 1:
        out = out[..., 0]
    return out


def _logaddexp(trace: Trace, a: Any, b: Any) -> Array:
    """Smooth: where a = b both formulas of the select have all derivatives of the function."""
    first = np.greater_equal(a, b)
    high, low = select(trace, first, a, b), select(trace, first, b, a)
    gap = low - high  # NaN for infinities of one sign
    smooth = high + trace.apply("softplus", gap)
    infinite = np.logical_and(np.equal(a, b), np.not_equal(gap, gap))
    return select(trace, infinite, np.multiply(a, 0.5) + np.multiply(b, 0.5), smooth)


def _logaddexp2(trace: Trace, a: Any, b: Any) -> Array:
    scaled = _logaddexp(trace, np.multiply(a, math.log(2)), np.multiply(b, math.log(2)))
    return scaled / math.log(2)


def _cbrt(trace: Trace, a: Any) -> Array:
    """With the derivative 0 at 0, as roots have: an infinite one makes NaN of constant zeros."""
    zero = np.equal(a, 0.0)
    return select(trace, zero, 0.0, trace.apply("cbrt", select(trace, zero, 1.0, a)))


def _copysign(trace: Trace, a: Any, b: Any) -> Array:
    """-0.0 is negative where b is a number; a traced 0 is taken to be positive."""
    negative: Any = trace.apply("lt", b, 0.0, boolean=True) if isinstance(b, Array) else np.signbit(b)
    return select(trace, negative, -np.abs(a), np.abs(a))


def _assumed(trace: Trace, condition: Any, holds: bool) -> Array:
    """A condition on which code may branch: a solver rejects points at which the function has no value."""
    trace.assumed[condition._whole_node()] = holds
    return condition


def _also_assumed(trace: Trace, name: str, inputs: tuple, result: Array) -> Array:
    """A result of logical operations, which is assumed if its operands are."""
    known = [trace.assumed.get(a._whole_node()) if isinstance(a, Array) and a.boolean else None for a in inputs]
    if name in ("logical_not", "invert") and known[0] is not None:
        return _assumed(trace, result, not known[0])
    if len(known) == 2 and known[0] is not None and known[1] is not None:
        if name in ("logical_and", "bitwise_and"):
            return _assumed(trace, result, known[0] and known[1])
        if name in ("logical_or", "bitwise_or"):
            return _assumed(trace, result, known[0] or known[1])
    return result


#: ufuncs that are several ops; those of scipy.special are in _special
COMPOSITES: dict[str, Callable[..., Any]] = {
    "cbrt": _cbrt,
    "positive": lambda t, a: a.copy(),
    "conjugate": lambda t, a: a.copy(),
    "power": power,
    "float_power": power,
    "matmul": _matmul,
    "clip": lambda t, a, low, high: np.minimum(np.maximum(a, low), high),
    "floor_divide": lambda t, a, b: np.floor(np.divide(a, b)),
    "fmod": lambda t, a, b: a - np.multiply(b, np.trunc(np.divide(a, b))),
    "fmax": lambda t, a, b: select(t, np.isnan(a), b, select(t, np.isnan(b), a, np.maximum(a, b))),
    "fmin": lambda t, a, b: select(t, np.isnan(a), b, select(t, np.isnan(b), a, np.minimum(a, b))),
    "isnan": lambda t, a: _assumed(t, t.apply("ne", a, a, boolean=True), False),
    "isinf": lambda t, a: _assumed(t, np.abs(a) == math.inf, False),
    "isfinite": lambda t, a: _assumed(t, np.abs(a) < math.inf, True),
    "signbit": lambda t, a: np.less(a, 0.0),
    "copysign": _copysign,
    "ldexp": lambda t, a, b: a * np.exp2(np.asarray(b, float)),
    "modf": lambda t, a: (a - np.trunc(a), np.trunc(a)),
    "heaviside": lambda t, a, b: select(t, np.equal(a, 0.0), b, np.greater(a, 0.0)),
    "deg2rad": lambda t, a: a * (math.pi / 180),
    "radians": lambda t, a: a * (math.pi / 180),
    "rad2deg": lambda t, a: a * (180 / math.pi),
    "degrees": lambda t, a: a * (180 / math.pi),
    "logaddexp": _logaddexp,
    "logaddexp2": _logaddexp2,
    "xlogy": lambda t, a, b: select(t, np.equal(a, 0.0), 0.0, a * np.log(b)),
}


#: What leaves the results of reductions as they are.
IDENTITIES = {"add": 0.0, "mul": 1.0, "and": 1.0, "or": 0.0, "min": math.inf, "max": -math.inf}


def masked(trace: Trace, op: str, array: Array, where: Any) -> Array:
    """The array, with the identity of a reduction where the condition does not hold."""
    return select(trace, where, array, IDENTITIES[op])


def reduce(trace: Trace, op: str, array: Array, axis: Any, keepdims: bool = False) -> Array:
    """Combines the elements along axes."""
    axes = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if array.ndim == 0 and axis in (0, -1):  # as NumPy does
        axes = ()
    if any(not -array.ndim <= a < array.ndim for a in axes):
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {array.ndim}")
    axes = sorted(range(array.ndim)[a] for a in axes)
    kept = [d for d in range(array.ndim) if d not in axes]
    extent = math.prod(array.shape[d] for d in axes)
    if extent == 0:
        identity = {"add": 0.0, "mul": 1.0, "and": 1.0, "or": 0.0}
        if op not in identity:
            raise ValueError("zero-size array to reduction operation which has no identity")
        out = trace.numbers(np.full([array.shape[d] for d in kept], identity[op]))
    else:
        moved = array._view(array._shadow.transpose(kept + axes))
        node = trace.graph.reduce(op, moved._operand(), extent)
        out = trace.wrap(node, tuple(array.shape[d] for d in kept), op in ("and", "or"))
        if trace.assumed and op in ("and", "or") and array.boolean:
            holds = trace.assumed.get(array._whole_node())
            if holds is not None:
                trace.assumed[node] = holds
    if keepdims:
        shape = [1 if d in axes else n for d, n in enumerate(array.shape)]
        return out.reshape(shape)
    return out


#: ufuncs that are reduced element by element
_CHAINED = ("logaddexp", "logaddexp2", "hypot", "fmax", "fmin")


def _chained(trace: Trace, ufunc: np.ufunc, a: Any, axis: Any, keepdims: Any) -> Any:
    array = trace.array(a)
    if axis is None:
        array, axis = array.reshape(-1), 0
    array = array._view(np.moveaxis(array._shadow, axis, 0))
    out: Any = array[0]
    for k in range(1, len(array)):
        out = ufunc(out, array[k])
    return np.expand_dims(out, axis) if keepdims else out


def _reduceat(trace: Trace, ufunc: np.ufunc, array: Array, indices: Any, axis: int = 0,
              **_: Any) -> Array:
    moved = array._view(np.moveaxis(array._shadow, axis, 0))
    ends = [*indices[1:], len(moved)]
    parts = [ufunc.reduce(moved[i:j] if i < j else moved[i: i + 1]) for i, j in zip(indices, ends)]
    stacked = trace.stack([trace.array(p) for p in parts], 0)
    return stacked._view(np.moveaxis(stacked._shadow, 0, axis))


def _add_at(trace: Trace, ufunc: np.ufunc, target: Any, indices: Any, values: Any) -> None:
    """np.add.at: elements that are named several times are added one after the other."""
    if not isinstance(target, Array):
        raise TracingError(f"np.{ufunc.__name__}.at into an array that traced code did not make")
    elements = np.arange(target.size).reshape(target.shape)[indices]
    added = trace.array(values)
    added = added._view(np.broadcast_to(added._shadow, elements.shape)).reshape(-1)
    flat = elements.ravel()
    order = np.argsort(flat, kind="stable")
    # The k-th time that an element is named.
    first = np.searchsorted(flat[order], flat[order])
    turn = np.empty(flat.size, int)
    turn[order] = np.arange(flat.size) - first
    for k in range(turn.max(initial=-1) + 1):
        now = np.flatnonzero(turn == k)
        at = np.unravel_index(flat[now], target.shape)
        target[at] = ufunc(target[at], added[now])


def _evaluate(trace: Trace, ufunc: np.ufunc, inputs: tuple) -> Any:
    name = ufunc.__name__
    if name in _OPS:
        return trace.apply(_OPS[name], *inputs)
    if name in _CONDITIONS:
        result = trace.apply(_CONDITIONS[name], *inputs, boolean=True)
        return _also_assumed(trace, name, inputs, result) if trace.assumed else result
    if name in COMPOSITES:
        return COMPOSITES[name](trace, *[_traced_objects(trace, a) for a in inputs])
    if name == "divmod":
        quotient = np.floor_divide(*inputs)
        return quotient, np.remainder(*inputs)
    module = "np" if getattr(np, name, None) is ufunc else "scipy.special"
    raise TracingError(cannot(f"{module}.{name}"))


def _traced_objects(trace: Trace, value: Any) -> Any:
    return trace.array(value) if isinstance(value, (list, tuple)) or (
        isinstance(value, np.ndarray) and value.dtype == object
    ) else value


def check_dtype(name: str, dtype: Any, inputs: Any) -> None:
    """Raises TracingError for a type of the result that drops fractions."""
    if dtype is None or np.dtype(dtype).kind not in "iub":
        return
    if any(isinstance(value, Array) and not value.boolean for value in inputs):
        raise TracingError(f"np.{name} with dtype={np.dtype(dtype)} drops fractions and cannot be traced; "
                           "leave dtype out")


#: Types of operands of which nothing has to be asked.
_PLAIN = frozenset((Array, Scalar, float, int, np.float64))


def call(trace: Trace, ufunc: np.ufunc, method: str, inputs: tuple, kwargs: dict) -> Any:
    """What Array.__array_ufunc__ does."""
    if method == "__call__" and not kwargs and _PLAIN.issuperset(map(type, inputs)):
        return _evaluate(trace, ufunc, inputs)
    for value in inputs:
        if isinstance(value, Masked):
            return value.__array_ufunc__(ufunc, method, *inputs, **kwargs)
    given = kwargs.get("out")
    if method == "at" and type(inputs[0]) is not np.ndarray and not contains_traced(inputs[0]):
        inputs[0].become_traced(inputs[2])
    inputs, kwargs = plain(inputs), {k: plain(v) for k, v in kwargs.items()}
    if given is not None and type(given[0]) is not np.ndarray and not contains_traced(given):
        # A buffer: it takes the result, and is traced from now on.
        del kwargs["out"]
        where = kwargs.pop("where", True) if method == "__call__" else True
        made = call(trace, ufunc, method, inputs, kwargs)
        given[0][...] = made if where is True else select(trace, where, made, plain(given[0]))
        return given[0]
    if any(is_complex(value) for value in inputs):
        return call_ufunc(trace, ufunc, method, inputs, kwargs)
    out = kwargs.pop("out", None)
    where = kwargs.pop("where", True)
    check_dtype(ufunc.__name__, kwargs.pop("dtype", None), inputs)
    kwargs.pop("casting", None)
    if out is not None and not isinstance(out[0], Array):
        raise TracingError(f"np.{ufunc.__name__} into a NumPy array cannot be traced")
    if method == "__call__":
        result = _evaluate(trace, ufunc, inputs)
        if where is not True:
            if out is None:
                raise TracingError(f"np.{ufunc.__name__} with where= and without out=")
            result = select(trace, where, result, out[0])
    elif method == "reduce" and ufunc.__name__ in _REDUCTIONS:
        initial = kwargs.pop("initial", MISSING)
        axis = kwargs.pop("axis", 0)
        keepdims = kwargs.pop("keepdims", False)
        array = trace.array(inputs[0])
        if where is not True:
            array = masked(trace, _REDUCTIONS[ufunc.__name__], array, where)
        result = reduce(trace, _REDUCTIONS[ufunc.__name__], array, axis, bool(keepdims))
        if initial is not MISSING and initial is not None:
            result = ufunc(result, initial)
    elif method == "reduce" and ufunc.__name__ in _CHAINED and where is True and not (
            set(kwargs) - {"axis", "keepdims"}):
        result = _chained(trace, ufunc, inputs[0], kwargs.get("axis", 0), kwargs.get("keepdims", False))
    elif method == "reduceat":
        result = _reduceat(trace, ufunc, trace.array(inputs[0]), *inputs[1:], **kwargs)
    elif method == "at" and ufunc.__name__ in ("add", "subtract"):
        _add_at(trace, ufunc, *inputs)
        return None
    elif method == "outer":
        a, b = (trace.array(v) for v in inputs)
        result = ufunc(a.reshape(a.shape + (1,) * b.ndim), b)
    elif method == "accumulate":
        result = accumulate(trace, ufunc, trace.array(inputs[0]), kwargs.pop("axis", 0))
    else:
        raise TracingError(f"np.{ufunc.__name__}.{method} cannot be traced")
    return result if out is None else out[0]._assign(trace.array(result))


def accumulate(trace: Trace, ufunc: np.ufunc, array: Array, axis: int) -> Array:
    """Running sums or products along an axis."""
    if array.ndim == 0:
        array = array.reshape(1)
    op = _OPS.get(ufunc.__name__)
    if op is not None and ufunc.nin == 2 and array.size > 0:
        moved = array._view(np.moveaxis(array._shadow, axis, 0))
        made = trace.wrap(trace.graph.accumulate(op, moved._operand()), moved.shape)
        return made._view(np.moveaxis(made._shadow, 0, axis))
    parts = [array[(slice(None),) * (axis % array.ndim) + (0,)]]
    for k in range(1, array.shape[axis]):
        parts.append(ufunc(parts[-1], array[(slice(None),) * (axis % array.ndim) + (k,)]))
    return trace.stack(parts, axis)


handlers.ufunc = call
