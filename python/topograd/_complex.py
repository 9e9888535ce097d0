"""Traced complex arrays: pairs of traced real ones."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ._trace import Array, Trace, Traced, TracingError, plain

#: NumPy for traced arrays: its stubs do not know that these implement its functions.
_numpy: Any = np


class ComplexArray(Traced, NDArrayOperatorsMixin):
    """An array of complex expressions, z = real + 1j imag, with the part of NumPy's interface that
    fits need: arithmetic, functions, shapes, and what makes real residuals of it: `real`, `imag`,
    `np.abs`, `np.angle`, `view(float)`."""

    __slots__ = ("real", "imag")
    __array_priority__ = 2000

    def __init__(self, real: Array, imag: Array) -> None:
        self.real = real
        self.imag = imag

    @property
    def tracer(self) -> Trace:
        """The trace to which this array belongs."""
        return self.real.tracer

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return self.real.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.real.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.real.size

    @property
    def dtype(self) -> np.dtype:
        """complex128."""
        return np.dtype(complex)

    @property
    def T(self) -> "ComplexArray":
        """The transposed array."""
        return self._both(lambda part: part.T)

    def _both(self, function: Callable[[Array], Array]) -> "ComplexArray":
        return ComplexArray(function(self.real), function(self.imag))

    def __len__(self) -> int:
        return len(self.real)

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))

    def __abs__(self) -> Array:
        return np.abs(self)  # type: ignore[call-overload]

    def dot(self, other: Any) -> Any:
        """np.dot with this array."""
        return np.dot(self, other)  # type: ignore[call-overload]

    def prod(self, axis: Any = None) -> "ComplexArray":
        """np.prod of this array."""
        return _numpy.prod(self, axis=axis)

    def transpose(self, *axes: Any) -> "ComplexArray":
        """Axes in another order."""
        return self._both(lambda part: part.transpose(*axes))

    def squeeze(self, axis: Any = None) -> "ComplexArray":
        """Without axes of one element."""
        return self._both(lambda part: part.squeeze(axis))

    def __repr__(self) -> str:
        return f"<traced complex array of shape {self.shape}>"

    def __getitem__(self, key: Any) -> "ComplexArray":
        return self._both(lambda part: part[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        z = as_complex(self.tracer, value)
        self.real[key] = z.real
        self.imag[key] = z.imag

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return call_ufunc(self.tracer, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call_function(self.tracer, func, args, kwargs)

    def reshape(self, *shape: Any) -> "ComplexArray":
        """The same elements in another shape."""
        return self._both(lambda part: part.reshape(*shape))

    def ravel(self) -> "ComplexArray":
        """The elements in one axis."""
        return self.reshape(-1)

    flatten = ravel

    def copy(self) -> "ComplexArray":
        """An array of its own with these elements."""
        return self._both(lambda part: part.copy())

    def conj(self) -> "ComplexArray":
        """real - 1j imag."""
        return ComplexArray(self.real, -self.imag)

    conjugate = conj

    def sum(self, *args: Any, **kwargs: Any) -> "ComplexArray":
        """np.sum of this array."""
        return self._both(lambda part: _numpy.sum(part, *args, **kwargs))

    def mean(self, *args: Any, **kwargs: Any) -> "ComplexArray":
        """np.mean of this array."""
        return self._both(lambda part: _numpy.mean(part, *args, **kwargs))

    def astype(self, dtype: Any, **_: Any) -> "ComplexArray":
        """A copy; only complex types are kept."""
        if np.dtype(dtype).kind != "c":
            raise TracingError("a complex array as real numbers: use .real, .imag or np.abs")
        return self.copy()

    def view(self, dtype: Any) -> Array:
        """view(float): real and imaginary parts in turn along the last axis."""
        if np.dtype(dtype) != np.dtype(float):
            raise TracingError(f"view({dtype}) of a complex array cannot be traced")
        pairs = self.tracer.stack([self.real, self.imag], -1)
        return pairs.reshape(*self.shape[:-1], -1)


def is_complex(value: Any) -> bool:
    """True for complex numbers, NumPy's complex arrays, traced ones, and lists of them."""
    value = plain(value)
    if isinstance(value, (Array, float)):
        return False
    if isinstance(value, (list, tuple)):
        return any(is_complex(v) for v in value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return any(is_complex(v) for v in value.reshape(-1))
    if isinstance(value, (ComplexArray, complex, np.complexfloating)):
        return True
    return isinstance(value, np.ndarray) and value.dtype.kind == "c"


def as_complex(trace: Trace, value: Any) -> ComplexArray:
    """Anything array-like as a traced complex array."""
    value = plain(value)
    if isinstance(value, ComplexArray):
        return value
    if isinstance(value, (list, tuple)) and is_complex(value):
        parts = [as_complex(trace, v) for v in value]
        return ComplexArray(trace.stack([p.real for p in parts], 0),
                            trace.stack([p.imag for p in parts], 0))
    if is_complex(value):
        array = np.asarray(value)
        return ComplexArray(trace.array(array.real), trace.array(array.imag))
    real = trace.array(value)
    return ComplexArray(real, trace.numbers(np.zeros(real.shape)))


# Functions of complex numbers, as pairs. An operand is (real, imag): arrays or numbers, and imag is
# 0.0 for a real operand, so that no operations are recorded for it.

_Pair = tuple[Any, Any]


def _is(value: Any, number: float) -> bool:
    return isinstance(value, float) and value == number


def _is_real(z: _Pair) -> bool:
    return _is(z[1], 0.0)


def _plus(a: Any, b: Any) -> Any:
    return b if _is(a, 0.0) else a if _is(b, 0.0) else np.add(a, b)


def _minus(a: Any, b: Any) -> Any:
    return a if _is(b, 0.0) else np.negative(b) if _is(a, 0.0) else np.subtract(a, b)


def _times(a: Any, b: Any) -> Any:
    if _is(a, 0.0) or _is(b, 0.0):
        return 0.0
    return b if _is(a, 1.0) else a if _is(b, 1.0) else np.multiply(a, b)


def _multiply(a: _Pair, b: _Pair) -> _Pair:
    return (_minus(_times(a[0], b[0]), _times(a[1], b[1])),
            _plus(_times(a[0], b[1]), _times(a[1], b[0])))


def _square_of(z: _Pair) -> Any:
    return np.square(z[0]) + np.square(z[1])


def _reciprocal(z: _Pair) -> _Pair:
    square = _square_of(z)
    return z[0] / square, -z[1] / square


def _divide(a: _Pair, b: _Pair) -> _Pair:
    if _is_real(b):
        return a[0] / b[0], a[1] / b[0]
    return _multiply(a, _reciprocal(b))


def _exp(z: _Pair) -> _Pair:
    size = np.exp(z[0])
    return size * np.cos(z[1]), size * np.sin(z[1])


def _log(z: _Pair) -> _Pair:
    return 0.5 * np.log(_square_of(z)), np.arctan2(z[1], z[0])


def _sqrt(z: _Pair) -> _Pair:
    size = np.sqrt(_square_of(z))
    real = np.sqrt(np.maximum(0.5 * (size + z[0]), 0.0))
    imag = np.sqrt(np.maximum(0.5 * (size - z[0]), 0.0))
    return real, np.where(np.less(z[1], 0.0), -imag, imag)


def _power(a: _Pair, b: _Pair) -> _Pair:
    exponent = float(b[0]) if isinstance(b[0], (int, float, np.number)) else math.nan
    if _is_real(b) and exponent.is_integer() and abs(exponent) <= 16:
        out: _Pair = (np.ones(np.broadcast_shapes(np.shape(a[0]), np.shape(a[1]))) if exponent == 0 else 1.0, 0.0)
        for _ in range(abs(int(exponent))):
            out = _multiply(out, a)
        return out if exponent >= 0 else _reciprocal(out)
    return _exp(_multiply(_log(a), b))


def _matmul(a: _Pair, b: _Pair) -> _Pair:
    if _is_real(a) or _is_real(b):
        if _is_real(a):
            return np.matmul(a[0], b[0]), np.matmul(a[0], b[1])
        return np.matmul(a[0], b[0]), np.matmul(a[1], b[0])
    return (np.matmul(a[0], b[0]) - np.matmul(a[1], b[1]),
            np.matmul(a[0], b[1]) + np.matmul(a[1], b[0]))


def _tanh(z: _Pair) -> _Pair:
    # exp(-|2 x|) does not overflow.
    small = np.exp(-2.0 * np.abs(z[0]))
    square = np.square(small)
    scale = 1.0 + 2.0 * small * np.cos(2.0 * z[1]) + square
    return np.sign(z[0]) * (1.0 - square) / scale, 2.0 * small * np.sin(2.0 * z[1]) / scale


def _tan(z: _Pair) -> _Pair:
    real, imag = _tanh((-z[1], z[0]))  # tan z = -i tanh(i z)
    return imag, -real


def _scaled(function: Callable[[_Pair], _Pair], scale: float) -> Callable[[_Pair], _Pair]:
    def call(z: _Pair) -> _Pair:
        real, imag = function(z)
        return real * scale, imag * scale

    return call


def _arctan(z: _Pair) -> _Pair:
    """(log(1 + i z) - log(1 - i z)) / 2 i."""
    plus, minus = _log((1.0 - z[1], z[0])), _log((1.0 + z[1], -1.0 * z[0]))
    return 0.5 * (plus[1] - minus[1]), -0.5 * (plus[0] - minus[0])


def _expm1(z: _Pair) -> _Pair:
    real = np.expm1(z[0]) * np.cos(z[1]) - 2.0 * np.square(np.sin(0.5 * z[1]))
    return real, np.exp(z[0]) * np.sin(z[1])


_UFUNCS: dict[str, Callable[..., _Pair]] = {
    "add": lambda a, b: (_plus(a[0], b[0]), _plus(a[1], b[1])),
    "subtract": lambda a, b: (_minus(a[0], b[0]), _minus(a[1], b[1])),
    "multiply": _multiply,
    "divide": _divide,
    "true_divide": _divide,
    "matmul": _matmul,
    "power": _power,
    "negative": lambda z: (-z[0], -z[1]),
    "positive": lambda z: z,
    "conjugate": lambda z: (z[0], -z[1]),
    "square": lambda z: _multiply(z, z),
    "reciprocal": _reciprocal,
    "tan": _tan,
    "tanh": _tanh,
    "arctan": _arctan,
    "expm1": _expm1,
    "log1p": lambda z: _log((1.0 + z[0], z[1])),
    "log10": _scaled(_log, 1 / math.log(10)),
    "log2": _scaled(_log, 1 / math.log(2)),
    "exp2": lambda z: _exp((z[0] * math.log(2), z[1] * math.log(2))),
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "sin": lambda z: (np.sin(z[0]) * np.cosh(z[1]), np.cos(z[0]) * np.sinh(z[1])),
    "cos": lambda z: (np.cos(z[0]) * np.cosh(z[1]), -np.sin(z[0]) * np.sinh(z[1])),
    "sinh": lambda z: (np.sinh(z[0]) * np.cos(z[1]), np.cosh(z[0]) * np.sin(z[1])),
    "cosh": lambda z: (np.cosh(z[0]) * np.cos(z[1]), np.sinh(z[0]) * np.sin(z[1])),
}


def _pair(trace: Trace, value: Any) -> _Pair:
    if isinstance(value, (complex, np.complexfloating)):
        return float(value.real), float(value.imag)
    if is_complex(value):
        z = as_complex(trace, value)
        return z.real, z.imag
    return value, 0.0


def absolute(trace: Trace, z: ComplexArray) -> Array:
    """|z|, with derivative 0 at 0."""
    square = _square_of((z.real, z.imag))
    return trace.apply("select", square == 0.0, 0.0, np.sqrt(square))


def call_ufunc(trace: Trace, ufunc: np.ufunc, method: str, inputs: tuple, kwargs: dict) -> Any:
    """A ufunc of which at least one operand is complex."""
    name = ufunc.__name__
    out = kwargs.get("out")
    if method == "__call__" and name in COMPLEX_UFUNCS and not kwargs:
        return COMPLEX_UFUNCS[name](trace, *[as_complex(trace, value) for value in inputs])
    if method == "reduce" and name == "multiply":
        return _product(trace, as_complex(trace, inputs[0]), kwargs.get("axis", 0))
    if method == "__call__" and name == "absolute":
        return absolute(trace, as_complex(trace, inputs[0]))
    if method == "reduce" and name == "add":
        return as_complex(trace, inputs[0])._both(lambda part: ufunc.reduce(part, **kwargs))
    if method != "__call__" or name not in _UFUNCS or set(kwargs) - {"out"}:
        raise TracingError(f"np.{name} of complex numbers cannot be traced")
    real, imag = _UFUNCS[name](*[_pair(trace, value) for value in inputs])
    real, imag = trace.array(real), trace.array(imag)
    shape = np.broadcast_shapes(real.shape, imag.shape)
    result = ComplexArray(*(part._view(np.broadcast_to(part._shadow, shape)).copy()
                            if part.shape != shape else part for part in (real, imag)))
    if out is None:
        return result
    if not isinstance(out[0], ComplexArray):
        raise TracingError(f"np.{name} of complex numbers into a real array")
    out[0][...] = result
    return out[0]


#: Further ufuncs and functions of complex arrays, by name and by function; other modules enter theirs.
COMPLEX_UFUNCS: dict[str, Callable[..., Any]] = {}
COMPLEX_FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def _product(trace: Trace, z: ComplexArray, axis: Any) -> ComplexArray:
    moved = z.reshape(-1) if axis is None else z._both(lambda part: _numpy.moveaxis(part, axis, 0))
    out = moved[0]
    for k in range(1, len(moved)):
        out = out * moved[k]
    return out


def _bilinear(trace: Trace, function: Callable[..., Any], operands: list) -> ComplexArray:
    """A function that is linear in each of its operands, by their real and imaginary parts."""
    total: Any = None
    for choice in range(2 ** len(operands)):
        parts, power = [], 0
        for k, value in enumerate(operands):
            imag = choice >> k & 1
            if imag and not is_complex(value):
                break
            z = as_complex(trace, value) if is_complex(value) else None
            parts.append(value if z is None else z.imag if imag else z.real)
            power += imag
        else:
            term = trace.array(function(*parts))
            zero = trace.numbers(np.zeros(term.shape))
            turned = [(term, zero), (zero, term), (-term, zero), (zero, -term)][power % 4]
            total = turned if total is None else (total[0] + turned[0], total[1] + turned[1])
    return ComplexArray(*total)


#: Functions that are applied to the real and to the imaginary parts of their arguments.
_LINEAR = {
    getattr(np, name) for name in (
        "concatenate stack hstack vstack dstack column_stack append reshape ravel transpose swapaxes "
        "moveaxis expand_dims squeeze repeat tile roll flip take diff cumsum sum mean trapz trapezoid gradient "
        "broadcast_to copy atleast_1d atleast_2d interp flipud fliplr rot90 diagonal trace"
    ).split() if hasattr(np, name)
}


def _part(trace: Trace, value: Any, name: str) -> Any:
    """The real or imaginary part of an argument; of a real one the imaginary part is left out."""
    if isinstance(value, (list, tuple)) and is_complex(value):
        return type(value)(getattr(as_complex(trace, v), name) for v in value)
    return getattr(as_complex(trace, value), name) if is_complex(value) else value


def horner(x: Any, coefficients: Any) -> Any:
    """The value at x of a polynomial whose first coefficient is that of the highest power."""
    out: Any = coefficients[0]
    for c in coefficients[1:]:
        out = out * x + c
    return out


def call_function(trace: Trace, func: Any, args: Any, kwargs: Any) -> Any:
    """A function of NumPy of which at least one argument is complex."""
    first = args[0] if args and not isinstance(args[0], (list, tuple)) else None
    z = as_complex(trace, first) if is_complex(first) else None
    if func in (np.shape, np.ndim, np.size) and z is not None:
        return func(z.real, *args[1:], **kwargs)
    if func is np.iscomplexobj:
        return True
    if func is np.isrealobj:
        return False
    if func in (np.real, np.imag) and z is not None:
        return z.real if func is np.real else z.imag
    if func is np.angle and z is not None:
        degrees = kwargs.get("deg", args[1] if len(args) > 1 else False)
        return _numpy.arctan2(z.imag, z.real) * (180 / math.pi if degrees else 1.0)
    if func is np.where and len(args) == 3:
        a, b = as_complex(trace, args[1]), as_complex(trace, args[2])
        return ComplexArray(_numpy.where(args[0], a.real, b.real),
                            _numpy.where(args[0], a.imag, b.imag))
    if func is np.einsum:
        if not isinstance(args[0], str):
            raise TracingError("np.einsum without a string of subscripts cannot be traced")
        return _bilinear(trace, lambda *parts: func(args[0], *parts, **kwargs), list(args[1:]))
    if func in (np.outer, np.inner, np.tensordot, np.kron, np.convolve):
        return _bilinear(trace, lambda *parts: func(*parts, *args[2:], **kwargs), list(args[:2]))
    if func is np.vdot:
        return np.sum(np.ravel(np.conj(args[0])) * np.ravel(args[1]))
    if func is np.prod:
        axis = kwargs.get("axis", args[1] if len(args) > 1 else None)
        return _product(trace, as_complex(trace, args[0]), axis)
    if func is np.polyval:
        return horner(args[1], [0.0 * args[1], *args[0]])
    if func in COMPLEX_FUNCTIONS:
        return COMPLEX_FUNCTIONS[func](trace, *args, **kwargs)
    if func is np.dot:
        return np.matmul(*args) if min(np.ndim(a) for a in args) > 0 else np.multiply(*args)
    if func is np.linalg.norm and z is not None:
        return func(absolute(trace, z), *args[1:], **kwargs)
    if func in _LINEAR:
        parts = [func(*[_part(trace, a, name) for a in args],
                      **{k: _part(trace, v, name) for k, v in kwargs.items()})
                 for name in ("real", "imag")]
        return ComplexArray(trace.array(parts[0]), trace.array(parts[1]))
    raise TracingError(f"np.{func.__name__} of complex numbers cannot be traced")
