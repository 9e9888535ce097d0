"""Elements of traced arrays that a condition on unknowns chooses: y[t > x[0]].

How many there are is not known while a function is traced. They are kept as the whole array beside
the condition, until they are summed or assigned to where the same condition holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ._trace import Array, Trace, Traced, TracingError, handlers, plain

_WRITE = "use np.where(condition, a, b) on whole arrays"
#: NumPy for traced arrays: its stubs do not know that these implement its functions.
_numpy: Any = np


def condition_of(key: Any) -> Any:
    """The traced condition that is an index by itself; TracingError for other traced indices."""
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) == 1 and isinstance(parts[0], Array) and parts[0].boolean and parts[0].ndim > 0:
        return parts[0]
    raise TracingError(f"an index that depends on unknowns cannot be traced; {_WRITE}")


class Masked(Traced, NDArrayOperatorsMixin):
    """The elements of an array where a traced condition of its shape holds."""

    __slots__ = ("whole", "condition")
    __array_priority__ = 3000
    not_real = f"elements that a condition on unknowns chooses cannot be traced here; {_WRITE}"

    def __init__(self, whole: Any, condition: Array) -> None:
        self.whole = condition.tracer.array(whole)
        self.condition = condition
        if self.whole.shape != condition.shape:
            raise TracingError("an index by a condition on unknowns of another shape than the array's "
                               f"cannot be traced; {_WRITE}")

    @property
    def tracer(self) -> Trace:
        """The trace to which the elements belong."""
        return self.condition.tracer

    @property
    def dtype(self) -> np.dtype:
        """float64, or bool for the result of a comparison."""
        return self.whole.dtype

    @property
    def ndim(self) -> int:
        """One axis."""
        return 1

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TracingError(f".{name} of elements that a condition on unknowns chooses cannot be traced; "
                           f"{_WRITE}")

    def __len__(self) -> int:
        raise TracingError(f"the number of elements that a condition on unknowns chooses; {_WRITE}")

    def __getitem__(self, key: Any) -> Any:
        raise TracingError(f"some of the elements that a condition on unknowns chooses; {_WRITE}")

    def __iter__(self) -> Any:
        len(self)

    def __repr__(self) -> str:
        return f"<traced elements of an array of shape {self.whole.shape}>"

    def copy(self) -> "Masked":
        """The same elements."""
        return Masked(self.whole, self.condition)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if method == "reduce" and kwargs.pop("axis", 0) in (0, None, -1) and not kwargs:
            return ufunc.reduce(self.whole, axis=None, where=self.condition)
        if kwargs or method != "__call__" or out is not None and out[0] is not self:
            raise TracingError(f"np.{ufunc.__name__} with these arguments cannot be traced; {_WRITE}")
        made = ufunc(*[whole_at(self.condition, plain(value)) for value in inputs])
        if out is None:
            return Masked(made, self.condition)
        self.whole = made
        return self

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in _REDUCTIONS and len(args) == 1 and args[0] is self and not kwargs:
            return func(self.whole, where=self.condition)
        raise TracingError(f"np.{func.__name__} of elements that a condition on unknowns chooses cannot be "
                           f"traced; {_WRITE}")


_REDUCTIONS = (np.sum, np.mean, np.prod, np.std, np.var, np.max, np.min)


def _add_methods() -> None:
    def method(function: Any) -> Any:
        def call(self: Masked) -> Any:
            return function(self)

        call.__name__, call.__doc__ = function.__name__, f"np.{function.__name__} of these elements."
        return call

    for name in "sum mean prod std var max min".split():
        setattr(Masked, name, method(getattr(np, name)))


_add_methods()


def _is_same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a._identity() == b._identity()


def whole_at(condition: Array, value: Any) -> Any:
    """What stands for a value in whole arrays, beside elements where the condition holds."""
    if isinstance(value, Masked):
        if not _is_same(value.condition, condition):
            raise TracingError(f"elements that different conditions on unknowns choose; {_WRITE}")
        return value.whole
    if np.ndim(value) == 0:
        return value
    if np.size(value) == 1:
        return _numpy.reshape(value, ())
    raise TracingError(f"an array beside elements that a condition on unknowns chooses; {_WRITE}")


def assign(target: Array, key: Any, value: Any) -> None:
    """target[key] = value for a traced condition."""
    condition = condition_of(key)
    if condition.shape != target.shape:
        raise TracingError("an assignment by a condition on unknowns of another shape than the array's "
                           f"cannot be traced; {_WRITE}")
    target[...] = _numpy.where(condition, whole_at(condition, value), target)


def chosen(array: Array, key: Any) -> Masked:
    """The elements of an array that a traced index chooses."""
    return Masked(array, condition_of(key))


handlers.chosen = chosen
handlers.assign_chosen = assign
