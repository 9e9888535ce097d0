"""Traces that later calls use again: what a function reads, and which arrays of it are only data.

A trace belongs to a key: the code of the function and of the functions that it calls, the shapes of
the arrays that they read, and all other values that they read. Numbers of arrays may differ between
two calls with one key. The second of them is traced again, and the graphs are compared: where only
data of the graph differs that is an array as it was read, later calls put their numbers there.
"""

from __future__ import annotations

import functools
import math
import opcode
import sys
import threading
import types
from typing import Any, Callable, Iterator

import numpy as np

from ._trace import Array, Trace

#: Traces that are kept, bytes of arrays that a function may read, and nodes of all graphs together.
_MOST_KEPT, _MOST_BYTES, _MOST_NODES = 32, 4 << 20, 640_000
#: Values in containers that are read for a key, and traces that may differ in more than data.
_MOST_VALUES, _MOST_CHANGES = 256, 3
_NUMBERS = (int, bool, complex, str, bytes, type(None), type(Ellipsis))
#: Members of classes that say nothing about values, and the flag of classes that are not C's.
_NOT_READ = frozenset(("__module__", "__doc__", "__dict__", "__weakref__", "__init__", "__annotations__",
                       "__firstlineno__", "__static_attributes__"))
_MADE_IN_PYTHON = 1 << 9
#: Instructions that read a global, and by how many bits the index of its name is shifted in them.
_READS = tuple((opcode.opmap[name], shift) for name, shift in (
    ("LOAD_GLOBAL", int(sys.version_info >= (3, 11))), ("LOAD_NAME", 0), ("LOAD_FROM_DICT_OR_GLOBALS", 0))
    if name in opcode.opmap)
_LIBRARIES = ("numpy", "scipy", "math", "builtins", "cmath", "operator")


class _Unknown(Exception):
    """A value of which nothing says whether it has changed."""


@functools.lru_cache(maxsize=512)
def _globals_of(code: types.CodeType) -> tuple[str, ...]:
    """Names of globals that code and functions that it makes may read. An attribute of the same name is
    none: np.convolve does not read a function convolve of the user's."""
    found: dict[str, None] = {}
    operations, arguments = code.co_code[::2], code.co_code[1::2]
    for operation, shift in _READS:
        at = operations.find(operation)
        while at >= 0:
            index, before = arguments[at], at - 1
            while before >= 0 and operations[before] == opcode.EXTENDED_ARG:
                index |= arguments[before] << 8 * (at - before)
                before -= 1
            found[code.co_names[index >> shift]] = None
            at = operations.find(operation, at + 1)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found.update(dict.fromkeys(_globals_of(inner)))
    return tuple(found)


def _library(name: str | None) -> bool:
    return (name or "").partition(".")[0] in _LIBRARIES


