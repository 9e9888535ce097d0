"""Traced arrays: what a function does to its unknowns becomes nodes of a graph in C++."""

from __future__ import annotations

import functools
import linecache
import math
import os
import sys
import types
from typing import Any, Callable, Iterator, Sequence

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


def _users_frame() -> types.FrameType | None:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code):
        frame = frame.f_back
    return frame


def user_location() -> str:
    """Line and function of the user's innermost frame."""
    frame = _users_frame()
    return "an unknown line" if frame is None else _location(frame.f_code, frame.f_lineno)


def _is_in_while() -> bool:
    """True if the user's innermost frame is at a line that begins with while."""
    frame = _users_frame()
    if frame is None:
        return False
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("while")


def _library_in_use() -> str:
    """The function of a library that the user's innermost frame has called."""
    frame: types.FrameType | None = sys._getframe(1)
    called = None
    while frame is not None and not _is_users(frame.f_code):
        if frame.f_globals.get("__package__") != __package__:
            called = frame
        frame = frame.f_back
    if called is None:
        return "code that is not the traced function's"
    return f"{called.f_globals.get('__name__')}.{called.f_code.co_name}"


def location_of_function(function: Any) -> str:
    """Where a function of the user begins."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(getattr(function, "__call__", None), "__code__", None)
    return user_location() if code is None or not _is_users(code) else _location(code, code.co_firstlineno)


def location_of(error: BaseException) -> str:
    """Line and function of the user's innermost frame from which an exception came."""
    found = "an unknown line"
    step = error.__traceback__
    while step is not None:
        if _is_users(step.tb_frame.f_code):
            found = _location(step.tb_frame.f_code, step.tb_lineno)
        step = step.tb_next
    return found


class NotReal(TypeError):
    """A function returned something else than real numbers."""


def returned(function: Any, found: Any) -> Any:
    """What a function returned. Raises NotReal for None, which one without a return statement returns."""
    if found is None:
        raise NotReal("the function must return numbers, got None: has it a return statement? "
                      f"({location_of_function(function)})")
    return found


class TracingError(TypeError):
    """Something that cannot be traced; the message names it, with line and function."""

    def __init__(self, what: str, where: str | None = None) -> None:
        super().__init__(f"{what} ({where or user_location()})")


_POSITIONS = ("positions that depend on unknowns are not known: use np.where, np.sort, np.minimum or np.maximum, "
              "or find them outside of the function")
_FACTORS = ("np.linalg.solve, inv, det and cholesky can be traced; eigenvalues and vectors can be unknowns of "
            "their own, with A v - lambda v among the residuals")
_ROOTS = ("make the root an unknown, with its equation among the residuals, or write a fixed number of Newton's "
          "steps")
_TABLES = ("interpolators of one variable, RegularGridInterpolator by 'linear' and RectBivariateSpline can be traced, "
           "of fixed numbers")
#: What to write instead of a function, by its name.
_INSTEAD = {
    **dict.fromkeys("argmax argmin nanargmax nanargmin argsort argpartition searchsorted digitize nonzero flatnonzero "
                    "argwhere unique lexsort count_nonzero histogram histogram2d".split(), _POSITIONS),
    **dict.fromkeys("eig eigh eigvals eigvalsh svd svdvals qr sqrtm logm polar schur lu ldl null_space orth pinvh "
                    "matrix_rank cond".split(), _FACTORS),
    **dict.fromkeys("brentq brenth bisect ridder newton toms748 root_scalar root fsolve fixed_point minimize "
                    "minimize_scalar least_squares leastsq curve_fit".split(), _ROOTS),
    **dict.fromkeys("interpn griddata RBFInterpolator LinearNDInterpolator CloughTocher2DInterpolator "
                    "NearestNDInterpolator RegularGridInterpolator bisplev _rgi _rbfinterp _fitpack2 _interpolate "
                    "interpnd _ndgriddata".split(), _TABLES),
}


def cannot(name: str, what: str = "{}") -> str:
    """The message on a function of a library, with what to write instead. Private modules are left out.

      what  names it, with {} in place of the function's name
    """
    parts = name.split(".")
    shown = ".".join(p for k, p in enumerate(parts) if not p.startswith("_") or p.startswith("__") or k == 0)
    advice = next((_INSTEAD[p] for p in reversed(parts) if p in _INSTEAD), "")
    return f"{what.format(shown)} cannot be traced" + (f": {advice}" if advice else "")


