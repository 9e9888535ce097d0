"""NumPy arrays that become traced when something traced is put into them."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from . import _functions, _ufuncs
from ._complex import ComplexArray, as_complex, is_complex
from ._trace import (ARRAYS, Array, Flat, Scalar, Trace, TracingError, contains_traced, numbers_in, plain,
                     tracer_of)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


class _Root:
    """Memory that arrays share: where its elements are, and what they are once traced."""

    __slots__ = ("array", "start", "size", "traced")

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.ndarray.view(array, np.ndarray)
        steps = [(n - 1) * s for n, s in zip(array.shape, array.strides)]
        self.start = _address(self.array) + sum(s for s in steps if s < 0)
        self.size = sum(abs(s) for s in steps) + array.itemsize if array.size else 0
        self.traced: Any = None

    def holds(self, array: np.ndarray) -> bool:
        """True if the array's first element lies in this memory."""
        return 0 <= _address(array) - self.start < self.size

    def become_traced(self, trace: Trace) -> None:
        """Takes the present numbers into the trace."""
        array = self.array
        whole = array[tuple(slice(None, None, -1 if s < 0 else 1) for s in array.strides)]
        numbers = np.lib.stride_tricks.as_strided(
            whole, (self.size // array.itemsize,), (array.itemsize,), writeable=False)
        if array.dtype.kind == "c":
            self.traced = as_complex(trace, numbers.copy())
        else:
            self.traced = trace.numbers(numbers)


class Buffer(np.ndarray):
    """A NumPy array of numbers, to NumPy and to compiled code. When something traced is assigned to
    an element, it and all views of its memory act as traced arrays from there on."""

    _root: _Root | None
    #: what the memory had become when a view of it was asked for, and the view
    _seen: tuple[Any, Any] | None

    def __array_finalize__(self, parent: Any) -> None:
        self._root = None
        self._seen = None
        if isinstance(parent, Buffer):
            root = parent.root()
            if root.holds(self):
                self._root = root

    def root(self) -> _Root:
        """The memory that this array shares with its views."""
        if self._root is None:
            self._root = _Root(self)
        return self._root

    def share(self, root: _Root) -> None:
        """Makes this array a view of a memory in which it lies."""
        self._root = root

    @property
    def traced(self) -> Any:
        """The traced array that this one has become, or None."""
        root = self._root
        if root is None or root.traced is None:
            return None
        seen = self._seen
        if seen is not None and seen[0] is root.traced and seen[1].shape == self.shape:
            return seen[1]
        size = root.array.itemsize
        if self.dtype != root.array.dtype or any(s % size for s in self.strides):
            raise TracingError("a view of traced values as another type cannot be traced")
        at = (_address(self) - root.start) // size
        strides = tuple(s // size for s in self.strides)

        def view(whole: Array) -> Array:
            memory = whole._storage.memory
            if at == 0 and self.shape == memory.shape and strides == memory.strides:
                return whole._view(memory)
            return whole._view(np.ndarray(self.shape, memory.dtype, memory, at, strides))

        whole = root.traced
        found = whole._both(view) if isinstance(whole, ComplexArray) else view(whole)
        self._seen = (whole, found)
        return found

    def become_traced(self, value: Any) -> None:
        """Makes this array traced, in the trace of a value that is about to be put into it."""
        root = self.root()
        if self.dtype.kind != "c" and is_complex(value):
            raise TracingError("a complex value into an array of real numbers")
        if self.dtype not in (np.dtype(float), np.dtype(complex)) or self.dtype != root.array.dtype:
            raise TracingError(f"a traced value into an array of {self.dtype}: make it of float64")
        root.become_traced(tracer_of(value))

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(value) is Scalar and type(key) is int:
            traced = self.traced
            if type(traced) is Array:
                traced[key] = value
                return
        if contains_traced((key, value)) and self.traced is None:
            self.become_traced((key, value))
        traced = self.traced
        if traced is None:
            np.ndarray.__setitem__(self, plain(key), plain(value))
        else:
            traced[plain(key)] = plain(value)

    def __getitem__(self, key: Any) -> Any:
        traced = self.traced
        if traced is not None:
            return traced[plain(key)]
        if type(key) is int:
            return np.ndarray.__getitem__(self, key)
        first = key[0] if type(key) is tuple and key else key
        if hasattr(first, "of"):  # the number of a step
            return first.of(np.ndarray.view(self, np.ndarray), key[1:] if type(key) is tuple else ())
        if contains_traced(key):
            return tracer_of(key).array(self)[plain(key)]
        return np.ndarray.__getitem__(self, plain(key))

    @property
    def flat(self) -> Any:
        """The elements, row by row."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        Flat(self)[...] = value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operands = (*inputs, *kwargs.values())
        if contains_traced(operands):
            return _ufuncs.call(tracer_of(operands), ufunc, method, inputs, kwargs)
        out = kwargs.get("out")
        made = getattr(ufunc, method)(*plain(inputs), **{k: plain(v) for k, v in kwargs.items()})
        return out[0] if out is not None and len(out) == 1 else buffered(made)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        operands = (*args, *kwargs.values())
        if contains_traced(operands):
            return _functions.call(tracer_of(operands), func, args, kwargs)
        return super().__array_function__(func, types, args, kwargs)

    def fill(self, value: Any) -> None:
        """Sets all elements."""
        self[...] = value

    def __reduce_ex__(self, protocol: Any) -> Any:
        return np.ndarray.view(self, np.ndarray).__reduce_ex__(protocol)


def _forward() -> None:
    """Methods and attributes act on the traced array once there is one."""

    def method(name: str) -> Callable:
        original = getattr(np.ndarray, name)

        def call(self: Buffer, *args: Any, **kwargs: Any) -> Any:
            traced = self.traced
            if traced is None:
                return original(self, *args, **kwargs)
            return _attribute(traced, name)(*args, **kwargs)

        call.__name__, call.__doc__ = name, original.__doc__
        return call

    def attribute(name: str) -> property:
        original = getattr(np.ndarray, name)

        def get(self: Buffer) -> Any:
            traced = self.traced
            return original.__get__(self) if traced is None else _attribute(traced, name)

        return property(get, original.__set__)

    skipped = ("__new__ __init__ __getattribute__ __setattr__ __delattr__ __dir__ __class__ __doc__ "
               "__init_subclass__ __subclasshook__ __sizeof__ __format__ __hash__ __len__ __repr__ "
               "__str__ __reduce__ __setstate__ __dlpack__ __dlpack_device__").split()
    arithmetic = {n for n in dir(np.lib.mixins.NDArrayOperatorsMixin) if n.startswith("__")}
    shape = "base ctypes data dtype flags itemsize nbytes ndim shape size strides view".split()
    for name in dir(np.ndarray):
        if (name in Buffer.__dict__ or name in arithmetic or name in skipped or name in shape or
                name.startswith("__array")):
            continue
        own = getattr(np.ndarray, name)
        setattr(Buffer, name, method(name) if callable(own) else attribute(name))


def _attribute(traced: Any, name: str) -> Any:
    found = getattr(traced, name, None)
    if found is None:
        raise TracingError(f"the attribute {name} of an array with traced values cannot be traced")
    return found


_forward()


def _add_operators() -> None:
    """Arithmetic with a traced array, which records an op without NumPy's dispatch."""

    def operator(name: str, op: str) -> Any:
        original = getattr(np.ndarray, name)

        def call(self: Buffer, other: Any) -> Any:
            if type(other) is Array or type(other) is Scalar:
                numbers = numbers_in(self)
                if numbers is not None:
                    return other.tracer.apply(op, numbers, other)
            return original(self, other)

        call.__name__ = name
        return call

    for name, op in (("__add__", "add"), ("__sub__", "sub"), ("__mul__", "mul"), ("__truediv__", "div")):
        setattr(Buffer, name, operator(name, op))
    ARRAYS.add(Buffer)


_add_operators()


def buffered(made: Any, roots: Any = ()) -> Any:
    """Arrays of floating-point and complex numbers as buffers, also in tuples and lists; views of
    memory that others have share it."""
    if type(made) is np.ndarray and made.dtype.kind in "fc":
        array = made.view(Buffer)
        for root in roots:
            if root.holds(array):
                array.share(root)
        return array
    if type(made) in (tuple, list):
        return type(made)([buffered(v, roots) for v in made])
    return made
