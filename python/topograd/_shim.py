"""A function runs traced as a copy of itself, which sees its own NumPy. Nothing else is changed.

The copy's globals are looked up in the function's, and what is found is translated: NumPy and SciPy
become modules whose functions take traced values and return arrays that can be filled with them;
functions, objects and classes of the user become copies of this kind; arrays become buffers, which
share their memory. Everything else is what it was.
"""

from __future__ import annotations

import abc
import builtins
import functools
import math
import os
import sys
import sysconfig
import types
import weakref
from typing import Any, Callable, Generic, Protocol

import numpy as np
import scipy

from . import _algebra, _functions, _sampled, _special, _statistics  # noqa: F401
from ._buffer import Buffer, buffered
from ._complex import ComplexArray, as_complex, is_complex
from ._trace import Array, Scalar, Trace, Traced, TracingError, cannot, contains_traced, plain, returned, tracer_of

_LIBRARIES = tuple(os.path.dirname(os.path.abspath(f)) + os.sep
                   for f in (np.__file__, scipy.__file__, __file__))
_STANDARD = tuple(os.path.abspath(sysconfig.get_path(n)) + os.sep for n in ("stdlib", "platstdlib"))
#: Classes of Python's that say nothing about instances.
_NEUTRAL = (object, abc.ABC, Generic, Protocol)
#: Containers above this size are not searched for functions.
_MOST_ITEMS = 1000
_NOTHING = object()
_CACHED = type(functools.lru_cache(lambda: None))
#: Types whose values are never translated.
_PLAIN = frozenset((int, float, bool, complex, str, bytes, type(None), type(Ellipsis), np.float64, np.dtype,
                    slice, range))


# Python's functions, for traced code.


class Float(float):
    """float, which leaves a traced number as it is."""

    dtype = np.dtype(float)

    def __new__(cls, value: Any = 0.0) -> Any:
        traced = plain(value)
        if isinstance(traced, Array) and traced.size == 1:
            return traced.reshape(())
        return float(traced)


class Complex(complex):
    """complex, which leaves a traced number as it is."""

    dtype = np.dtype(complex)

    def __new__(cls, real: Any = 0.0, imag: Any = _NOTHING) -> Any:
        if contains_traced((real, imag)):
            return real + 0j if imag is _NOTHING else real + 1j * imag
        return complex(real) if imag is _NOTHING else complex(real, imag)


class Float64(Float):
    """np.float64, which leaves a traced number as it is."""

    def __new__(cls, value: Any = 0.0) -> Any:
        traced = plain(value)
        return traced if isinstance(traced, Array) else np.float64(traced)


_OWN_TYPES = {Float: float, Complex: complex, Float64: np.float64}


def _original(kind: Any) -> Any:
    if isinstance(kind, tuple):
        return tuple(_original(k) for k in kind)
    if isinstance(kind, type):
        own = _OWN_TYPES.get(kind) or kind.__dict__.get("_topograd_original")
        return kind if own is None else own
    return kind


def _isinstance(value: Any, kinds: Any) -> bool:
    kinds = _original(kinds)
    if isinstance(value, kinds):
        return True
    if not isinstance(value, Traced):
        return False
    return any(k is np.ndarray for k in (kinds if isinstance(kinds, tuple) else (kinds,)))


def _issubclass(kind: Any, kinds: Any) -> bool:
    return issubclass(_original(kind), _original(kinds))


def _extreme(original: Any, ufunc: Callable[[Any, Any], Any]) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        values: Any = args[0] if len(args) == 1 else args
        if isinstance(values, Traced) or contains_traced(values):
            if kwargs:
                raise TracingError(f"{original.__name__}() with a key or a default cannot be traced")
            elements: list[Any] = list(plain(values))
            return functools.reduce(ufunc, elements)
        return original(*args, **kwargs)

    return call


def _sorted(values: Any, **kwargs: Any) -> Any:
    found = list(values)
    if not contains_traced(found):
        return sorted(found, **kwargs)
    if set(kwargs) - {"reverse"}:
        raise TracingError("sorted() with a key cannot be traced")
    ordered: list[Any] = list(_statistics.sort_last(tracer_of(found), tracer_of(found).array(found)))
    return ordered[::-1] if kwargs.get("reverse") else ordered