class Reading:
    """What a function reads, as a key, and the arrays among it, in the order of reading."""

    __slots__ = ("key", "arrays", "objects", "_indices", "_left", "_held")

    def __init__(self, function: Callable, args: tuple, kwargs: dict, size: Any) -> None:
        self.arrays: list[np.ndarray] = []
        #: what the key has by its address, which must not be that of something else
        self.objects: list[Any] = []
        self._indices: dict[int, int] = {}
        #: what has a number, so that nothing else gets its address while this reads
        self._held: list[Any] = []
        self._left = _MOST_VALUES
        self.key = (size, self._value(function), self._values(args),
                    self._values(tuple(kwargs.items())) if kwargs else ())
        self._held.clear()
        if sum(a.nbytes for a in self.arrays) > _MOST_BYTES:
            raise _Unknown

    def _values(self, values: tuple) -> tuple:
        return tuple([self._value(v) for v in values])

    def _same(self, value: Any) -> Any:
        self.objects.append(value)
        return id(value)

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if kind is np.ndarray:
            return self._array(value)
        if kind is float:
            return value or (kind, math.copysign(1.0, value))
        if kind in _NUMBERS:
            return (kind, value)
        if kind is types.FunctionType:
            return self._function(value)
        if kind in (types.ModuleType, types.BuiltinFunctionType, np.ufunc) or isinstance(value, type):
            return self._same(value)
        return self._object(value, kind)

    def _array(self, array: np.ndarray) -> Any:
        known = self._indices.get(id(array))
        if known is not None:
            return ("at", known)
        if array.dtype.kind not in "fiubc":
            raise _Unknown
        self._indices[id(array)] = len(self.arrays)
        self.arrays.append(array)
        return (array.shape, array.dtype.char, array.strides)

    def _seen(self, value: Any) -> Any:
        """The number of something that is being read, to which what it has may refer; else None."""
        known = self._indices.get(id(value))
        if known is None:
            self._indices[id(value)] = -1 - len(self._indices)
            self._held.append(value)
            self._left -= 1
            if self._left < 0:
                raise _Unknown
        return known

    def _function(self, function: types.FunctionType) -> Any:
        if _library(function.__module__) or hasattr(function, "_implementation"):
            return self._same(function)
        known = self._seen(function)
        if known is not None:
            return ("at", known)
        if function.__dict__:
            raise _Unknown
        code, names = function.__code__, function.__globals__
        found: list[Any] = [self._same(code), self._same(names)]
        for name in _globals_of(code):
            if name in names:
                found.append(self._value(names[name]))
        for cell in function.__closure__ or ():
            try:
                found.append(self._value(cell.cell_contents))
            except ValueError:  # empty
                raise _Unknown from None
        if function.__defaults__:
            found.append(self._values(function.__defaults__))
        if function.__kwdefaults__:
            found.append(self._values(tuple(function.__kwdefaults__.items())))
        return tuple(found)

    def _object(self, value: Any, kind: type) -> Any:
        if isinstance(value, np.generic):
            return (kind, value.tobytes())
        known = self._seen(value)
        if known is not None:
            return ("at", known)
        if kind in (tuple, list):
            self._left -= len(value)
            return (kind, self._values(tuple(value)))
        if kind is dict:
            self._left -= len(value)
            return (kind, self._values(tuple(value.items())))
        if kind is types.MethodType:
            return (kind, self._value(value.__func__), self._value(value.__self__))
        if kind is functools.partial:
            return (kind, self._value(value.func), self._values(value.args),
                    self._values(tuple(value.keywords.items())))
        return self._instance(value, kind)

    def _interpolator(self, value: Any, kind: type) -> Any:
        """An object of scipy.interpolate: Python's classes, whose methods do not change."""
        found: list[Any] = [self._same(kind)]
        for base in kind.__mro__[:-1]:
            if not base.__flags__ & _MADE_IN_PYTHON:
                raise _Unknown
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__"):
                    found.append(self._value(getattr(value, name, None)))
        return (*found, self._values(tuple(getattr(value, "__dict__", {}).items())))

    def _instance(self, value: Any, kind: type) -> Any:
        if kind.__module__.startswith("scipy.interpolate"):
            return self._interpolator(value, kind)
        found: list[Any] = [self._same(kind)]
        for base in kind.__mro__[:-1]:
            if _library(base.__module__) or "__slots__" in base.__dict__ or not (
                    base.__flags__ & _MADE_IN_PYTHON):
                raise _Unknown
            for name, member in base.__dict__.items():
                if isinstance(member, property):
                    member = member.fget
                elif isinstance(member, (staticmethod, classmethod)):
                    member = member.__func__
                if name not in _NOT_READ:
                    found.append(self._value(member))
        return (*found, self._values(tuple(value.__dict__.items())))


def read(function: Callable, args: tuple, kwargs: dict, size: Any) -> Reading | None:
    """What function(x, *args, **kwargs) reads, with x of this size, which is hashable; None if that cannot
    be said."""
    try:
        reading = Reading(function, args, kwargs, size)
        hash(reading.key)
        return reading
    except (_Unknown, TypeError, AttributeError, RecursionError):
        return None


