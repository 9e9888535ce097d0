"""Functions that are linear in one of their arguments: they are applied to a basis once."""
#
# NumPy's stubs do not know that traced arrays implement its functions:
# mypy: disable-error-code="call-overload,arg-type,operator,index,var-annotated"

from __future__ import annotations

import sys
from typing import Any, Callable

import numpy as np

from ._complex import COMPLEX_FUNCTIONS, ComplexArray, as_complex, is_complex
from ._functions import PROVIDERS, find, implements
from ._trace import Array, Trace, TracingError, contains_traced

#: Elements of an argument above which a function is not applied to a basis.
_MOST = 4096
#: NumPy for traced arrays: its stubs do not know that these implement its functions.
_numpy: Any = np


#: Entries of a matrix that are rounding beside the largest of their row.
_ROUNDING = 1e-15


def _weighted_sum(trace: Trace, a: Array, matrix: np.ndarray, largest: np.ndarray) -> Array:
    """matrix (outputs, n) times a (n,); what is nothing beside the largest entry of a row is left out."""
    used = np.abs(matrix) > _ROUNDING * largest[:, np.newaxis]
    most = int(used.sum(axis=1).max(initial=0))
    if most == 0:
        return trace.numbers(np.zeros(len(matrix)))
    if most > 0.5 * a.size:
        return np.sum(np.where(used, matrix, 0.0) * a, axis=1)
    at = np.argsort(~used, axis=1, kind="stable")[:, :most]
    weights = np.take_along_axis(np.where(used, matrix, 0.0), at, 1)
    return np.sum(a[at] * weights, axis=1)


def apply(trace: Trace, function: Callable[[np.ndarray], Any], a: Any) -> Any:
    """function(a) for a function that is affine in the real numbers of its argument."""
    z = as_complex(trace, a) if is_complex(a) else None
    parts = [trace.array(a)] if z is None else [z.real, z.imag]
    shape, size = parts[0].shape, parts[0].size
    if size > _MOST:
        raise TracingError(f"a linear function of {size} values cannot be traced; the most is {_MOST}")
    kind = float if z is None else complex
    constant = np.asarray(function(np.zeros(shape, kind)))
    total: Any = None
    for part, unit in zip(parts, (1.0, 1j)):
        columns = np.empty((size, constant.size), complex if constant.dtype.kind == "c" else float)
        for k in range(size):
            one = np.zeros(size, kind)
            one[k] = unit
            columns[k] = np.asarray(function(one.reshape(shape))).ravel() - constant.ravel()
        flat = part.reshape(-1)
        largest = np.abs(columns).max(axis=0, initial=0.0)
        pieces = [_weighted_sum(trace, flat, np.ascontiguousarray(m.T), largest)
                  for m in ([columns.real, columns.imag] if constant.dtype.kind == "c" else [columns])]
        total = pieces if total is None else [s + p for s, p in zip(total, pieces)]
    numbers = [constant.real, constant.imag] if constant.dtype.kind == "c" else [constant]
    out = [(s + c.ravel() if np.any(c) else s).reshape(constant.shape) for s, c in zip(total, numbers)]
    return ComplexArray(out[0], out[1]) if len(out) == 2 else out[0]


def _filtered(trace: Trace, function: Callable[[np.ndarray], Any], x: Any) -> Any:
    """function(x) for a filter, which gives later numbers of x the same answer later: that to one impulse."""
    count = np.size(x)
    rest = np.asarray(function(np.zeros(count)))
    impulse = np.zeros(count)
    impulse[0] = 1.0
    answer = np.asarray(function(impulse)) - rest
    used = np.flatnonzero(np.abs(answer) > _ROUNDING * np.max(np.abs(answer), initial=0.0))
    answer = answer[: used[-1] + 1 if used.size else 1]
    before = trace.concatenate([trace.numbers(np.zeros(answer.size - 1)), trace.array(x)], 0)
    shifted = np.lib.stride_tricks.sliding_window_view(before._shadow, answer.size, writeable=True)
    found = np.sum(before._view(shifted) * answer[::-1], axis=1)
    return found + rest if np.any(rest) else found


