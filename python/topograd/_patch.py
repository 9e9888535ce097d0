"""While a function is traced, np.zeros and its like give arrays that traced values can be put into."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator

import numpy as np

from ._trace import Trace, contains_traced

_LOCK = threading.RLock()


@contextlib.contextmanager
def filling(trace: Trace) -> Iterator[None]:
    """Replaces np.array, asarray, zeros, empty, ones and full for this thread; others see no change.

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
        return trace.numbers(made) if made.dtype == float else made

    def joined(original: Any, *args: Any, **kwargs: Any) -> Any:
        value = args[0] if args else kwargs.get("object", kwargs.get("a"))
        if not contains_traced(value):
            return original(*args, **kwargs)
        array = trace.array(value)
        return array.copy() if array is value and original is names["array"] else array

    names = {n: getattr(np, n) for n in ("array", "asarray", "zeros", "empty", "ones", "full")}
    names["asanyarray"] = np.asanyarray
    with _LOCK:
        try:
            for name, original in names.items():
                how = joined if "array" in name else filled
                setattr(np, name, replaced(original, how))
            yield
        finally:
            for name, original in names.items():
                setattr(np, name, original)