_BUILTINS: dict[str, Any] = {
    **vars(builtins), "float": Float, "complex": Complex, "isinstance": _isinstance,
    "issubclass": _issubclass, "sorted": _sorted, "max": _extreme(max, np.maximum),
    "min": _extreme(min, np.minimum),
}

#: Functions of the module math by names of NumPy's; further ones in _sampled.
_MATH = {
    **{n: n for n in "sin cos tan sinh cosh tanh exp expm1 log1p log2 log10 sqrt fabs floor ceil trunc "
                     "hypot copysign degrees radians fmod isnan isinf isfinite ldexp exp2 cbrt".split()},
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "pow": "power", "remainder": "remainder",
}


def _math(function: Callable) -> Callable:
    """A function of the module math that also takes traced numbers."""
    name = function.__name__

    def call(*args: Any) -> Any:
        if not contains_traced(args):
            return function(*args)
        if name == "log":
            return np.log(args[0]) / (np.log(args[1]) if len(args) > 1 else 1.0)
        if name in ("fsum", "prod"):
            joins: Any = np.add if name == "fsum" else np.multiply
            return functools.reduce(joins, list(args[0]))
        if name == "dist":
            return np.linalg.norm(np.subtract(*args))
        if name in ("erf", "erfc", "gamma", "lgamma"):
            import scipy.special

            return getattr(scipy.special, {"lgamma": "gammaln"}.get(name, name))(*args)
        known = _MATH.get(name)
        if known is None or not hasattr(np, known):
            raise TracingError(f"math.{name} cannot be traced")
        return getattr(np, known)(*args)

    return call


def _cmath(function: Callable) -> Callable:
    """A function of the module cmath that also takes traced numbers."""
    name = function.__name__

    def call(*args: Any) -> Any:
        if not contains_traced(args):
            return function(*args)
        z = args[0] if is_complex(args[0]) else args[0] + 0j
        if name == "polar":
            return np.abs(z), np.angle(z)
        if name == "rect":
            return args[0] * np.exp(1j * args[1])
        known = {**_MATH, "log": "log", "phase": "angle"}.get(name)
        if known is None or not hasattr(np, known) or len(args) > 1:
            raise TracingError(f"cmath.{name} cannot be traced")
        return getattr(np, known)(z)

    return call


# NumPy's functions that make arrays.


def _joined(trace: Trace, original: Callable, args: tuple, kwargs: dict) -> Any:
    if len(args) == 1 and not kwargs and type(args[0]) is list and all(type(v) is Scalar for v in args[0]):
        return trace.stack([trace.array(v) for v in args[0]], 0)
    names = ("object", "dtype") if original is np.array else ("a", "dtype")
    given = {**dict(zip(names, args)), **kwargs}
    value = given[names[0]]
    array: Any = as_complex(trace, value) if is_complex(value) else trace.array(value)
    kind = None if given.get("dtype") is None else np.dtype(given["dtype"])
    if kind is not None and kind.kind not in "fcO":
        raise TracingError(f"traced values as an array of {kind} cannot be traced")
    if kind is not None and kind.kind == "c" and not isinstance(array, ComplexArray):
        array = as_complex(trace, array)
    if kind is not None and kind.kind == "f":
        array = array.astype(float)
    missing = int(given.get("ndmin", 0)) - array.ndim
    if missing > 0:
        array = array.reshape((1,) * missing + array.shape)
    if array is not plain(value) or original is not np.array:
        return array
    return array.copy() if array.ndim else array.reshape(1).copy().reshape(())


def _full(trace: Trace, original: Callable, args: tuple, kwargs: dict) -> Any:
    given = {**dict(zip(("shape", "fill_value"), args)), **kwargs}
    out = buffered(np.zeros(given["shape"], complex if is_complex(given["fill_value"]) else float))
    out[...] = given["fill_value"]
    return out


def _fromiter(trace: Trace, original: Callable, args: tuple, kwargs: dict) -> Any:
    return trace.array(list(args[0]))


_CREATORS: dict[Any, Callable] = {
    **dict.fromkeys((np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray,
                     getattr(np, "asfarray", np.array), np.asarray_chkfinite, np.require), _joined),
    np.full: _full, np.fromiter: _fromiter,
}


