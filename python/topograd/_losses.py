"""Robust losses that are written in Python."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ._patch import filling
from ._trace import Trace


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
    with filling(trace), np.errstate(all="ignore"):
        rows = trace.array(rho(z if scale == 1.0 else z / scale**2))
    if rows.shape not in ((), (1,), (3, 1)):
        raise ValueError(f"loss: expected ρ of shape (1,), or three rows (3, 1), got {rows.shape}")
    value = rows.reshape(-1)[:1]
    return trace.graph.loss((value if scale == 1.0 else value * scale**2)._whole_node())
