"""Traced arrays: what a function does to its unknowns becomes nodes of a graph in C++."""

from __future__ import annotations

import math
import os
import sys
import types
from typing import Any, Iterator, Sequence

import numpy as np
import scipy
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import _core

#: Folders of this package, NumPy and SciPy.
_NOT_THE_USERS = tuple(
    os.path.dirname(os.path.abspath(file)) + os.sep
    for file in (__file__, np.__file__, scipy.__file__)
)


def _is_users(code: types.CodeType) -> bool:
    """True for code that is neither this package's, NumPy's nor SciPy's, whose compiled functions
    have names of files without a folder."""
    file = code.co_filename
    compiled = file.startswith(("<__array_function__", "stringsource")) or file.endswith(".pyx")
    return not compiled and not os.path.abspath(file).startswith(_NOT_THE_USERS)


def _location(code: types.CodeType, line: int) -> str:
    return f"line {line} of {os.path.basename(code.co_filename)}, in {code.co_name}()"


def user_location() -> str:
    """Line and function of the user's innermost frame."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame.f_code):
            return _location(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return "an unknown line"


def location_of(error: BaseException) -> str:
    """Line and function of the user's innermost frame from which an exception came."""
    found = "an unknown line"
    step = error.__traceback__
    while step is not None:
        if _is_users(step.tb_frame.f_code):
            found = _location(step.tb_frame.f_code, step.tb_lineno)
        step = step.tb_next
    return found


