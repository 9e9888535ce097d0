"""Loops whose body is traced once: scan, and the number of the step that a body gets."""

from __future__ import annotations

import operator
from typing import Any, Callable

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import _core
from ._buffer import buffered
from ._trace import Array, Trace, Traced, TracingError, contains_traced, plain, tracer_of, user_location

#: Steps from which on a loop that could not be rolled is worth a word.
_MANY = 100


class Step(Traced, NDArrayOperatorsMixin):
    """The number of the step in the body of a loop: an index of arrays, or a number in expressions.

    Sums and products with integers, // and % are numbers of this kind.
    """

    __slots__ = ("_loop", "_numbers")

    def __init__(self, loop: "_Loop", numbers: np.ndarray) -> None:
        self._loop, self._numbers = loop, numbers

    @property
    def tracer(self) -> Trace:
        """The trace of the loop."""
        return self._loop.trace

    def number(self) -> Array:
        """As a number that differs from step to step."""
        trace = self._loop.trace
        source = trace.graph.numbers(self._numbers.astype(float))
        return self._loop.slice(source, (), 0, 1)

    def of(self, array: Any, rest: tuple) -> Any:
        """array[step] or array[step, rest...]."""
        whole = self._loop.trace.array(array)
        if whole.ndim == 0:
            raise IndexError("too many indices for array: array is 0-dimensional, but 1 were indexed")
        count, at = len(whole), self._numbers
        if np.any((at < -count) | (at >= count)):
            worst = int(at[np.argmax(np.abs(at + 0.5))])
            raise IndexError(f"index {worst} is out of bounds for axis 0 with size {count} "
                             f"({user_location()})")
        at = np.where(at < 0, at + count, at)
        shape = whole.shape[1:]
        width, node = int(np.prod(shape, dtype=int)), whole._whole_node()
        strides = np.unique(np.diff(at))
        if strides.size > 1 or strides.size == 1 and strides[0] < 0:
            places = (at[:, np.newaxis] * width + np.arange(width)).reshape(-1)
            node = self._loop.trace.graph.gather(node, places)
            at, strides = np.arange(at.size), np.array([1])
        stride = int(strides[0]) if strides.size else 0
        row = self._loop.slice(node, shape, int(at[0]) * width, stride * width)
        row.boolean = whole.boolean
        return row[rest] if rest else row

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs and ufunc in _ON_INTEGERS:
            numbers = [i._numbers if isinstance(i, Step) else i for i in inputs]
            if all(isinstance(v, (int, np.integer, np.ndarray)) and not isinstance(v, bool) and
                   (isinstance(i, Step) or np.ndim(v) == 0) for i, v in zip(inputs, numbers)):
                return Step(self._loop, ufunc(*numbers))
        inputs = tuple(i.number() if isinstance(i, Step) else i for i in inputs)
        return getattr(ufunc, method)(*inputs, **kwargs)

    def __index__(self) -> int:
        raise TracingError("the number of a step as an index of a list, or as a number of times")

    __int__ = __index__

    def __float__(self) -> float:
        raise TracingError("float() of the number of a step, by code that is not the traced function's")

    def __bool__(self) -> bool:
        raise TracingError("a branch on the number of a step")

    def __str__(self) -> str:
        raise TracingError("the number of a step as text")

    def __format__(self, form: str) -> str:
        return str(self)

    def __hash__(self) -> int:
        raise TracingError("the number of a step as a key")


_ON_INTEGERS = (np.add, np.subtract, np.multiply, np.floor_divide, np.remainder, np.negative)


