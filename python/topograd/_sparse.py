"""SciPy's sparse matrices of numbers in traced code: their products with traced vectors and matrices."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import scipy.sparse

from ._trace import Array, TracingError, contains_traced, plain, tracer_of

#: Numbers that a product may gather for each number that is not 0.
_MOST_PADDING = 64


def _product(matrix: Any, other: Any) -> Array:
    """A sparse matrix (m, n) times a traced array (n,) or (n, k)."""
    array = tracer_of(other).array(other)
    rows = scipy.sparse.csr_matrix(matrix)
    if array.ndim not in (1, 2) or array.shape[0] != rows.shape[1]:
        raise ValueError("dimension mismatch")
    counts = np.diff(rows.indptr)
    most = int(counts.max(initial=0))
    if most == 0:
        return array.tracer.numbers(np.zeros((rows.shape[0], *array.shape[1:])))
    if most * rows.shape[0] > _MOST_PADDING * max(rows.nnz, 1):
        raise TracingError("a sparse matrix of which few rows have most of the numbers cannot be traced")
    at = np.zeros((rows.shape[0], most), dtype=np.int64)
    weights = np.zeros(at.shape)
    filled = np.arange(most) < counts[:, np.newaxis]
    at[filled], weights[filled] = rows.indices, rows.data
    if array.ndim == 2:
        weights = weights[..., np.newaxis]
    return np.sum(array[at] * weights, axis=1)


def _matmul(self: Any, other: Any) -> Any:
    if contains_traced(other):
        return _product(self, other)
    return owned(getattr(_original(type(self)), "__matmul__")(self, plain(other)))


def _mul(self: Any, other: Any) -> Any:
    if not contains_traced(other):
        return owned(getattr(_original(type(self)), "__mul__")(self, plain(other)))
    if np.ndim(other) == 0 or not isinstance(self, scipy.sparse.spmatrix):
        raise TracingError("a sparse matrix of values that depend on unknowns cannot be traced; multiply its "
                           "product with a vector")
    return _product(self, other)


def _rmatmul(self: Any, other: Any) -> Any:
    if contains_traced(other):
        array = tracer_of(other).array(other)
        return _product(_original(type(self)).transpose(self), array.transpose()).transpose()
    return owned(getattr(_original(type(self)), "__rmatmul__")(self, plain(other)))


def _transpose(self: Any, *args: Any, **kwargs: Any) -> Any:
    return owned(_original(type(self)).transpose(self, *args, **kwargs))


def _original(kind: type) -> Any:
    return kind.__dict__.get("_topograd_original", kind)


@functools.lru_cache(maxsize=None)
def own_class(kind: type) -> type:
    """A class of sparse matrices, whose products also take traced arrays."""
    members = {"_topograd_original": kind, "__module__": kind.__module__, "__qualname__": kind.__qualname__,
               "__array_ufunc__": None,  # so that operators of arrays leave the product to __rmatmul__
               "__matmul__": _matmul, "__mul__": _mul, "dot": _matmul, "__rmatmul__": _rmatmul,
               "transpose": _transpose, "T": property(_transpose)}
    for name in ("tocsr", "tocsc", "tocoo"):
        members[name] = lambda self, *args, _name=name, **kwargs: owned(
            getattr(_original(type(self)), _name)(self, *args, **kwargs))
    return type(kind.__name__, (kind,), members)


def owned(value: Any) -> Any:
    """What traced code sees for a value of scipy.sparse."""
    if not scipy.sparse.issparse(value) or "_topograd_original" in type(value).__dict__:
        return value
    found = copy.copy(value)
    kind: Any = type(value)
    found.__class__ = own_class(kind)
    return found
