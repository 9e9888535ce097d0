"""Loops whose body is traced once: scan, the number of the step that a body gets, and step."""

from __future__ import annotations

import functools
import math
import operator
import types
from typing import Any, Callable, Iterator

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import _core
from ._buffer import buffered
from ._reuse import _globals_of
from ._trace import Array, Scalar, Trace, Traced, TracingError, contains_traced, plain, tracer_of, user_location

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
            elements = (at[:, np.newaxis] * width + np.arange(width)).reshape(-1)
            node = self._loop.trace.graph.gather(node, elements)
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
        value = n if isinstance(n, Array) else None
        which = value._dependence() if value is not None else ""
        raise TracingError("a loop whose length depends on " + (which or "an unknown") + " cannot be traced")
    try:
        count = operator.index(n)
    except TypeError:
        why = ", whose value may be an unknown's" if isinstance(n, (float, np.floating)) else ""
        raise TypeError(f"scan: expected a number of steps, got {type(n).__name__}{why} "
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


def shared(v: Any) -> Any:
    """Marks an intermediate value that several rows read, and returns it.

    In a traced function rows that read a marked value become one computation, in which what they have
    in common is computed once, node by node, however small it is; without the mark, rows with fewer
    than 10,000 different operations each compute it again, by kernels. The Jacobian of such rows is
    dense, so that more than 256 unknowns, or 16,777,216 numbers in it, go without. Values and
    derivatives are the same. Numbers are returned as they are.

    Parameters
    ----------
    v : array_like, or a tuple or list of these
    """
    for leaf in _leaves(v):
        value = plain(leaf)
        if contains_traced(value) and not isinstance(value, Array):
            value = tracer_of(value).array(value)
        if isinstance(value, Array):
            value.tracer.graph.share(value._source if isinstance(value, Scalar) and value._made is None
                                     else value._storage.node)
    return v


class _Differs(Exception):
    """Numbers of a call differ from those with which the body was recorded."""

    def __init__(self, at: set[int]) -> None:
        super().__init__()
        self.at = at


#: Types that are constants of a recorded body, compared by value.
_CONSTANTS = (int, bool, str, bytes, complex, type(None))


class _Recorded:
    """The body of a step for arguments of one kind: nodes that are copied for each call.

    leaves are those of the first call; the numbers of `data` are given anew by each call, all others
    are part of the body.
    """

    def __init__(self, trace: Trace, f: Callable, leaves: list[Any], tree: Any, data: set[int]) -> None:
        loop = _Loop(trace, 1)
        self.begin, self.data, self.leaves = loop.begin, data, leaves
        given = []
        self.stand_ins: list[int] = []
        for k, leaf in enumerate(leaves):
            if isinstance(leaf, Array) or k in data:
                made = loop.stand_in(np.shape(leaf))
                made.boolean = getattr(leaf, "boolean", False)
                self.stand_ins.append(made._whole_node())
                given.append(made)
            else:
                given.append(leaf)
        before = len(trace.slow)
        args, kwargs = _unflattened(tree, iter(given))
        found: list[Any] = []
        self.tree = _flattened(f(*args, **kwargs), found)
        del trace.slow[before:]  # in a body that is recorded once nothing is slow
        self.results: list[Any] = []
        self.nodes: list[int] = []
        for value in found:
            value = plain(value)
            if contains_traced(value) or isinstance(value, Traced):
                array = trace.array(value)
                self.results.append((array.shape, array.boolean))
                self.nodes.append(array._whole_node())
            else:
                self.results.append(value)
        self.end = trace.graph.size()

    def __call__(self, trace: Trace, leaves: list[Any]) -> Any:
        """What the step returns for other arguments. Raises _Differs if they are of another kind."""
        differ = {k for k, (new, old) in enumerate(zip(leaves, self.leaves))
                  if k not in self.data and type(new) is float and not _same_float(new, old)}
        if differ:
            raise _Differs(differ)
        given_at: list[tuple[int, int]] = []
        numbers: list[float] = []
        for k, leaf in enumerate(leaves):
            if isinstance(leaf, Scalar) and leaf._made is None:
                given_at.append((leaf._source, max(leaf._at, 0)))
            elif isinstance(leaf, Array):
                given_at.append((leaf._whole_node(), 0))
            elif k in self.data:
                given_at.append((-1, len(numbers)))
                numbers.extend([leaf] if type(leaf) is float else leaf.ravel().tolist())
        node = trace.graph.numbers(np.array(numbers)) if numbers else 0
        given = [(s, node if source < 0 else source, at) for s, (source, at) in zip(self.stand_ins, given_at)]
        made = iter(trace.graph.copy(self.begin, self.end, given, self.nodes))
        values = []
        for result in self.results:
            if type(result) is not tuple:
                values.append(result)
                continue
            shape, boolean = result
            source, at = next(made)
            if not shape:
                values.append(Scalar(trace, source, at, boolean))
                continue
            size = int(np.prod(shape, dtype=int))
            if at:
                source = trace.graph.gather(source, np.arange(at, at + size, dtype=np.int64))
            values.append(trace.wrap(source, shape, boolean))
        return _unflattened(self.tree, iter(values))


def _same_float(a: float, b: Any) -> bool:
    return a == b and (a != 0 or math.copysign(1, a) == math.copysign(1, b)) or a != a and b != b


def _flattened(value: Any, leaves: list[Any]) -> Any:
    """The structure of tuples, lists and dicts; what is in them is appended to leaves."""
    kind = type(value)
    if kind in (tuple, list):
        return (kind, tuple([_flattened(v, leaves) for v in value]))
    if kind is dict:
        return (kind, tuple(value), tuple([_flattened(v, leaves) for v in value.values()]))
    leaves.append(value)
    return None


def _unflattened(tree: Any, leaves: Iterator[Any]) -> Any:
    if tree is None:
        return next(leaves)
    if tree[0] is dict:
        return dict(zip(tree[1], [_unflattened(t, leaves) for t in tree[2]]))
    return tree[0]([_unflattened(t, leaves) for t in tree[1]])


class _Step:
    """A function that is one step of a chain, recorded once for arguments of one kind."""

    def __init__(self, f: Callable) -> None:
        functools.update_wrapper(self, f)
        self._f = f
        self._names = _globals_of(f.__code__) if isinstance(f, types.FunctionType) else ()

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        tree = _flattened((args, kwargs), leaves)
        leaves = [_number(plain(v)) for v in leaves]
        captured = self._captured()
        trace = next((v.tracer for v in leaves if isinstance(v, Array)), None)
        if trace is None:
            inside = next((c for c in captured if contains_traced(c)), None)
            if inside is None:
                return self._f(*args, **kwargs)
            trace = tracer_of(inside)
        return self._of_traced(trace, args, kwargs, leaves, tree, captured)

    def _captured(self) -> list[Any]:
        """What the body reads beside its arguments: other objects mean another body."""
        if not isinstance(self._f, types.FunctionType):
            return []
        found = []
        for cell in self._f.__closure__ or ():
            try:
                found.append(cell.cell_contents)
            except ValueError:  # not yet assigned
                found.append(None)
        names = self._f.__globals__
        return found + [names[n] for n in self._names if n in names]

    def _of_traced(self, trace: Trace, args: tuple, kwargs: dict, leaves: list[Any], tree: Any,
                   captured: list[Any]) -> Any:
        recorded, held = trace.steps.setdefault(self, ({}, []))
        kinds = tuple([_kind(v) for v in leaves])
        key = (tree, kinds, tuple([c if type(c) is float else id(c) for c in captured]))
        if None in kinds:
            return self._f(*args, **kwargs)
        try:
            known = recorded.get(key, self)
        except TypeError:  # a key that is no key
            return self._f(*args, **kwargs)
        if known is None:
            return self._f(*args, **kwargs)
        data = {k for k, v in enumerate(leaves) if isinstance(v, np.ndarray)}
        if isinstance(known, _Recorded):
            try:
                return known(trace, leaves)
            except _Differs as numbers:
                data = known.data | numbers.at
        held.append((leaves, captured))  # nothing else gets their addresses
        try:
            made = _Recorded(trace, self._f, leaves, tree, data)
        except (TracingError, IndexError) as error:
            # It may branch on a number, or use one as an index: then it is a step of its own each time.
            recorded[key] = None
            trace.slow.append((user_location(), f"topograd.step traced a body again for each call: {error}"))
            return self._f(*args, **kwargs)
        recorded[key] = made
        return made(trace, leaves)


def _number(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return float(value) if isinstance(value, np.floating) else value


def _kind(value: Any) -> Any:
    """What must be the same in two calls for one body to serve both; None if a body cannot be kept."""
    if isinstance(value, Array):
        return ("traced", value.shape, value.boolean)
    if type(value) is float:
        return float
    if isinstance(value, np.ndarray):
        return ("numbers", value.shape) if value.dtype.kind == "f" and type(value) is np.ndarray else None
    if isinstance(value, _CONSTANTS):
        return (type(value), value)
    return None if isinstance(value, Traced) else ("object", id(value))


def step(f: Callable) -> Callable:
    """Marks a function as one step of a chain: ``@topograd.step``.

    In a traced function the body runs once, and what it recorded is copied for each call whose
    arguments have the same structure, shapes and types; values and derivatives are those of the plain
    calls. Called with numbers alone, it is the function itself.

    Parameters
    ----------
    f : callable
        ``f(*args)`` returns arrays and numbers, in tuples, lists or dicts. It must depend on its
        arguments and on what it captures alone, and change neither. Numbers and arrays of numbers may
        differ from call to call, so pass ``u[k]``: an integer ``k`` is part of the body, which is then
        recorded for each k.

    Returns
    -------
    callable
        With the arguments and results of f. A body that cannot be recorded for numbers that differ,
        because it branches on them, is traced for each call, and a warning says why.
    """
    if not callable(f):
        raise TypeError(f"step: expected a function, got {type(f).__name__}")
    return _Step(f)