class _Loop:
    """A body that is being traced for all steps at once."""

    def __init__(self, trace: Trace, steps: int) -> None:
        self.trace, self.steps = trace, steps
        self.begin = trace.graph.size()
        self.sliced: list[tuple[int, int, int, int]] = []

    def stand_in(self, shape: tuple[int, ...]) -> Array:
        """Elements that stand for those that differ from step to step."""
        size = int(np.prod(shape, dtype=int))
        return self.trace.wrap(self.trace.graph.numbers(np.zeros(size)), shape)

    def slice(self, source: int, shape: tuple[int, ...], first: int, stride: int) -> Array:
        """Elements first + k stride, ... of a node in step k."""
        made = self.stand_in(shape)
        self.sliced.append((made._whole_node(), source, first, stride))
        return made


def _leaves(state: Any) -> list[Any]:
    """The arrays of a state: its parts, if it is a tuple or a list."""
    return list(state) if type(state) in (tuple, list) else [state]


def _like(state: Any, leaves: list[Any]) -> Any:
    return type(state)(leaves) if type(state) in (tuple, list) else leaves[0]


def _parts(state: Any, start: Any) -> list[Any]:
    """The parts of what the body has returned. Raises ValueError if they are not those of the start."""
    if state is None:
        raise TypeError(f"scan: expected the next state from f, got None ({user_location()})")
    if type(start) in (tuple, list):
        found = list(plain(state)) if type(state) in (tuple, list) or np.ndim(state) else [state]
    else:
        found = [state]
    if len(found) != len(_leaves(start)):
        raise ValueError(f"scan: expected a state of {len(_leaves(start))} parts, as the first one, got "
                         f"{len(found)} ({user_location()})")
    for k, (new, old) in enumerate(zip(found, _leaves(start))):
        _check_shape(old, new, start, k)
    return found


def _steps(n: Any) -> int:
    if isinstance(n, Traced) or contains_traced(n):
        raise TracingError("a loop whose length depends on an unknown cannot be traced")
    try:
        count = operator.index(n)
    except TypeError:
        raise TypeError(f"scan: expected a number of steps, got {type(n).__name__} "
                        f"({user_location()})") from None
    if count < 0:
        raise ValueError(f"scan: expected n >= 0 steps, got {count} ({user_location()})")
    return count


def scan(n: int, state: Any, f: Callable[[Any, Any], Any]) -> Any:
    """The states of a loop: state, f(0, state), f(1, f(0, state)), ...

    In a traced function the body runs once, whatever n is, and what it recorded is repeated; values
    and derivatives are those of the loop `for k in range(n): state = f(k, state)`. Numbers run that
    loop. A body that cannot be repeated, because it branches on k or looks up elements of the state
    by k, is traced step by step, and a warning says why.

    Parameters
    ----------
    n : int
        Number of steps. It may not depend on unknowns.
    state : number, array_like, or a tuple or list of these
        The first state; its shape is that of all others.
    f : callable
        f(k, state) returns the next state. k is the number of the step, from 0 on: it may be an index
        of arrays, as in forces[k] or times[k + 1], and a number in expressions.

    Returns
    -------
    array of shape (n + 1, ...), or a tuple or list of these
        All states, the first one included.

    Raises
    ------
    TracingError
        For an n that depends on unknowns, and for what cannot be traced in f.
    ValueError
        For n < 0, and for a state that changes its shape.
    """
    count = _steps(n)
    start = [plain(v) for v in _leaves(state)]
    if contains_traced(start):
        return _traced(tracer_of(start), count, state, start, f)
    try:
        arrays = [np.array(v, float) for v in start]
    except TypeError:
        raise TypeError("scan: expected a state of real numbers, arrays of them, or a tuple or list of these, "
                        f"got {type(state).__name__} ({user_location()})") from None
    if count == 0:
        return _like(state, [a[np.newaxis] for a in arrays])
    several = type(state) in (tuple, list)
    try:
        # A buffer, because the body may put something traced into its elements.
        now = f(0, _like(state, [buffered(a.copy()) if a.ndim else float(a) for a in arrays]))
        kept: Any = [_kept(_parts(now, state)) if several else _kept(_parts(now, state))[0]]
        now = _given(now, state, several)
        for k in range(1, count):
            now = f(k, now)
            if several:
                if type(now) is not type(state) or len(now) != len(start):
                    now = _like(state, [plain(v) for v in _parts(now, state)])
                kept.append(_kept(now))
            else:
                if type(now) not in (float, np.float64, np.ndarray):
                    now = _given(_parts(now, state)[0], state, False)
                kept.append(_kept((now,))[0])
    except _ReadsUnknowns as found:
        return _traced(found.trace, count, state, start, f)
    columns = zip(*kept) if several else [kept]
    return _like(state, [_stacked(a, list(c), state, k) for k, (a, c) in enumerate(zip(arrays, columns))])