class Handlers:
    """What runs for NumPy's functions of traced arrays. The modules above this one enter it, so that
    imports between modules form no circle."""

    ufunc: Any  #: _ufuncs.call
    function: Any  #: _functions.call
    chosen: Any  #: _masked.chosen
    assign_chosen: Any  #: _masked.assign


handlers = Handlers()


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
        #: elements of arrays that assignments have changed, and the most that a loop may
        self.written, self.most_written = 0, 1 << 62
        #: nodes of data with the arrays that they come from, if they are noted
        self.sources: list[tuple[int, np.ndarray]] | None = None
        #: nodes and shapes of conditions, which are the same where they are written again
        self._conditions: dict[Any, tuple[int, tuple[int, ...]]] = {}
        #: conditions that hold wherever the function is used: its values are finite there
        self.assumed: dict[int, bool] = {}
        #: the numbers of the unknowns at the start, if they are known
        self.start: Callable[[], np.ndarray] | None = None
        #: relative tolerance of integrations whose steps were chosen by these numbers; 0: none
        self.integrated = 0.0
        #: bodies of functions that are steps of chains, and what these bodies captured
        self.steps: dict[Any, tuple[dict, list]] = {}
        #: eliminations of matrices, by node and shape
        self.factors: dict[Any, Any] = {}
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
        # The memory itself, where it has the shape, says that these are all elements.
        return Array(storage, storage.memory if len(shape) == 1 else storage.memory.reshape(shape))

    def numbers(self, values: Any, boolean: bool = False) -> "Array":
        """Numbers as data of the residuals. Copies."""
        if type(values) is np.ndarray:
            array = values
        else:
            values = plain(values)
            if isinstance(values, Array):
                return self._own(values)
            if isinstance(values, np.ma.MaskedArray) and np.any(values.mask):
                raise TracingError("masked arrays cannot be traced; use compressed(), or rows without what is "
                                   "masked")
            array = as_numpy(values)
        if array.dtype.kind not in "fiub":
            raise TracingError(f"numbers of type {array.dtype} cannot be traced")
        plainly = array.ndim == 1 and array.dtype.char == "d" and array.flags.c_contiguous
        node = self.graph.numbers(array if plainly else np.ascontiguousarray(array, dtype=float).reshape(-1))
        if self.sources is not None:
            self.sources.append((node, array))
        return self.wrap(node, array.shape, boolean or array.dtype.kind == "b")

    def wrap(self, node: int, shape: tuple[int, ...], boolean: bool = False) -> "Array":
        """The elements of a node, row by row, as an array of this shape."""
        if not shape:
            return Scalar(self, node, -1, boolean)
        if len(shape) == 1:
            storage = _Storage(self, node, shape[0])
            return Array(storage, storage.memory, boolean)
        storage = _Storage(self, node, math.prod(shape))
        return Array(storage, storage.memory.reshape(shape), boolean)

    def apply(self, op: str, *operands: Any, boolean: bool = False) -> "Array":
        """An op of the table, on elements; operands broadcast."""
        key = (op, *map(_identity, operands)) if boolean else None
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
        kind = type(value)
        if kind is float:
            return value
        if kind is Array:
            storage = value._storage
            if storage.trace is not self:
                self._own(value)
            return (storage.node, storage.memory, value._shadow)
        if kind is Scalar:
            return self._own(value)._operand()
        if kind is np.ndarray and value.dtype.kind in "fiub":
            return self.numbers(value)._operand()
        if isinstance(value, (float, int, np.number, np.bool_)):
            return float(value)
        return self.array(value)._operand()

    def array(self, value: Any) -> "Array":
        """Anything array-like as a traced array."""
        if type(value) is Scalar:
            return self._own(value)
        value = plain(value)
        if isinstance(value, Array):
            return self._own(value)
        if isinstance(value, Traced):
            if hasattr(type(value), "number"):  # of a step
                return value.number()  # type: ignore[attr-defined]
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
        if all(type(a) is Scalar and a._made is None for a in arrays):
            offsets = np.array([max(a._at, 0) for a in arrays], dtype=np.int64)  # type: ignore[attr-defined]
            sources = [a._source for a in arrays]  # type: ignore[attr-defined]
            node = self.graph.join(sources, np.arange(len(arrays), dtype=np.int64), offsets)
            return self.wrap(node, (len(arrays),), all(a.boolean for a in arrays))
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
        offsets = np.concatenate(
            [np.arange(a.size, dtype=np.int64).reshape(a.shape) for a in arrays], axis
        )
        nodes = [a._whole_node() for a in arrays]
        node = self.graph.join(nodes, parts.reshape(-1), offsets.reshape(-1))
        return self.wrap(node, parts.shape, all(a.boolean for a in arrays))