class _Joiner:
    """np.r_ and np.c_, which also take traced values."""

    def __init__(self, original: Any, columns: bool) -> None:
        self._original, self._columns = original, columns

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not contains_traced(parts):
            return buffered(self._original[plain(key)])
        if any(isinstance(p, str) for p in parts):
            raise TracingError("np.r_ and np.c_ with a string cannot be traced")
        made = [np.atleast_1d(self._original[p]) if isinstance(p, slice) else np.atleast_1d(plain(p))
                if not isinstance(p, list) else _stacked(p) for p in parts]
        return np.column_stack(made) if self._columns else np.concatenate(made)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def _stacked(values: list) -> Any:
    return np.stack([plain(v) for v in values]) if contains_traced(values) else np.asarray(values)


class _Vectorize:
    """np.vectorize: a function of numbers, which is called for each element."""

    def __init__(self, function: Callable, *args: Any, **kwargs: Any) -> None:
        self._function, self._args, self._kwargs = function, args, kwargs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        options: Any = {**self._kwargs, "otypes": "O"}
        made = np.vectorize(self._function, *self._args, **options)
        found = made(*[_as_objects(a) for a in args], **kwargs)
        if any(isinstance(v, Traced) for v in np.ravel(found)) or self._kwargs.get("otypes"):
            return _from_objects(found)
        return buffered(np.array(found.tolist()))


def _as_objects(value: Any) -> Any:
    value = plain(value)
    if not isinstance(value, Array):
        return value
    out = np.empty(value.shape, object)
    for at in np.ndindex(value.shape):
        out[at] = value[at]
    return out


def _from_objects(found: np.ndarray) -> Any:
    if not contains_traced(found):
        return buffered(found.astype(float))
    trace = tracer_of(found)
    return trace.stack([trace.array(v) for v in found.ravel()], 0).reshape(found.shape)


def _name(function: Any) -> str:
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module.replace('numpy', 'np')}.{getattr(function, '__name__', 'function')}"


# Translation.


class _Globals(dict):
    """Globals of a copied function: its own, and behind them those of the function."""

    def __init__(self, world: "World", original: dict) -> None:
        super().__init__(__builtins__=world.builtins, __name__=original.get("__name__", "?"))
        self._world, self._original = world, original

    def __missing__(self, name: str) -> Any:
        return self._world.translate(self._original[name])


class _Module(types.ModuleType):
    """A module whose members are translated when they are read."""

    def __init__(self, world: "World", original: types.ModuleType) -> None:
        super().__init__(original.__name__, original.__doc__)
        self.__dict__["_topograd_world"] = (world, original)

    def __getattr__(self, name: str) -> Any:
        world, original = self.__dict__["_topograd_world"]
        return world.translate(getattr(original, name), original)

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["_topograd_world"][1])


@functools.lru_cache(maxsize=4096)
def _folder(file: str) -> str:
    """'library' for NumPy, SciPy and this package, 'installed' for Python and other packages."""
    path = os.path.abspath(file)
    if path.startswith(_LIBRARIES):
        return "library"
    installed = path.startswith(_STANDARD) or "site-packages" in path or "dist-packages" in path
    return "installed" if installed else "users"


#: Code of functions of this package that call functions of the user.
_CALLS_USERS: set[types.CodeType] = set()


def calls_users(function: Callable) -> Callable:
    """Marks a function of this package as one that is traced as the user's functions which it calls."""
    _CALLS_USERS.add(function.__code__)
    return function


