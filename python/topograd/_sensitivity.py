"""Derivatives of a solution by arrays of data."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._problem import DataArray, Problem


class Sensitivity:
    """The derivative dx*/dθ of the solution x* that the problem's arrays have now. ::

        target = p.data(points)                  # numbers that may change
        p.residuals(lambda at, to: at - to, x, target)
        p.solve(function_tolerance=1e-14)
        s = topograd.Sensitivity(p)
        s.vjp(x_bar)                             # the gradient by θ of a loss with gradient x_bar by x*
        s.jvp(theta_dot)                         # how x* moves if θ does

    θ is all arrays of Problem.data(), one after the other, or those given. Losses, fixed unknowns,
    active bounds, manifolds and active constraints are accounted for. Second derivatives are
    factorised once, here; later changes of the problem have no effect.

    Parameters
    ----------
    problem : Problem
        Solved to small tolerances: an error of x* is an error of about that share here.
    *theta : DataArray
        The parts of θ, in this order.
    form : 'full' or 'gauss_newton'
        'gauss_newton' replaces second derivatives by JᵀJ.
    convergence_tolerance : float
        A point is no solution if a Newton step would lower the cost by more than this share of it.
    **options
        backend, threads, device, ... of the evaluations.

    Raises SensitivityError where there is no derivative. Its `reason` is 'unconverged' where the
    problem is not solved, 'singular' where unknowns are not determined, 'infeasible' where no x
    keeps dependent constraints, and 'kink' where the cost changes like abs or a length at 0.
    """

    def __init__(self, problem: Problem, *theta: DataArray, form: str = "full",
                 convergence_tolerance: float = 1e-4, **options: Any) -> None:
        model = problem._model
        parts = theta or tuple(problem._data)
        for part in parts:
            if not isinstance(part, DataArray) or part._model is not model:
                raise ValueError("Sensitivity: expected arrays of this problem's data()")
        problem._read_arrays()
        self._core = _core.Sensitivity(
            model, [part._number for part in parts], form, convergence_tolerance, options)
        self._model = model
        self._count = problem._count
        self._slices: dict[int, slice] = {}
        first = 0
        for part in parts:
            self._slices[part._number] = slice(first, first + part.size)
            first += part.size

    @property
    def size(self) -> int:
        """Numbers of θ."""
        return self._core.size

    @property
    def undetermined(self) -> list[str]:
        """Names of the unknowns that nothing reads or that the Hessian does not determine: jvp is 0
        for the former and NaN for the latter."""
        return self._core.undetermined

    @property
    def active_bounds(self) -> int:
        """Unknowns that stay on a bound."""
        return self._core.active_bounds

    @property
    def active_constraints(self) -> int:
        """Scalar constraints that stay 0."""
        return self._core.active_constraints

    def _slice(self, part: DataArray) -> slice:
        if (not isinstance(part, DataArray) or part._model is not self._model or
                part._number not in self._slices):
            raise ValueError("Sensitivity: the array is not a part of theta")
        return self._slices[part._number]

    def jvp(self, dtheta: Any, part: DataArray | None = None) -> np.ndarray:
        """(dx*/dθ) dθ, shape (n,): one number for each number of Problem.x().

        dtheta has `size` numbers, or the shape of one part of θ, if that is given.
        """
        numbers = np.asarray(dtheta, float)
        if part is not None:
            whole = np.zeros(self.size)
            whole[self._slice(part)] = np.broadcast_to(numbers, part.shape).reshape(-1)
            numbers = whole
        return self._core.jvp(numbers.reshape(-1))

    def vjp(self, dx: Any, part: DataArray | None = None) -> np.ndarray:
        """(dx*/dθ)ᵀ dx, shape (size,), or the shape of one part of θ.

        dx has one number for each number of Problem.x(); Parameters.places tells which are whose.
        """
        found = self._core.vjp(np.asarray(dx, float).reshape(-1))
        return found if part is None else found[self._slice(part)].reshape(part.shape)