def _given(now: Any, state: Any, several: bool) -> Any:
    """What a body has returned as an argument of the next step: lists become arrays."""
    if several:
        return _like(state, [plain(v) for v in now])
    if type(now) in (float, np.float64, np.ndarray):
        return now
    if contains_traced(now):
        raise _ReadsUnknowns(tracer_of(now))
    return np.asarray(plain(now), float)


class _ReadsUnknowns(Exception):
    """The body of a loop over numbers has returned something traced."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace


def _kept(parts: Any) -> list[Any]:
    """Parts of a state as later steps may not change them."""
    for v in parts:
        if type(v) not in (float, np.float64, np.ndarray) and contains_traced(v):
            raise _ReadsUnknowns(tracer_of(v))
    return [v if type(v) in (float, np.float64) else np.array(plain(v), float) for v in parts]


def _stacked(start: np.ndarray, values: list[Any], state: Any, part: int) -> np.ndarray:
    """The values of a part of the state. Raises ValueError if one has another shape."""
    for value in values:
        if type(value) is np.ndarray or start.ndim:
            _check_shape(start, value, state, part)
    return np.concatenate([start[np.newaxis], np.array(values).reshape(-1, *start.shape)])


def _check_shape(old: Any, new: Any, state: Any, part: int) -> None:
    before, after = np.shape(plain(old)), np.shape(plain(new))
    if before != after:
        which = f" (its part {part})" if type(state) in (tuple, list) else ""
        raise ValueError(f"scan: the state{which} has the shape {before}, and becomes one of {after}: it may "
                         f"not change its shape ({user_location()})")


def _traced(trace: Trace, count: int, state: Any, start: list[Any], f: Callable) -> Any:
    arrays = [trace.array(np.asarray(v, float) if not isinstance(v, Traced) else v) for v in start]
    if count == 0:
        return _like(state, [trace.stack([a], 0) for a in arrays])
    try:
        return _like(state, _rolled(trace, count, state, arrays, f))
    except (TracingError, _core.Error, IndexError) as error:
        reason = str(error)
    history = [arrays]
    for k in range(count):
        parts = _parts(f(k, _like(state, [a.copy() for a in history[-1]])), state)
        history.append([trace.array(plain(v)) for v in parts])
    if count >= _MANY:
        trace.slow.append((user_location(), f"scan traced each of {count} steps, because the body cannot "
                                            f"be repeated: {reason}"))
    return _like(state, [trace.stack([h[p] for h in history], 0) for p in range(len(arrays))])


def _rolled(trace: Trace, count: int, state: Any, arrays: list[Array], f: Callable) -> list[Array]:
    starts = [a._whole_node() for a in arrays]
    loop = _Loop(trace, count)
    stand_ins = [loop.stand_in(a.shape) for a in arrays]
    nodes = [a._whole_node() for a in stand_ins]
    found = _parts(f(Step(loop, np.arange(count)), _like(state, list(stand_ins))), state)
    results = [trace.array(plain(v))._whole_node() for v in found]
    histories = trace.graph.repeat(loop.begin, count, loop.sliced, list(zip(nodes, starts, results)))
    return [trace.wrap(h, (count + 1, *a.shape)) for h, a in zip(histories, arrays)]