class _Storage:
    """The elements of an array that owns them; views share it, so that assignments reach them."""

    __slots__ = ("trace", "_node", "memory", "_origin", "unknowns", "_pending", "_sources")

    def __init__(self, trace: Trace, node: int, size: int) -> None:
        self.trace = trace
        self._node = node
        # Nobody reads this memory: its views are what NumPy computes shapes and strides with.
        self.memory = np.empty(size, dtype=np.int8)
        self._origin = 0  # not yet asked for
        self.unknowns: np.ndarray | None = None  # indices in x, if all elements are unknowns
        self._pending: tuple[np.ndarray, np.ndarray] | None = None
        self._sources: list[int] = []

    @property
    def origin(self) -> int:
        """The address of the memory."""
        if self._origin == 0:
            self._origin = self.memory.__array_interface__["data"][0]
        return self._origin

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
        copy.trace, copy._node, copy.memory, copy._origin = (
            self.trace, self.node, self.memory, self._origin)
        copy.unknowns, copy._pending, copy._sources = self.unknowns, None, []
        return copy

    def element(self, at: int, boolean: bool) -> "Scalar":
        """The present element at a position."""
        if self._pending is not None:
            parts, offsets = self._pending
            return Scalar(self.trace, self._sources[parts[at]], int(offsets[at]), boolean)
        if self.unknowns is not None:
            return Scalar(self.trace, self._node, at, boolean, int(self.unknowns[at]))
        return Scalar(self.trace, self._node, at, boolean)

    def _changing(self) -> tuple[np.ndarray, np.ndarray]:
        """For each element the source that has it, and where, to be changed."""
        if self._pending is None:
            size = self.memory.size
            self._sources = [self._node]
            self._pending = (np.zeros(size, np.int64), np.arange(size, dtype=np.int64))
        return self._pending

    def assign_element(self, at: int, source: int, offset: int) -> None:
        """Replaces one element by one of a node."""
        parts, offsets = self._changing()
        parts[at] = len(self._sources)
        offsets[at] = offset
        self._sources.append(source)
        self._node = -1
        self.unknowns = None

    def assign(self, positions: np.ndarray, value: "Array") -> None:
        """Replaces the elements at these positions by those of a value of their shape."""
        source = value._whole_node()
        parts, offsets = self._changing()
        parts[positions] = len(self._sources)
        offsets[positions] = np.arange(value.size, dtype=np.int64).reshape(positions.shape)
        self._sources.append(source)
        self._node = -1
        self.unknowns = None