class TracingError(TypeError):
    """Something that cannot be traced; the message names it, with line and function."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} ({user_location()})")


def as_numpy(value: Any) -> np.ndarray:
    """An array-like as a NumPy array, without a copy where the buffer protocol or DLPack allow it."""
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return np.from_dlpack(value)
    return np.asarray(value)


class Trace:
    """The graph of one function, or of one Problem."""

    def __init__(self) -> None:
        self.graph = _core.Graph()
        #: (first unknown, width, count) of reshapes to blocks, in the order of their tracing
        self.blocks: list[tuple[int, int, int]] = []
        #: the same for slices of x, which are used where no reshape says more
        self.slices: list[tuple[int, int, int]] = []
        #: what was summed, by the nodes of sums that are one number
        self.sums: dict[int, "Array"] = {}
        #: elements of arrays that assignments have changed, and the most that a loop may
        self.written, self.most_written = 0, 1 << 62
        #: nodes of data with the arrays that they come from, if they are noted
        self.sources: list[tuple[int, np.ndarray]] | None = None
        #: nodes and shapes of conditions, which are the same where they are written again
        self._conditions: dict[Any, tuple[int, tuple[int, ...]]] = {}
        #: what was slow to trace: (location, advice)
        self.slow: list[tuple[str, str]] = []

    def model(self, rows: "Array", x: np.ndarray, loss: Any, joins_rows: bool,
              data: Sequence[int] = ()) -> Any:
        """The C++ model that minimises these rows over x, in x's memory. Nodes of data that are named
        become data arrays of the model."""
        blocks = self.blocks + self.slices
        return self.graph.model(rows._whole_node(), x, blocks, loss, joins_rows, data)

    def unknowns(self, first: int, shape: tuple[int, ...]) -> "Array":
        """Unknowns first, first + 1, ... of x as an array of this shape."""
        storage = _Storage(self, self.graph.unknowns(first, math.prod(shape)), math.prod(shape))
        storage.unknowns = np.arange(first, first + math.prod(shape), dtype=np.int64)
        return Array(storage, storage.memory.reshape(shape))

    def numbers(self, values: Any, boolean: bool = False) -> "Array":
        """Numbers as data of the residuals. Copies."""
        values = plain(values)
        if isinstance(values, Array):
            return self._own(values)
        array = as_numpy(values)
        if array.dtype.kind not in "fiub":
            raise TracingError(f"numbers of type {array.dtype} cannot be traced")
        node = self.graph.numbers(np.ascontiguousarray(array, dtype=float).reshape(-1))
        if self.sources is not None:
            self.sources.append((node, array))
        return self.wrap(node, array.shape, boolean or array.dtype.kind == "b")

    def wrap(self, node: int, shape: tuple[int, ...], boolean: bool = False) -> "Array":
        """The elements of a node, row by row, as an array of this shape."""
        storage = _Storage(self, node, math.prod(shape))
        return Array(storage, storage.memory.reshape(shape), boolean)

    def apply(self, op: str, *operands: Any, boolean: bool = False) -> "Array":
        """An op of the table, on elements; operands broadcast."""
        key = (op, *map(_place, operands)) if boolean else None
        if key in self._conditions:
            return self.wrap(*self._conditions[key], boolean)
        try:
            node, shape = self.graph.apply(op, *[self._operand(a) for a in operands])
        except _core.ArgumentError as error:
            raise ValueError(str(error)) from None
        if key is not None and None not in key:
            self._conditions[key] = (node, shape)
        return self.wrap(node, shape, boolean)

    def _own(self, value: "Array") -> "Array":
        if value.tracer is not self:
            raise ValueError("expected arrays of this problem, got unknowns or data of another Problem, "
                             f"or of another fit ({user_location()})")
        return value

    def _operand(self, value: Any) -> Any:
        if isinstance(value, Array):
            return self._own(value)._operand()
        if isinstance(value, (float, int, np.number, np.bool_)):
            return float(value)
        return self.array(value)._operand()

    def array(self, value: Any) -> "Array":
        """Anything array-like as a traced array."""
        value = plain(value)
        if isinstance(value, Array):
            return self._own(value)
        if isinstance(value, Traced):
            raise TracingError(value.not_real)
        if isinstance(value, np.ndarray) and value.dtype != object:
            return self.numbers(value)
        if isinstance(value, (list, tuple)) or isinstance(value, np.ndarray):
            if not contains_traced(value):
                return self.numbers(value)
            if isinstance(value, np.ndarray):
                flat = [self.array(v) for v in value.reshape(-1)]
                return self.stack(flat, 0).reshape(value.shape)
            return self.stack([self.array(v) for v in value], 0)
        return self.numbers(value)

    def stack(self, arrays: Sequence["Array"], axis: int) -> "Array":
        """Arrays of one shape side by side, along a new axis."""
        shape = arrays[0].shape
        if any(a.shape != shape for a in arrays):
            raise ValueError("all input arrays must have the same shape")
        axis = range(len(shape) + 1)[axis]
        return self.concatenate([a._expanded(axis) for a in arrays], axis)

    def concatenate(self, arrays: Sequence["Array"], axis: int) -> "Array":
        """Arrays one after the other along an axis."""
        arrays = [a for a in arrays if a.size > 0] or list(arrays[:1])
        if len(arrays) == 1:
            return arrays[0].copy()
        axis = range(arrays[0].ndim)[axis]
        parts = np.concatenate(
            [np.full(a.shape, k, dtype=np.int64) for k, a in enumerate(arrays)], axis
        )
        places = np.concatenate(
            [np.arange(a.size, dtype=np.int64).reshape(a.shape) for a in arrays], axis
        )
        nodes = [a._whole_node() for a in arrays]
        node = self.graph.join(nodes, parts.reshape(-1), places.reshape(-1))
        return self.wrap(node, parts.shape, all(a.boolean for a in arrays))


class _Storage:
    """The elements of an array that owns them; views share it, so that assignments reach them."""

    __slots__ = ("trace", "_node", "memory", "origin", "unknowns", "_pending", "_sources")

    def __init__(self, trace: Trace, node: int, size: int) -> None:
        self.trace = trace
        self._node = node
        # Nobody reads this memory: its views are what NumPy computes shapes and strides with.
        self.memory = np.empty(size, dtype=np.int8)
        self.origin = self.memory.__array_interface__["data"][0]
        self.unknowns: np.ndarray | None = None  # indices in x, if all elements are unknowns
        self._pending: tuple[np.ndarray, np.ndarray] | None = None
        self._sources: list[int] = []

    @property
    def node(self) -> int:
        """The node of the present elements."""
        if self._node < 0 and self._pending is not None:
            trace = self.trace
            trace.written += self.memory.size
            if trace.written > trace.most_written:
                raise TracingError("a loop that fills an array and reads it takes too long to trace; use "
                                   "lists, or operations on whole arrays")
            self._node = trace.graph.join(self._sources, *self._pending)
        return self._node

    def frozen(self) -> "_Storage":
        """The present elements, in the same memory."""
        copy = object.__new__(_Storage)
        copy.trace, copy._node, copy.memory, copy.origin = (
            self.trace, self.node, self.memory, self.origin)
        copy.unknowns, copy._pending, copy._sources = self.unknowns, None, []
        return copy

    def assign(self, positions: np.ndarray, value: "Array") -> None:
        """Replaces the elements at these positions by those of a value of their shape."""
        source = value._whole_node()
        if self._pending is None:
            size = self.memory.size
            self._sources = [self._node]
            self._pending = (np.zeros(size, np.int64), np.arange(size, dtype=np.int64))
        parts, places = self._pending
        parts[positions] = len(self._sources)
        places[positions] = np.arange(value.size, dtype=np.int64).reshape(positions.shape)
        self._sources.append(source)
        self._node = -1
        self.unknowns = None


def _place(value: Any) -> Any:
    """What names an operand; None if nothing does."""
    if isinstance(value, Array):
        return value._whole_place()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.nbytes <= 1 << 20:
        return (value.shape, value.dtype.char, value.tobytes())
    return float(value) if isinstance(value, (float, int, np.number, np.bool_)) else None


class Flat:
    """The elements of an array, row by row, to read and to assign."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def _at(self, key: Any) -> Any:
        return np.unravel_index(np.arange(self._array.size)[key], self._array.shape)

    def __getitem__(self, key: Any) -> Any:
        return self._array[self._at(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        at = self._at(key)
        if np.ndim(value) > 0:  # the elements of the value, again and again
            value = np.resize(value, np.shape(at[0]) if at else ())
        self._array[at] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self._array.reshape(-1))

    def __len__(self) -> int:
        return int(self._array.size)

    def __array__(self, *args: Any, **_: Any) -> np.ndarray:
        return np.asarray(self._array.reshape(-1), *args)

    def copy(self) -> Any:
        """The elements as an array."""
        return self._array.flatten()


class Traced:
    """What a traced function computes with: arrays of real or complex expressions."""

    __slots__ = ()
    #: why this is no array of real expressions
    not_real = ("complex numbers where real ones are needed: use .real, .imag, np.abs or view(float)")


class Array(Traced, NDArrayOperatorsMixin):
    """An array whose elements are expressions of unknowns, with NumPy's interface.

    `shape`, `ndim`, `size` and `dtype` are known while a function is traced, values are not: a
    branch on a value, `float()` or `.item()` raises TracingError.
    """

    __slots__ = ("_storage", "_shadow", "boolean")
    __array_priority__ = 1000

    def __init__(self, storage: _Storage, shadow: np.ndarray, boolean: bool = False) -> None:
        self._storage = storage
        self._shadow = shadow
        self.boolean = boolean

    # Shapes.

    @property
    def tracer(self) -> Trace:
        """The trace to which this array belongs."""
        return self._storage.trace

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return self._shadow.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        self._shadow = self.reshape(shape)._shadow

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._shadow.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._shadow.size

    @property
    def dtype(self) -> np.dtype:
        """float64, or bool for the result of a comparison."""
        return np.dtype(bool if self.boolean else float)

    @property
    def T(self) -> "Array":
        """The transposed array."""
        return self._view(self._shadow.T)

    @property
    def real(self) -> "Array":
        """The array itself."""
        return self

    @property
    def imag(self) -> "Array":
        """Zeros."""
        return self.tracer.numbers(np.zeros(self.shape))

    @property
    def flat(self) -> "Flat":
        """The elements, row by row."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        Flat(self)[...] = value

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator["Array"]:
        count = len(self)
        if count > 10_000:
            self.tracer.slow.append(
                (user_location(), f"a loop over {count} elements; use operations on whole arrays")
            )
        return (self[k] for k in range(count))

    def __repr__(self) -> str:
        return f"<traced array of shape {self.shape}>"

    # Elements.

    def _operand(self) -> tuple[int, int, np.ndarray]:
        storage = self._storage
        return (storage.node, storage.origin, self._shadow)

    def _view(self, shadow: Any) -> "Array":
        if not isinstance(shadow, np.ndarray):  # NumPy gives numbers for some views of no axes
            shadow = self._shadow.reshape(())
        return Array(self._storage, shadow, self.boolean)

    def _offset(self) -> int:
        return self._shadow.__array_interface__["data"][0] - self._storage.origin

    def _positions(self) -> np.ndarray:
        """Positions in the storage, in this array's shape."""
        whole = np.arange(self._storage.memory.size, dtype=np.int64)
        return np.lib.stride_tricks.as_strided(
            whole[self._offset():], self.shape, [8 * s for s in self._shadow.strides]
        )

    def _whole_place(self) -> tuple:
        """What names these elements: the node, and where in it they are."""
        return (self._storage.node, self._offset(), self.shape, self._shadow.strides)

    def _is_whole(self) -> bool:
        return (
            self.size == self._storage.memory.size
            and self._shadow.flags.c_contiguous
            and self._offset() == 0
        )

    def _whole_node(self) -> int:
        """A node with this array's elements, row by row."""
        storage = self._storage
        if self._is_whole():
            return storage.node
        return self.tracer.graph.gather(storage.node, self._positions().reshape(-1))

    def _expanded(self, axis: int) -> "Array":
        return self._view(np.expand_dims(self._shadow, axis))

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, Traced) for k in parts):
            from . import _masked

            return _masked.Masked(self, _masked.condition_of(key))
        if all(k is None or k is Ellipsis or isinstance(k, (slice, int, np.integer)) and
               not isinstance(k, bool) for k in parts):
            shadow = self._shadow[key]
            if isinstance(shadow, np.int8):  # one element: NumPy gives a number, not a view
                return self._element(self._shadow[(*parts, Ellipsis)])
            taken = self._view(shadow)
            if self._storage.unknowns is not None:
                taken._note_slice(self._storage.unknowns)
            return taken
        positions = self._positions()[key]
        node = self.tracer.graph.gather(self._storage.node, positions.reshape(-1))
        taken = self.tracer.wrap(node, positions.shape, self.boolean)
        if self._storage.unknowns is not None:
            taken._storage.unknowns = self._storage.unknowns[positions.reshape(-1)]
        return taken

    def _element(self, shadow: np.ndarray) -> "Array":
        """One element, as it is now: later assignments do not change it."""
        storage = self._storage
        if storage._pending is None:
            return Array(storage.frozen(), shadow, self.boolean)
        at = shadow.__array_interface__["data"][0] - storage.origin
        parts, places = storage._pending
        source = storage._sources[int(parts[at])]
        node = storage.trace.graph.gather(source, places[at: at + 1])
        return storage.trace.wrap(node, (), self.boolean)

    def _note_slice(self, unknowns: np.ndarray) -> None:
        if self.ndim == 1 and 1 < self.size <= 16 and self._shadow.strides[0] == 1:
            first = int(unknowns[self._offset()])
            self.tracer.slices.append((first, self.size, 1))

    def times(self, scale: np.ndarray) -> "Array":
        """Unknowns in other units: still unknowns for blocks and selections."""
        product = self * scale
        product._storage.unknowns = self._storage.unknowns
        return product

    def unknowns(self) -> np.ndarray:
        """Indices in x of the elements, in their shape. Raises ValueError if they are not unknowns."""
        if self._storage.unknowns is None:
            raise ValueError("expected unknowns or a selection of them, got an expression")
        return self._storage.unknowns[self._positions()]

    def __setitem__(self, key: Any, value: Any) -> None:
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, Traced) for k in parts):
            from . import _masked

            return _masked.assign(self, key, value)
        positions = np.asarray(self._positions()[key])
        array = self.tracer.array(value)
        shadow = array._shadow
        while shadow.ndim > positions.ndim and shadow.shape[0] == 1:
            shadow = shadow[0]
        array = array._view(np.broadcast_to(shadow, positions.shape))
        self._storage.assign(positions, array)

    def _assign(self, value: "Array") -> "Array":
        self[...] = value
        return self

    # NumPy's protocols.

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from . import _ufuncs

        return _ufuncs.call(self.tracer, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from . import _functions

        return _functions.call(self.tracer, func, args, kwargs)

    # Methods.

    def reshape(self, *shape: Any, order: str = "C") -> "Array":
        """The same elements in another shape; order 'C'."""
        if order == "F":
            whole = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
            sizes = np.empty(self.shape, np.int8).reshape(tuple(whole) if np.ndim(whole) else whole).shape
            return self.T.reshape(sizes[::-1]).T
        if order not in ("C", "A", "K"):
            raise TracingError(f"reshape in order {order!r} cannot be traced")
        if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)):
            shape = tuple(shape[0])
        if not self._shadow.flags.c_contiguous:
            return self.copy().reshape(shape)
        result = self._view(self._shadow.reshape(shape))
        unknowns = self._storage.unknowns
        if unknowns is not None and result.ndim == 2 and 1 < result.shape[1] <= 16:
            first = int(unknowns[self._offset()])
            self.tracer.blocks.append((first, result.shape[1], result.shape[0]))
        return result

    def ravel(self, order: str = "C") -> "Array":
        """The elements in one axis."""
        return self.reshape(-1, order=order)

    flatten = ravel

    def copy(self, order: str = "C") -> "Array":
        """An array of its own with these elements."""
        return self.tracer.wrap(self._whole_node(), self.shape, self.boolean)

    def astype(self, dtype: Any, **_: Any) -> Any:
        """The array itself; only floating-point and complex types can be traced."""
        if np.dtype(dtype).kind == "c":
            return self + 0j
        if np.dtype(dtype).kind == "f":
            return self.copy() if not self.boolean else self * 1.0
        raise TracingError(f"astype({dtype}) cannot be traced")

    def transpose(self, *axes: Any) -> "Array":
        """Axes in another order."""
        return self._view(self._shadow.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> "Array":
        """Two axes exchanged."""
        return self._view(self._shadow.swapaxes(a, b))

    def squeeze(self, axis: Any = None) -> "Array":
        """Without axes of one element."""
        return self._view(self._shadow.squeeze(axis))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Array":
        """A diagonal."""
        return self._view(self._shadow.diagonal(offset, axis1, axis2))

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **_: Any) -> "Array":
        """Between bounds, of which either may be missing."""
        found: Any = self if min is None else np.maximum(self, min)  # type: ignore[call-overload]
        found = found if max is None else np.minimum(found, max)
        return found if out is None else out._assign(found)

    def compress(self, condition: Any, axis: Any = None) -> "Array":
        """The elements at which a condition of numbers holds."""
        return np.compress(condition, self, axis)  # type: ignore[call-overload]

    def sort(self, axis: int = -1, **_: Any) -> None:
        """Sorts along an axis, in place."""
        self[...] = np.sort(self.copy(), axis=axis)  # type: ignore[call-overload]

    def __round__(self, digits: int | None = None) -> "Array":
        return np.round(self, digits or 0)  # type: ignore[call-overload]

    def fill(self, value: Any) -> None:
        """Sets all elements."""
        self[...] = value

    def __copy__(self) -> "Array":
        return self.copy()

    def __deepcopy__(self, _: Any) -> "Array":
        return self.copy()

    def __reduce__(self) -> Any:
        raise TypeError("an array of unknowns cannot be pickled; its numbers are in `value`")

    def __bool__(self) -> bool:
        raise TracingError("a branch on a value cannot be traced; use np.where")

    def __float__(self) -> float:
        raise TracingError("float() of a traced value, by code that is not the traced function's")

    def __int__(self) -> int:
        raise TracingError("a traced value as an integer, or in an array of integers, cannot be traced")

    __index__ = __int__
    __complex__ = __float__

    def item(self, *at: Any) -> "Array":
        """One element, still traced."""
        if not at:
            if self.size != 1:
                raise ValueError("can only convert an array of size 1 to a Python scalar")
            return self.reshape(())
        return self[at] if len(at) == self.ndim else self.reshape(-1)[at[0]]

    def tolist(self) -> Any:
        """Lists of the elements, still traced."""
        return [row.tolist() for row in self] if self.ndim else self