class Kept:
    """A trace, with the numbers of the arrays that its function read."""

    __slots__ = ("trace", "rows", "nodes", "_objects", "_numbers", "_leaves", "_free", "_changes",
                 "_root", "_engine", "_settings", "_numbers_of",
                 "keeps_engine")

    def __init__(self, trace: Trace, rows: Array, reading: Reading, before: "Kept | None") -> None:
        self.trace, self._objects = trace, reading.objects
        self._root = rows._whole_node()
        self.rows = trace.wrap(self._root, rows.shape)
        #: of the graph, as the cache counts them
        self.nodes = 0
        self._numbers = [a.copy() for a in reading.arrays]
        self._leaves = _leaves(trace, reading.arrays)
        #: arrays whose numbers may differ, in which case those of the leaves are replaced
        self._free: set[int] = set()
        self._changes = 0
        #: False if arrays of the trace cannot be data arrays of a model
        self.keeps_engine = True
        self._engine: Any = None
        self._settings: Any = None
        #: of nodes: the number of the engine's data array
        self._numbers_of: dict[int, int] = {}
        if before is not None:
            self._free, self._changes = before._free, before._changes
            self._learn(before)

    def _learn(self, before: "Kept") -> None:
        """Compares this trace with an earlier one of the same key."""
        changed = {k for k, (a, b) in enumerate(zip(self._numbers, before._numbers))
                   if not _equal(a, b)}
        differing = (self.trace.graph.difference(self._root, before.trace.graph)
                     if self._root == before._root else None)
        leaves = {leaf[0]: leaf[1:] for leaf in self._leaves}
        theirs = {leaf[0]: leaf[1:] for leaf in before._leaves}
        if differing is None or any(
                n not in leaves or leaves[n] != theirs.get(n) or leaves[n][0] not in changed
                for n in differing):
            self._changes += 1
            self._free = set()
        else:
            self._free = self._free | {k for k in changed if self._numbers[k].flags.c_contiguous}

    @property
    def useless(self) -> bool:
        """True if the function does not give the same graph for the same key."""
        return self._changes >= _MOST_CHANGES

    def data(self) -> list[int]:
        """Nodes whose numbers may differ in later calls."""
        return [leaf[0] for leaf in self._leaves if leaf[1] in self._free]

    def engine_for(self, settings: Any) -> Any:
        """The engine that was kept, if it has these settings."""
        return self._engine if self._settings == settings else None

    def keep_engine(self, settings: Any, engine: Any) -> None:
        """Keeps an engine whose data arrays are data()."""
        self._engine, self._settings = engine, settings
        self._numbers_of = {node: k for k, node in enumerate(self.data())}

    def take(self, arrays: list[np.ndarray]) -> bool:
        """Puts the numbers of these arrays into the trace. False if it is not theirs."""
        changed = [k for k, (a, b) in enumerate(zip(arrays, self._numbers)) if not _equal(a, b)]
        if not self._free.issuperset(changed):
            return False
        for node, k, offset, shape, strides in self._leaves:
            if k in changed:
                array = arrays[k]
                if shape != array.shape or offset:
                    array = np.ndarray(shape, array.dtype, array, offset, strides)
                self.trace.graph.replace(node, array)
                if node in self._numbers_of:
                    self._engine.model.set_data(self._numbers_of[node], array)
        for k in changed:
            self._numbers[k] = arrays[k].copy()
        return True


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()


def _leaves(trace: Trace, arrays: list[np.ndarray]) -> list[tuple]:
    """(node, number of the array, offset in bytes, shape, strides) of the data of a trace that is an
    array which the function read, or a view of it."""
    starts = [a.__array_interface__["data"][0] for a in arrays]
    found: list[tuple] = []
    for node, view in trace.sources or ():
        at = view.__array_interface__["data"][0]
        for k, (array, start) in enumerate(zip(arrays, starts)):
            if (start <= at < start + array.nbytes and array.dtype == view.dtype and
                    array.flags.c_contiguous):
                found.append((node, k, at - start, view.shape, view.strides))
                break
    trace.sources = None
    return found


class Cache:
    """Kept traces by their keys; one that is in use is not in the cache."""

    def __init__(self) -> None:
        self._kept: dict[Any, Kept] = {}
        self._nodes = 0
        self._lock = threading.Lock()

    def taken(self, reading: Reading) -> Kept | None:
        """The trace of a key, which the caller puts back."""
        with self._lock:
            return self._remove(reading.key)

    def _remove(self, key: Any) -> Kept | None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._nodes -= kept.nodes
        return kept

    def put(self, reading: Reading, kept: Kept) -> None:
        """Keeps a trace; those that were not used for longest may go. One that would take more than
        half of the room is not kept."""
        kept.nodes = kept.trace.graph.size()
        if kept.nodes > _MOST_NODES // 2:
            return
        with self._lock:
            self._remove(reading.key)
            self._kept[reading.key] = kept
            self._nodes += kept.nodes
            while len(self._kept) > _MOST_KEPT or self._nodes > _MOST_NODES:
                self._remove(next(iter(self._kept)))

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Kept]:
        return iter(list(self._kept.values()))

    def clear(self) -> None:
        """Forgets all."""
        with self._lock:
            self._kept.clear()
            self._nodes = 0


#: Traces of least_squares.
traces = Cache()