def _identity(value: Any) -> Any:
    """What names an operand; None if nothing does."""
    if isinstance(value, Array):
        return value._identity()
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
        if self._shadow is self._storage.memory:
            element, boolean = self._storage.element, self.boolean
            return (element(k, boolean) for k in range(count))
        return (self[k] for k in range(count))

    def __repr__(self) -> str:
        return f"<traced array of shape {self.shape}>"

    # Elements.

    def _operand(self) -> tuple:
        storage = self._storage
        return (storage.node, storage.memory, self._shadow)

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

    def _identity(self) -> tuple:
        """What names these elements: the node, and where in it they are."""
        return (self._storage.node, self._offset(), self.shape, self._shadow.strides)

    def _is_whole(self) -> bool:
        return self._shadow is self._storage.memory or (
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

    def _index(self, key: Any) -> int:
        """Where the storage has the element with this index; -1 if it is no plain index."""
        shadow, memory = self._shadow, self._storage.memory
        if type(key) is int:
            count = len(memory)
            if shadow is not memory or not -count <= key < count:
                return -1
            return key + count if key < 0 else key
        if (type(key) is not tuple or len(key) != shadow.ndim or shadow.size != memory.size or
                not shadow.flags.c_contiguous):
            return -1
        at = 0
        for k, count in zip(key, shadow.shape):
            if type(k) is not int or not -count <= k < count:
                return -1
            at = at * count + (k + count if k < 0 else k)
        return at

    def __getitem__(self, key: Any) -> Any:
        at = self._index(key)
        if at >= 0:
            return self._storage.element(at, self.boolean)
        if type(key) is slice:
            return self._taken(self._shadow[key])
        parts = key if isinstance(key, tuple) else (key,)
        if hasattr(parts[0] if parts else None, "of"):  # the number of a step
            return parts[0].of(self, parts[1:])
        if any(isinstance(k, Traced) for k in parts):
            return handlers.chosen(self, key)
        if all(k is None or k is Ellipsis or isinstance(k, (slice, int, np.integer)) and
               not isinstance(k, bool) for k in parts):
            shadow = self._shadow[key]
            if isinstance(shadow, np.int8):  # one element: NumPy gives a number, not a view
                return self._element(self._shadow[(*parts, Ellipsis)])
            return self._taken(shadow)
        positions = self._positions()[key]
        node = self.tracer.graph.gather(self._storage.node, positions.reshape(-1))
        taken = self.tracer.wrap(node, positions.shape, self.boolean)
        if self._storage.unknowns is not None:
            taken._storage.unknowns = self._storage.unknowns[positions.reshape(-1)]
        return taken

    def _taken(self, shadow: np.ndarray) -> "Array":
        """A part of this array, which shares its elements."""
        taken = self._view(shadow)
        if self._storage.unknowns is not None:
            taken._note_slice(self._storage.unknowns)
        return taken

    def _element(self, shadow: np.ndarray) -> "Array":
        """One element, as it is now: later assignments do not change it."""
        storage = self._storage
        at = shadow.__array_interface__["data"][0] - storage.origin
        return storage.element(at, self.boolean)

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
        if type(value) is Scalar and value._made is None and value._trace is self._storage.trace:
            at = self._index(key)
            if at >= 0:
                self._storage.assign_element(at, value._source, max(value._at, 0))
                return
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, Traced) for k in parts):
            return handlers.assign_chosen(self, key, value)
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
        reflected = _REFLECTED.get(ufunc)
        if reflected is not None and method == "__call__" and not kwargs and type(inputs[0]) is np.float64:
            other = inputs[1]
            if type(other) is Scalar or type(other) is Array:  # NumPy's numbers do not leave it to the other
                return reflected(other, float(inputs[0]))
        return handlers.ufunc(self.tracer, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return handlers.function(self.tracer, func, args, kwargs)

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
        assumed = self.tracer.assumed.get(self._whole_node()) if self.boolean else None
        if assumed is not None:
            return assumed
        if _is_in_while():
            raise TracingError(f"a loop whose length depends on {self._dependence() or 'an unknown'} cannot be "
                               "traced")
        raise TracingError("a branch on a value cannot be traced; use np.where(condition, a, b), and & and | for "
                           "and and or")

    def __format__(self, _: str) -> str:
        return repr(self)

    def __float__(self) -> float:
        raise TracingError(cannot(_library_in_use(), "float() of a traced value, by {},"))

    def __int__(self) -> int:
        which = self._dependence()
        raise TracingError("a traced value as an integer, or in an array of integers, cannot be traced" +
                           (f": the length of a loop, a size or an index may not depend on {which}"
                            if which else ""))

    def _dependence(self) -> str:
        """The unknowns on which this value depends, by their numbers: "x[0] and x[2]"."""
        if self.size > 1000:
            return ""
        names = [f"x[{k}]" for k in self.tracer.graph.unknowns_of(self._whole_node())]
        if len(names) > 3:
            return f"{', '.join(names[:3])} and {len(names) - 3} more unknowns"
        return " and ".join(names)

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


class Scalar(Array):
    """One element of a node, which is to traced arrays what NumPy's numbers are to its arrays."""

    __slots__ = ("_trace", "_source", "_at", "_unknown", "_made")

    def __init__(self, trace: Trace, source: int, at: int, boolean: bool = False,
                 unknown: int = -1) -> None:
        self._trace, self._source, self.boolean = trace, source, boolean
        #: position in the source; -1 if that has one element
        self._at = at
        #: index in x, if it is an unknown
        self._unknown = unknown
        #: a storage of its own, if somebody asked for one
        self._made: _Storage | None = None

    @property
    def _storage(self) -> _Storage:  # type: ignore[override]
        if self._made is None:
            at = np.array([self._at], dtype=np.int64)
            node = self._source if self._at < 0 else self._trace.graph.gather(self._source, at)
            self._made = _Storage(self._trace, node, 1)
            if self._unknown >= 0:
                self._made.unknowns = np.array([self._unknown], dtype=np.int64)
        return self._made

    @property
    def _shadow(self) -> np.ndarray:  # type: ignore[override]
        return self._storage.memory.reshape(())

    def _operand(self) -> tuple:
        if self._made is not None:
            return super()._operand()
        return (self._source, self._at)

    def _whole_node(self) -> int:
        return self._source if self._at < 0 and self._made is None else super()._whole_node()

    @property
    def tracer(self) -> Trace:
        """The trace to which this element belongs."""
        return self._trace

    @property  # type: ignore[misc]
    def shape(self) -> tuple[int, ...]:
        """(): it has no axes."""
        return ()

    @property
    def ndim(self) -> int:
        """0."""
        return 0

    @property
    def size(self) -> int:
        """1."""
        return 1

    def _index(self, key: Any) -> int:
        return -1


#: Types of numbers that are operands as they are.
_NUMBERS = frozenset((float, int, np.float64))
#: Types of arrays of numbers, to which _buffer adds its own.
ARRAYS: set[type] = {np.ndarray}


def numbers_in(array: Any) -> Any:
    """Real numbers of an array that is not traced, as NumPy's; else None."""
    found = plain(array)
    return found if type(found) is np.ndarray and found.dtype.kind in "fiub" else None


def _add_operators() -> None:
    """Operators, which record an op without NumPy's dispatch if both operands are plain ones."""

    def binary(name: str, op: str, ufunc: Any, boolean: bool, reflected: bool) -> Any:
        def of_array(self: Array, other: Any) -> Any:
            kind = type(other)
            if kind is Array or kind is Scalar or kind in _NUMBERS:
                a, b = (other, self) if reflected else (self, other)
                return self.tracer.apply(op, a, b, boolean=boolean)
            if kind in ARRAYS and not boolean:
                numbers = numbers_in(other)
                if numbers is not None:
                    a, b = (numbers, self) if reflected else (self, numbers)
                    return self.tracer.apply(op, a, b)
            return ufunc(other, self) if reflected else ufunc(self, other)

        def of_scalar(self: Scalar, other: Any) -> Any:
            kind = type(other)
            if self._made is None:
                trace = self._trace
                if kind in _NUMBERS:
                    node = trace.graph.with_number(op, self._source, self._at, other, reflected)
                    return Scalar(trace, node, -1, boolean)
                if kind is Scalar and other._made is None and other._trace is trace:
                    node = trace.graph.pair(op, self._source, self._at, other._source, other._at)
                    return Scalar(trace, node, -1, boolean)
            return of_array(self, other)

        of_array.__name__ = of_scalar.__name__ = name
        setattr(Array, name, of_array)
        setattr(Scalar, name, of_scalar)

    for name, op, ufunc in (("add", "add", np.add), ("sub", "sub", np.subtract),
                            ("mul", "mul", np.multiply), ("truediv", "div", np.true_divide)):
        binary(f"__{name}__", op, ufunc, False, False)
        binary(f"__r{name}__", op, ufunc, False, True)
        setattr(Scalar, f"__i{name}__", getattr(Scalar, f"__{name}__"))

    def negative(self: Array) -> Any:
        return np.negative(self) if self.boolean else self.tracer.apply("neg", self)

    setattr(Array, "__neg__", negative)
    for name in ("pow", "mod", "floordiv", "and", "or", "xor"):  # numbers are replaced, not changed
        setattr(Scalar, f"__i{name}__", getattr(NDArrayOperatorsMixin, f"__{name}__"))
    for name, ufunc in (("lt", np.less), ("le", np.less_equal), ("gt", np.greater),
                        ("ge", np.greater_equal), ("eq", np.equal), ("ne", np.not_equal)):
        binary(f"__{name}__", name, ufunc, True, False)


_add_operators()

#: For ufuncs of arithmetic, the operator of the second operand.
_REFLECTED: dict[np.ufunc, Callable[[Array, float], Any]] = {
    np.add: lambda a, b: a.__radd__(b), np.subtract: lambda a, b: a.__rsub__(b),
    np.multiply: lambda a, b: a.__rmul__(b), np.true_divide: lambda a, b: a.__rtruediv__(b)}


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
    if type(value) in _AS_THEY_ARE:
        return value
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


#: Types that plain() leaves alone at once.
_AS_THEY_ARE = frozenset((Array, Scalar, float, int, np.float64, bool, str, type(None)))


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
