"""NumPy's functions of samples, on traced arrays: interpolation, integrals, slopes, convolutions; SciPy's rosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize

from . import _linear
from ._functions import diff, implements
from ._trace import Array, Trace, TracingError, contains_traced
from ._ufuncs import select

#: NumPy for traced arrays: its stubs do not know that these implement its functions.
_numpy: Any = np


@implements(*[getattr(np, n) for n in ("trapz", "trapezoid") if hasattr(np, n)])
def _trapezoid(trace: Trace, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    moved = _numpy.moveaxis(trace.array(y), axis, -1)
    if x is not None:
        x = trace.array(x)
        dx = diff(trace, x if x.ndim == 1 else _numpy.moveaxis(x, axis, -1))
    return np.sum(dx * (moved[..., 1:] + moved[..., :-1]) / 2.0, axis=-1)


@implements(scipy.optimize.rosen)
def _rosen(trace: Trace, x: Any) -> Array:
    x = trace.array(x)
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1.0 - x[:-1]) ** 2.0, axis=0)


@implements(np.gradient)
def _gradient(trace: Trace, f: Any, *spacing: Any, axis: Any = None, edge_order: Any = 1) -> Any:
    array = trace.array(f)
    if edge_order != 1:
        if contains_traced(spacing):
            raise TracingError("np.gradient with edge_order=2 and traced spacings cannot be traced")
        if isinstance(axis, (int, np.integer)) or axis is None and array.ndim == 1:
            return _linear.apply(
                trace, lambda a: np.gradient(a, *spacing, axis=axis, edge_order=edge_order), array)
        raise TracingError("np.gradient along several axes with edge_order=2 cannot be traced")
    axes = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    steps = spacing * len(axes) if len(spacing) == 1 else spacing or (1.0,) * len(axes)
    if len(steps) != len(axes):
        raise TypeError("invalid number of arguments")
    out = []
    for at, step in zip(axes, steps):
        v = _numpy.moveaxis(array, at, -1)
        h = np.ones(v.shape[-1] - 1) * step if np.ndim(step) == 0 else np.diff(step)
        slopes = (v[..., 1:] - v[..., :-1]) / h
        inner = (slopes[..., 1:] * h[:-1] + slopes[..., :-1] * h[1:]) / (h[:-1] + h[1:])
        parts = [slopes[..., :1], trace.array(inner), slopes[..., -1:]]
        out.append(_numpy.moveaxis(trace.concatenate(parts, -1), -1, at))
    return out[0] if len(out) == 1 else out


@implements(np.convolve)
def _convolve(trace: Trace, a: Any, v: Any, mode: str = "full") -> Array:
    a, v = trace.array(a), trace.array(v)
    if a.ndim > 1 or v.ndim > 1 or mode not in ("full", "same", "valid"):
        raise TracingError("np.convolve of these arguments cannot be traced")
    longer, shorter = (a, v) if a.size >= v.size else (v, a)
    longer, shorter = longer.reshape(-1), shorter.reshape(-1)
    n, m = longer.size, shorter.size
    first, count = {"full": (0, n + m - 1), "same": ((m - 1) // 2, n),
                    "valid": (m - 1, n - m + 1)}[mode]
    edges = trace.numbers(np.zeros(m - 1))
    padded = trace.concatenate([edges, longer, edges], 0)
    shifted = np.lib.stride_tricks.sliding_window_view(padded._shadow, m, writeable=True)
    return np.sum(padded._view(shifted[first: first + count, ::-1]) * shorter, axis=1)


@implements(np.linspace)
def _linspace(trace: Trace, start: Any, stop: Any, num: int = 50, endpoint: bool = True,
              **kwargs: Any) -> Array:
    if kwargs or np.ndim(start) > 0 or np.ndim(stop) > 0:
        raise TracingError("np.linspace of these arguments cannot be traced")
    share = np.arange(num) / max(num - 1 if endpoint else num, 1)
    return start + share * (stop - start)


@implements(np.piecewise)
def piecewise(trace: Trace, x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """np.piecewise, whose functions may return traced values for an x that is not traced."""
    if not contains_traced((x, condlist, funclist)):
        values = [choice(x, *args, **kw) if callable(choice) else choice for choice in funclist]
        if not contains_traced(values):
            return np.piecewise(x, condlist, list(funclist), *args, **kw)
        if np.asarray(x).dtype.kind != "f":
            raise TracingError(f"traced values of np.piecewise in an array of {np.asarray(x).dtype}: make x of "
                               "float64")
    array = trace.array(x)
    conditions = list(condlist) if np.ndim(condlist[0]) > 0 or array.ndim == 0 else [condlist]
    choices = list(funclist)
    out: Any = 0.0
    if len(choices) == len(conditions) + 1:
        last = choices.pop()
        out = last(array, *args, **kw) if callable(last) else last
    if len(choices) != len(conditions):
        raise ValueError(f"with {len(conditions)} condition(s), either {len(conditions)} or "
                         f"{len(conditions) + 1} functions are expected")
    for condition, choice in zip(conditions, choices):
        value = choice(array, *args, **kw) if callable(choice) else choice
        out = select(trace, condition, value, out)
    return trace.array(out)._view(np.broadcast_to(trace.array(out)._shadow, array.shape))


#: Points of np.interp between which unknowns are looked up: each is an operation in every row.
_MOST_POINTS = 64


@implements(np.interp)
def _interp(trace: Trace, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None,
            period: Any = None) -> Array:
    if contains_traced(xp):
        if period is not None or np.size(xp) > _MOST_POINTS:
            raise TracingError(f"np.interp between more than {_MOST_POINTS} points that depend on unknowns, or "
                               "with period=, cannot be traced")
        x = trace.array(x)
    if period is not None:
        if contains_traced(x):
            order = np.argsort(np.mod(xp, period))
            knots = np.mod(xp, period)[order]
            knots = np.concatenate([knots[-1:] - period, knots, knots[:1] + period])
            return _interp(trace, np.mod(x, period), knots, fp[np.r_[order[-1], order, order[0]]])
        return _linear.apply(trace, lambda f: np.interp(x, xp, f, period=period), fp)
    xp = trace.array(xp) if contains_traced(xp) else np.asarray(xp, dtype=float)
    values: Any = trace.array(fp) if contains_traced(fp) else np.asarray(fp, dtype=float)
    left = values[0] if left is None else left
    right = values[-1] if right is None else right
    if contains_traced(x):
        at: Any = trace.array(x)
        if xp.size > _MOST_POINTS and not contains_traced(fp):
            from . import _objects

            pieces = np.stack([np.diff(values) / np.diff(xp), values[:-1]])
            between = _objects.piecewise_polynomial(trace, at, xp, pieces)
            return select(trace, at > xp[-1], right, select(trace, at < xp[0], left, between))
        if xp.size > _MOST_POINTS:
            raise TracingError(f"np.interp at unknowns, between more than {_MOST_POINTS} unknowns, "
                               "cannot be traced")
        knots, heights = ([*map(float, v)] if isinstance(v, np.ndarray) else v for v in (xp, values))
        out: Any = heights[0]
        for k in range(xp.size - 1):
            slope: Any = (values[k + 1] - values[k]) / (xp[k + 1] - xp[k])
            slope = float(slope) if isinstance(slope, np.float64) else slope
            out = select(trace, at < knots[k], out, heights[k] + slope * (at - knots[k]))
    else:
        at = np.asarray(x, dtype=float)
        k = np.clip(np.searchsorted(xp, at, side="right") - 1, 0, max(xp.size - 2, 0))
        after = np.minimum(k + 1, xp.size - 1)
        share = (at - xp[k]) / np.where(after > k, xp[after] - xp[k], 1.0)
        out = values[k] + share * (values[after] - values[k])
    out = select(trace, at < xp[0], left, out)
    return select(trace, at > xp[-1], right, out)
