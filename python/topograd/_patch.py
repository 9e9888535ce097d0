"""While a function is traced, np.zeros and its like give arrays that traced values can be put into."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator

import numpy as np

# These enter NumPy's own functions in a table, so they are imported before any is replaced.
from . import _functions, _sampled  # noqa: F401
from ._complex import as_complex, is_complex
from ._trace import Trace, contains_traced

_LOCK = threading.RLock()


@contextlib.contextmanager
def filling(trace: Trace) -> Iterator[None]:
    """Replaces np.array, zeros and their like for this thread; others see no change.

    One thread traces at a time.
    """
    me = threading.get_ident()

    def replaced(original: Any, traced: Any) -> Any:
        def function(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != me:
                return original(*args, **kwargs)
            return traced(original, *args, **kwargs)

        return function

    def filled(original: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        if made.dtype == complex:
            return as_complex(trace, made)
        return trace.numbers(made) if made.dtype == float else made

    def joined(original: Any, *args: Any, **kwargs: Any) -> Any:
        value = args[0] if args else kwargs.get("object", kwargs.get("a"))
        if not contains_traced(value):
            return original(*args, **kwargs)
        array: Any = as_complex(trace, value) if is_complex(value) else trace.array(value)
        return array.copy() if array is value and original is names["array"] else array

    def piecewise(original: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        traced = trace.array(x) if isinstance(x, np.ndarray) and x.dtype == float else x
        return original(traced, *args, **kwargs)

    joining = "array asarray asanyarray".split()
    filling_in = "zeros empty ones full zeros_like empty_like ones_like full_like".split()
    ways = {**dict.fromkeys(joining, joined), **dict.fromkeys(filling_in, filled),
            "piecewise": piecewise}
    names = {name: getattr(np, name) for name in ways}
    with _LOCK:
        try:
            for name, original in names.items():
                setattr(np, name, replaced(original, ways[name]))
            yield
        finally:
            for name, original in names.items():
                setattr(np, name, original)