def _traced_inside(value: Any) -> Any:
    """A traced array: the value itself, what it has become, or one inside; None if there is none."""
    if isinstance(value, Traced):
        return value
    if isinstance(value, (list, tuple)):
        return next((t for t in map(_traced_inside, value) if t is not None), None)
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return next((v for v in value.reshape(-1) if isinstance(v, Traced)), None)
        if type(value) is not np.ndarray:
            return getattr(value, "traced", None)
    return None


def contains_traced(value: Any) -> bool:
    """True for a traced array, and for lists, tuples and object arrays that have one inside."""
    return _traced_inside(value) is not None


def tracer_of(value: Any) -> Trace:
    """The trace of what contains_traced."""
    return _traced_inside(value).tracer


def plain(value: Any) -> Any:
    """Buffers as what they stand for, traced arrays or NumPy's, also in lists and tuples."""
    if isinstance(value, np.ndarray):
        if type(value) is np.ndarray or not hasattr(value, "traced"):
            return value
        traced = getattr(value, "traced")
        return np.ndarray.view(value, np.ndarray) if traced is None else traced
    if type(value) in (list, tuple):
        found = [plain(v) for v in value]
        if any(a is not b for a, b in zip(found, value)):
            return type(value)(found)
    return value


def _add_methods() -> None:
    """Methods that are functions of NumPy by the same name, and those that object arrays call."""

    def method(func: Any) -> Any:
        def call(self: Array, *args: Any, **kwargs: Any) -> Any:
            return func(self, *args, **kwargs)

        call.__name__ = func.__name__
        call.__doc__ = f"np.{func.__name__} of this array."
        return call

    for name in ("sum mean prod min max dot cumsum cumprod repeat take std var trace round ptp all "
                 "any").split():
        setattr(Array, name, method(getattr(np, name)))
    for name in (
        "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp exp2 expm1 "
        "log log2 log10 log1p sqrt cbrt square reciprocal fabs sign floor ceil rint trunc hypot "
        "arctan2 deg2rad rad2deg conjugate isnan isfinite isinf"
    ).split():
        setattr(Array, name, method(getattr(np, name)))
    setattr(Array, "conj", getattr(Array, "conjugate"))


_add_methods()
