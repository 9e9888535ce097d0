"""Topograd: nonlinear least squares, compiled.

NumPy code is run once on arrays that record what happens to them. Equal rows of the result become
one kernel each, with exact derivatives, on the CPU or on a Vulkan device. ::

    import numpy as np
    import topograd

    def residuals(x, t, y):
        return x[0] * np.exp(-x[1] * t) - y

    result = topograd.least_squares(residuals, [1.0, 0.1], args=(t, y))   # SciPy's signature
    result.x

`least_squares`, `curve_fit` and `minimize` are those of scipy.optimize with another import. `Problem`
is for large sparse problems: parameters in blocks, residuals over index arrays, losses, bounds, manifolds.
`least_squares_many` and `curve_fit_many` solve one small problem for many sets of numbers.
`view` opens a page, also in Jupyter, on which a problem is pulled at while it is solved.
"""

from . import _core
from ._core import ArgumentError, Error, SensitivityError
from ._demo import demo
from ._differential import odeint, solve_ivp
from ._fits import curve_fit, minimize
from ._least_squares import least_squares
from ._many import curve_fit_many, least_squares_many
from ._problem import Blocks, Constraints, DataArray, Parameters, Problem, Solver
from ._scan import scan, shared, step
from ._sensitivity import Sensitivity
from ._summary import Summary
from ._trace import TracingError
from ._view import View, view

__version__: str = _core.version
__all__ = [
    "ArgumentError",
    "Blocks",
    "Constraints",
    "DataArray",
    "Error",
    "Parameters",
    "Problem",
    "Sensitivity",
    "SensitivityError",
    "Solver",
    "Summary",
    "TracingError",
    "View",
    "curve_fit",
    "curve_fit_many",
    "demo",
    "least_squares",
    "least_squares_many",
    "minimize",
    "odeint",
    "scan",
    "shared",
    "solve_ivp",
    "step",
    "view",
    "__version__",
]
