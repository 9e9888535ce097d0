"""Robust losses that are written in Python."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ._shim import run_traced
from ._trace import Trace, TracingError


#: Squared norms, in units of the squared scale, at which a traced loss is compared with its function.
_SAMPLES = np.array([1e-4, 0.04, 0.3, 0.9, 1.2, 2.5, 9.0, 30.0, 400.0])


def checked_loss(rho: Callable[[Any], Any], scale: float = 1.0) -> Any:
    """traced_loss(), compared with what the function returns for numbers: ρ, and ρ' if it returns
    three rows.

    Raises TracingError if they differ, and what traced_loss() raises.
    """
    loss = traced_loss(rho, scale)
    with np.errstate(all="ignore"):
        given = np.asarray(rho(_SAMPLES.copy()), dtype=float)
    rows = given[:2] if given.ndim == 2 else given[np.newaxis]
    ours = loss.evaluate(_SAMPLES * scale**2) / np.array([[scale**2], [1.0], [1.0]])
    for name, theirs, traced in zip(("ρ", "ρ'"), rows, ours):
        if not np.allclose(traced, theirs, 1e-6, 1e-9, equal_nan=True):
            raise TracingError(f"loss: the traced {name} has other values than the function's")
    return loss


def traced_loss(rho: Callable[[Any], Any], scale: float = 1.0) -> Any:
    """The loss scale² ρ(s / scale²) of squared norms s, with exact derivatives.

    Parameters
    ----------
    rho : callable
        Called once with an array z of shape (1,); returns ρ(z), shape (1,), or SciPy's three rows
        ρ, ρ' and ρ'', shape (3, 1), of which the first is used.
    scale : float > 0

    Raises TracingError for what cannot be traced, ValueError for another shape.
    """
    trace = Trace()
    z = trace.unknowns(0, (1,))
    rows = trace.array(run_traced(trace, rho, (z if scale == 1.0 else z / scale**2,)))
    if rows.shape not in ((), (1,), (3, 1)):
        raise ValueError(f"loss: expected ρ of shape (1,), or three rows (3, 1), got {rows.shape}")
    value = rows.reshape(-1)[:1]
    return trace.graph.loss((value if scale == 1.0 else value * scale**2)._whole_node())