class World:
    """Copies of a function, and of what it calls, for one trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = weakref.ref(trace)  # copied classes keep their world until Python looks for circles
        here = weakref.ref(self)  # copies have the builtins, and this world
        self.builtins = {**_BUILTINS, "__import__": lambda *args: here()._import(*args)}  # type: ignore[union-attr]
        self._known: dict[int, tuple[Any, Any]] = {}
        self._packages: set[str] = set()
        #: cells for classes that are being copied
        self._building: dict[type, list[Any]] = {}

    @property
    def trace(self) -> Trace:
        """The trace, which its caller holds while the function runs."""
        found = self._trace()
        if found is None:
            raise TracingError("a traced function's own copy of a function cannot be called after its end")
        return found

    def call(self, function: Callable, args: Any, kwargs: dict | None = None) -> Any:
        """What the function returns for these arguments, some of which are traced."""
        inner = function
        while isinstance(inner, functools.partial):
            inner = inner.func
        module = getattr(inner, "__module__", None) or getattr(type(inner), "__module__", "") or ""
        self._packages.add(module.partition(".")[0])
        copy = self.translate(function)
        given = {k: self.translate(v) for k, v in (kwargs or {}).items()}
        try:
            return plain(copy(*[self.translate(a) for a in args], **given))
        finally:
            self._known.clear()  # a circle, in which the trace would stay until Python looks for these

    def translate(self, value: Any, module: types.ModuleType | None = None) -> Any:
        """What traced code sees for a value that it reads from outside."""
        kind = type(value)
        if kind in _PLAIN or isinstance(value, (Traced, Buffer)):
            return value
        if kind is np.ndarray:
            return buffered(value)
        known = self._known.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        found = self._translated(value, module)
        self._known[id(value)] = (value, found)
        self._known[id(found)] = (found, found)
        return found

    def _translated(self, value: Any, module: types.ModuleType | None) -> Any:
        if isinstance(value, np.ufunc):
            return value
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.BuiltinFunctionType) or hasattr(type(value), "_implementation") or (
                "uarray" in type(value).__module__ and callable(value)):  # those of scipy.fft
            return self._compiled(value, module)
        if isinstance(value, types.MethodType):
            return self._method(value)
        if isinstance(value, functools.partial):
            return self._partial(value)
        if isinstance(value, _CACHED):
            return self.translate(value.__wrapped__)
        if type(value) in (list, tuple, dict, set):
            return self._container(value)
        if value is np.r_ or value is np.c_:
            return _Joiner(value, value is np.c_)
        if isinstance(value, np.vectorize):
            return _Vectorize(self.translate(value.pyfunc))
        return self._instance(value)

    # Whose code it is.

    def _is_users_file(self, file: str, module: str) -> bool:
        if file.startswith("<") or not file:
            return True
        folder = _folder(file)
        if folder == "library":
            return False
        return folder == "users" or bool(module) and module.partition(".")[0] in self._packages

    def _is_users_module(self, name: str) -> bool:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if name == "__main__" or module is None:
            return True
        return file is not None and file.endswith(".py") and self._is_users_file(file, name)

    # Functions.

    def _function(self, function: types.FunctionType) -> Any:
        file = function.__code__.co_filename
        if function.__module__ == "math":
            return _math(function)
        if function.__code__ in _CALLS_USERS:
            return self._copy(function)
        compiled = file.startswith("<__array_function__")
        if compiled or _folder(file) == "library":
            return self._library_function(function)
        if not self._is_users_file(file, function.__module__ or ""):
            return function
        return self._copy(function)

    def _copy(self, function: types.FunctionType) -> types.FunctionType:
        key = id(function.__globals__)
        if key not in self._known or self._known[key][0] is not function.__globals__:
            self._known[key] = (function.__globals__, _Globals(self, function.__globals__))
        # A code object of its own: interpreters keep what they learn of globals in it.
        copy = types.FunctionType(
            function.__code__.replace(), self._known[key][1], function.__name__, None,
            tuple(types.CellType() for _ in function.__closure__ or ()) or None)
        self._known[id(function)] = (function, copy)
        self._known[id(copy)] = (copy, copy)
        copy.__defaults__ = self._each(function.__defaults__)
        if function.__kwdefaults__:
            copy.__kwdefaults__ = {k: self.translate(v) for k, v in function.__kwdefaults__.items()}
        copy.__dict__.update(function.__dict__)
        copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
        if function.__closure__:
            for own, cell in zip(copy.__closure__ or (), function.__closure__):
                try:
                    found = cell.cell_contents
                except ValueError:  # empty until a later statement
                    continue
                waiting = self._building.get(found) if isinstance(found, type) else None
                if waiting is not None:
                    waiting.append(own)
                else:
                    own.cell_contents = self.translate(found)
        return copy

    def _each(self, values: tuple | None) -> tuple | None:
        return None if values is None else tuple(self.translate(v) for v in values)

    def _method(self, method: types.MethodType) -> Any:
        function = self.translate(method.__func__)
        owner = self.translate(method.__self__)
        return method if function is method.__func__ and owner is method.__self__ else (
            types.MethodType(function, owner))

    def _partial(self, partial: functools.partial) -> Any:
        return functools.partial(
            self.translate(partial.func), *self._each(partial.args) or (),
            **{k: self.translate(v) for k, v in partial.keywords.items()})

    def _compiled(self, function: Any, module: types.ModuleType | None) -> Any:
        owner = getattr(function, "__self__", None)
        name = getattr(function, "__module__", None) or getattr(owner, "__module__", None) or ""
        if isinstance(owner, types.ModuleType) and owner.__name__ == "math" or name == "math":
            return _math(function)
        if name == "cmath":
            return _cmath(function)
        if function is np.frompyfunc:
            return lambda f, *_, **__: _Vectorize(f)
        if name.partition(".")[0] in ("numpy", "scipy") or module is not None:
            return self._library_function(function)
        return function

    def _library_function(self, function: Any) -> Any:
        """A function of NumPy or SciPy: it gets plain arrays and returns buffers."""
        world = self
        scipys = (getattr(function, "__module__", None) or "").startswith("scipy")

        if scipys and ".integrate" in function.__module__:
            from . import _differential

            if function in _differential.CALLING:
                return _differential.CALLING[function]

        def call(*args: Any, **kwargs: Any) -> Any:
            trace = world.trace
            if function is np.fromiter and args:  # a generator's values are not known before
                args = (list(args[0]), *args[1:])
            into = args[0] if args and function in _functions.INTO else None
            if isinstance(into, Buffer) and contains_traced(args[1:]):
                into.become_traced(args[1:])
            roots = [a.root() for a in args if isinstance(a, Buffer)]
            args, kwargs = _plain_arguments(args), {k: _plain(v) for k, v in kwargs.items()}
            if contains_traced(args) or contains_traced(tuple(kwargs.values())):
                if function in _CREATORS:
                    return _CREATORS[function](trace, function, args, kwargs)
                known = _functions.find(function)
                if known is not None:
                    return _functions.call(trace, function, args, kwargs)
                if scipys:
                    raise TracingError(cannot(_name(function)))
            elif function is np.piecewise:
                # Its functions may return traced values.
                return buffered(_sampled.piecewise(trace, *args, **kwargs))
            made = function(*args, **kwargs)
            own = _own_object(trace, made)
            return buffered(made, roots) if own is None else own

        call.__name__ = getattr(function, "__name__", "function")
        call.__doc__ = function.__doc__
        call.__dict__["__wrapped__"] = function
        return call

    # Modules.

    def _module(self, module: types.ModuleType) -> types.ModuleType:
        name = module.__name__
        top = name.partition(".")[0]
        if top in ("numpy", "scipy", "math", "cmath", "topograd") or self._is_users_module(name):
            return module if isinstance(module, _Module) else _Module(self, module)
        return module

    def _import(self, name: str, *args: Any) -> Any:
        module = builtins.__import__(name, *args)
        return self.translate(module)

    # Objects.

    def _container(self, value: Any) -> Any:
        if len(value) > _MOST_ITEMS:
            return value
        if isinstance(value, dict):
            copy: Any = {}
            self._known[id(value)] = (value, copy)
            copy.update((k, self.translate(v)) for k, v in value.items())
            return copy
        if isinstance(value, tuple):
            return tuple(self.translate(v) for v in value)
        if isinstance(value, set):
            return set(value)
        copy = []
        self._known[id(value)] = (value, copy)
        copy.extend(self.translate(v) for v in value)
        return copy

    def _class(self, kind: type) -> type:
        if kind is np.vectorize:
            return _Vectorize
        if _is_object_of_scipy(kind):
            from . import _objects, _sparse

            if kind.__module__.startswith("scipy.sparse") and kind.__name__.endswith(("_matrix", "_array")):
                return kind if "_topograd_original" in kind.__dict__ else _sparse.own_class(kind)
            own = _objects.own_class(self.trace, kind)
            if own is not None:
                return own
        if kind is np.float64:
            return Float64
        if kind is float:
            return Float
        if kind is complex:
            return Complex
        if "_topograd_original" in kind.__dict__ or not self._is_users_class(kind):
            return kind
        if type(kind) not in (type, abc.ABCMeta) or any(
                k not in _NEUTRAL and (not self._is_users_class(k) or "__init_subclass__" in k.__dict__)
                for k in kind.__mro__):
            return kind
        self._building[kind] = []
        bases = tuple(own for own, b in zip(map(self.translate, kind.__bases__), kind.__bases__)
                      if own is not b)
        members: dict[str, Any] = {
            n: self._member(m) for n, m in kind.__dict__.items()
            if isinstance(m, (types.FunctionType, property, staticmethod, classmethod))}
        members.update(_topograd_original=kind, __module__=kind.__module__,
                       __qualname__=kind.__qualname__, __doc__=kind.__doc__)
        world: Any = self
        original: Any = kind.__getattribute__

        def read(instance: Any, name: str) -> Any:
            found = original(instance, name)
            return found if name.startswith("__") else world.translate(found)

        members["__getattribute__"] = read
        try:
            made: type = type(kind)(kind.__name__, (*bases, kind), members)
        except TypeError:  # a class that cannot have subclasses
            made = kind
        for cell in self._building.pop(kind):
            cell.cell_contents = made
        return made

    def _is_users_class(self, kind: type) -> bool:
        return kind is not object and self._is_users_module(kind.__module__) and (
            kind.__module__ != "builtins")

    def _member(self, member: Any) -> Any:
        if isinstance(member, types.FunctionType):
            return self.translate(member)
        if isinstance(member, property):
            get, put, delete = (None if f is None else self.translate(f)
                                for f in (member.fget, member.fset, member.fdel))
            return property(get, put, delete, member.__doc__)
        return type(member)(self.translate(member.__func__))

    def _instance(self, value: Any) -> Any:
        own = _own_object(self.trace, value)
        if own is not None:
            return own
        kind = type(value)
        translated = self.translate(kind)
        if translated is kind or kind in _OWN_TYPES.values():
            return value
        try:
            copy = object.__new__(translated)
            copy.__dict__.update(getattr(value, "__dict__", {}))
            for base in kind.__mro__:
                slots = base.__dict__.get("__slots__", ())
                for name in (slots,) if isinstance(slots, str) else slots:
                    if hasattr(value, name) and name not in ("__dict__", "__weakref__"):
                        object.__setattr__(copy, name, getattr(value, name))
        except (TypeError, AttributeError):
            return value
        return copy


def _is_object_of_scipy(kind: type) -> bool:
    return kind.__module__.startswith(("scipy.interpolate", "scipy.spatial.transform", "scipy.stats",
                                       "scipy.sparse"))


def _enter_objects(module: str) -> None:
    if ".interpolate" in module or ".spatial" in module:
        from . import _objects  # noqa: F401  # which enters its functions


_functions.PROVIDERS.insert(0, _enter_objects)


def _own_object(trace: Trace, value: Any) -> Any:
    """What traced code sees for an object of SciPy's that computes with values, or None."""
    kind = type(value)
    if not _is_object_of_scipy(kind):
        return None
    if kind.__module__.startswith("scipy.stats"):
        from . import _distributions

        return _distributions.own_instance(value)
    if kind.__module__.startswith("scipy.sparse"):
        from . import _sparse

        own = _sparse.owned(value)
        return None if own is value else own
    from . import _objects

    return _objects.own_instance(trace, value)


def _plain(value: Any) -> Any:
    if isinstance(value, type):
        return _original(value)
    return plain(value)


def _plain_arguments(args: tuple) -> tuple:
    return tuple(_plain(a) for a in args)


def run_traced(trace: Trace, function: Callable, args: Any, kwargs: dict | None = None) -> Any:
    """What a function returns for arguments of which some are traced. Raises what it raises, and NotReal
    for None."""
    try:
        with np.errstate(all="ignore"):
            return returned(function, World(trace).call(function, args, kwargs))
    except Exception as error:
        if isinstance(error.__cause__, TracingError):  # NumPy's error about ours
            raise error.__cause__ from None
        raise