def _recursion(trace: Trace, b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Array:
    """scipy.signal.lfilter of one row with traced coefficients: step by step, from a state of rest."""
    if zi is not None:
        raise TracingError("scipy.signal.lfilter with zi and coefficients that depend on unknowns cannot be traced")
    from ._scan import scan

    over, under, count = trace.array(b).reshape(-1), trace.array(a).reshape(-1), np.size(x)
    forced = _numpy.convolve(trace.array(x), over / under[0])[:count]
    if under.size == 1:
        return forced
    back = under[1:] / under[0]

    def step(k: Any, before: Any) -> Any:
        now = forced[k] - np.sum(back * before)
        return _numpy.concatenate([[now], before[:-1]])

    return scan(count, trace.numbers(np.zeros(back.size)), step)[1:, 0]


def _is_filter(function: Callable, x: Any, others: tuple) -> bool:
    """True for filters of one row of real numbers that return its answer alone."""
    return (function.__name__ in _FILTERS and not is_complex(x) and np.ndim(x) == 1 and np.size(x) > 1 and
            not any(np.iscomplexobj(v) for v in others))


def _of_argument(function: Callable, position: int, name: str) -> Callable:
    def call(trace: Trace, *args: Any, **kwargs: Any) -> Any:
        given = list(args)
        if position < len(given):
            value = given[position]
        elif name in kwargs:
            value = kwargs[name]
        else:
            raise TypeError(f"{function.__name__}() missing argument {name!r}")
        others = [v for k, v in enumerate(given) if k != position]
        others += [v for k, v in kwargs.items() if k != name]
        if contains_traced(others):
            if function.__name__ == "lfilter" and np.ndim(value) == 1:
                return _recursion(trace, *args, **kwargs)
            raise TracingError(f"{function.__name__} with further arguments that depend on unknowns "
                               "cannot be traced")

        def of(a: np.ndarray) -> Any:
            if position < len(given):
                return function(*given[:position], a, *given[position + 1:], **kwargs)
            return function(*given, **{**kwargs, name: a})

        if _is_filter(function, value, tuple(others)) and kwargs.get("zi") is None and len(given) <= position + 2:
            return _filtered(trace, of, value)
        return apply(trace, of, value)

    return call


_TRANSFORMS = ("fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn fftshift "
               "ifftshift dct idct dst idst dctn idctn dstn idstn")
#: Linear functions by module: names, and the position and the name of the argument.
_TABLE: list[tuple[str, str, int, str]] = [
    ("numpy.fft", _TRANSFORMS, 0, "a"), ("numpy", "polyfit", 1, "y"),
    ("numpy.polynomial.polynomial", "polyfit", 1, "y"), ("numpy", "polyder polyint", 0, "p"),
    ("numpy", "diagflat", 0, "v"), ("numpy", "ediff1d", 0, "ary"),
    ("numpy", "apply_over_axes", 1, "a"), ("scipy.fft", _TRANSFORMS, 0, "x"),
    ("scipy.signal", "savgol_filter hilbert resample", 0, "x"), ("scipy.signal", "detrend", 0, "data"),
    ("scipy.signal", "lfilter filtfilt", 2, "x"), ("scipy.signal", "sosfilt sosfiltfilt", 1, "x"),
    ("scipy.ndimage", "gaussian_filter gaussian_filter1d uniform_filter uniform_filter1d convolve "
     "convolve1d correlate correlate1d laplace gaussian_laplace sobel prewitt zoom shift rotate "
     "affine_transform map_coordinates spline_filter spline_filter1d", 0, "input"),
    ("scipy.sparse.linalg", "spsolve", 1, "b"), ("scipy.linalg", "solve_banded", 2, "b"),
    ("scipy.spatial.distance", "squareform", 0, "X"),
    ("scipy.integrate", "simpson simps trapezoid trapz cumulative_trapezoid cumtrapz romb", 0, "y"),
]
#: Those of them that go through their argument once, from a state of rest.
_FILTERS = ("lfilter", "sosfilt")
#: Functions of two arguments that are linear in each.
_BILINEAR = ("scipy.signal", "convolve fftconvolve oaconvolve correlate convolve2d")
_registered: set[str] = set()


def register() -> None:
    """Enters the functions of those modules that are imported."""
    for module in {row[0] for row in _TABLE} - _registered:
        if module not in sys.modules:
            continue
        _registered.add(module)
        for where, names, position, argument in _TABLE:
            for name in names.split() if where == module else []:
                function = getattr(sys.modules[module], name, None)
                if function is not None:
                    implementation = _of_argument(function, position, argument)
                    implements(function)(implementation)
                    COMPLEX_FUNCTIONS[function] = implementation
        for name in _BILINEAR[1].split() if module == _BILINEAR[0] else []:
            _of_either(getattr(sys.modules[module], name))
        if module == "scipy.integrate":
            _register_trapezoids(sys.modules[module])
        if module == _BILINEAR[0]:
            implements(sys.modules[module].freqs)(_response(0))
            implements(sys.modules[module].freqz)(_response(1))


def _register_trapezoids(module: Any) -> None:
    """Enters scipy.integrate's trapezoidal rules of real numbers, as sums and running sums."""
    named = getattr(np, "trapezoid", None) or getattr(np, "trapz", None)
    numpys = named and find(named)
    for name, implementation in (("trapezoid", numpys), ("trapz", numpys),
                                 ("cumulative_trapezoid", _cumulative_trapezoid),
                                 ("cumtrapz", _cumulative_trapezoid)):
        if hasattr(module, name) and implementation is not None:
            implements(getattr(module, name))(implementation)


def _cumulative_trapezoid(trace: Trace, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1,
                          initial: Any = None) -> Any:
    moved = _numpy.moveaxis(trace.array(y), axis, -1)
    if x is not None:
        dx = _numpy.diff(x if np.ndim(x) == 1 else _numpy.moveaxis(x, axis, -1))
        if np.shape(dx)[-1] != moved.shape[-1] - 1:
            raise ValueError("If given, length of x along axis must be the same as y.")
    found = _numpy.cumsum(dx * (moved[..., 1:] + moved[..., :-1]) / 2.0, axis=-1)
    if initial is not None:
        first = np.full(moved.shape[:-1] + (1,), float(initial))
        found = _numpy.concatenate([first, found], axis=-1)
    return _numpy.moveaxis(found, -1, axis)


@implements(np.pad)
def _pad(trace: Trace, array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    if mode not in ("constant", "edge", "wrap", "reflect", "symmetric", "mean", "linear_ramp", "empty"):
        raise TracingError(f"np.pad with mode={mode!r} cannot be traced")
    if contains_traced(tuple(kwargs.values())):
        raise TracingError("np.pad with numbers that depend on unknowns cannot be traced")
    if mode in ("mean", "linear_ramp"):
        return apply(trace, lambda a: np.pad(a, pad_width, mode, **kwargs), array)
    inner = trace.array(array)
    at = np.arange(inner.size).reshape(inner.shape)
    if mode != "constant":
        return inner.reshape(-1)[np.pad(at, pad_width, mode, **kwargs)]
    out = trace.numbers(np.pad(np.zeros(inner.shape), pad_width, mode, **kwargs))
    out[tuple(np.argwhere(np.pad(at, pad_width, constant_values=-1) >= 0).T)] = inner.reshape(-1)
    return out


def _triangle(function: Callable) -> None:
    def call(trace: Trace, m: Any, k: int = 0) -> Array:
        array = trace.array(m)
        return _numpy.where(function(np.ones(array.shape), k) != 0, array, 0.0)

    implements(function)(call)


for _function in (np.tril, np.triu):
    _triangle(_function)


def _of_either(function: Callable) -> None:
    """Functions that are linear in both arguments, of which one is plain, or which are convolutions."""
    def call(trace: Trace, a: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
        if contains_traced(a) and contains_traced(v):
            mode = kwargs.get("mode", args[0] if args else "full")
            if "convolve" in function.__name__ and np.ndim(a) == np.ndim(v) == 1:
                whole = np.convolve(a, v)
                first = (len(v) - 1) // 2 if mode == "same" else 0
                return (np.convolve(a, v, mode) if mode == "valid" else
                        whole[first: first + len(a)] if mode == "same" else whole)
            raise TracingError(f"{function.__name__} of two arrays that depend on unknowns cannot be "
                               "traced")
        if contains_traced(a):
            return apply(trace, lambda x: function(x, v, *args, **kwargs), a)
        return apply(trace, lambda x: function(a, x, *args, **kwargs), v)

    implements(function)(call)


def _response(position: int) -> Callable:
    """scipy.signal.freqs and freqz of coefficients that are traced, at given frequencies."""
    def call(trace: Trace, b: Any, a: Any = 1.0, worN: Any = None, whole: bool = False, plot: Any = None,
             fs: float = 2 * np.pi, include_nyquist: bool = False) -> Any:
        if worN is None:
            worN = 512 if position else np.logspace(-1, 1, 200)
        if contains_traced(worN) or not position and np.ndim(worN) == 0:
            raise TracingError("scipy.signal.freqs at frequencies that are not given cannot be traced")
        if np.ndim(worN) == 0:
            end = fs if whole else fs / 2
            w = np.linspace(0, end, int(worN), endpoint=bool(include_nyquist and not whole))
        else:
            w = np.asarray(worN, dtype=float)
        s = np.exp(-2j * np.pi * w / fs) if position else 1j * w
        parts = [[p] if np.ndim(p) == 0 else list(p) for p in (b, a)]
        over, under = (np.polyval([trace.array(c) + 0j for c in (p[::-1] if position else p)], as_complex(trace, s))
                       for p in parts)
        return w, over / under

    return call


register()


@implements(np.correlate)
def _correlate(trace: Trace, a: Any, v: Any, mode: str = "valid") -> Array:
    a, v = trace.array(a), trace.array(v)
    if a.size < v.size:
        return _correlate(trace, v, a, mode)[::-1]
    return np.convolve(a, v[::-1], mode)


@implements(np.bincount)
def _bincount(trace: Trace, x: Any, weights: Any = None, minlength: int = 0) -> Array:
    if contains_traced(x):
        raise TracingError("np.bincount of values that depend on unknowns cannot be traced")
    return apply(trace, lambda w: np.bincount(x, w, minlength), weights)


@implements(np.histogram)
def _histogram(trace: Trace, a: Any, bins: Any = 10, range: Any = None, *args: Any,
               weights: Any = None, density: Any = None) -> Any:
    if contains_traced((a, bins)) or density:
        raise TracingError("np.histogram of values that depend on unknowns cannot be traced; its weights "
                           "can")
    edges = np.histogram(a, bins, range)[1]
    return apply(trace, lambda w: np.histogram(a, bins, range, weights=w)[0], weights), edges


PROVIDERS.append(lambda module: register())
