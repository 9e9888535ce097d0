"""least_squares_many and curve_fit_many: one small problem, written once, for many sets of numbers."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import scipy.optimize
from scipy.optimize import OptimizeResult

from . import _core
from ._fits import _LEASTSQ, _starts
from ._losses import checked_loss
from ._problem import _core_loss
from ._shim import run_traced
from ._trace import Trace, TracingError, as_numpy

#: Problems whose cost at the start is compared with that of the function's numbers.
_CHECKED = 5


def _per_problem(value: Any, count: int) -> np.ndarray | None:
    """The array, if its first axis is that of the problems."""
    if not isinstance(value, (np.ndarray, list, tuple)) and not hasattr(value, "__dlpack__"):
        return None
    array = as_numpy(value)
    if array.dtype.kind not in "fiub" or array.ndim == 0 or array.shape[0] != count:
        return None
    return np.ascontiguousarray(array, dtype=float)


def _bounds_of(bounds: Any, n: int) -> tuple[np.ndarray, np.ndarray] | None:
    pair = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    lower, upper = (np.broadcast_to(np.asarray(b, dtype=float), (n,)) for b in pair)
    return None if np.all(np.isinf(lower) & np.isinf(upper)) else (lower, upper)


class _Prototype:
    """One of the problems, traced: its data are places that stand for those of each problem."""

    def __init__(self, fun: Callable, start: np.ndarray, arguments: list[Any],
                 arrays: list[np.ndarray | None], loss: Any) -> None:
        self.model = _core.Model()
        trace = Trace()
        self._start = start.copy()
        self.model.add_parameters(self._start, start.size, "x")
        self.data: list[np.ndarray] = []
        given = []
        for argument, array in zip(arguments, arrays):
            if array is None:
                given.append(argument)
                continue
            shape = array.shape[1:]
            size = int(np.prod(shape, dtype=np.int64))
            codes = _core.codes(len(self.data), size)
            _, first = self.model.add_data(codes, "")
            given.append(trace.wrap(trace.graph.unknowns(first, size), shape))
            self.data.append(array.reshape(array.shape[0], size))
        rows = trace.array(run_traced(trace, fun, (trace.unknowns(0, start.shape), *given)))
        if rows.ndim > 1:
            raise ValueError("fun: expected the residuals of one problem, shape (m,), got "
                             f"{rows.shape}; arrays are the problems' own if their first axis is as "
                             "long as that of X0")
        rows = rows.reshape(-1)
        self.rows = rows.size
        added = trace.graph.add_blocks(self.model, rows._whole_node(), 1, _core_loss(loss), "",
                                       _core.BlockKind.residual)
        if added.rows != self.rows or self.model.sizes()["rows"] != self.rows:
            raise TracingError("a residual reads no unknown")


def least_squares_many(
    fun: Callable[..., Any],
    X0: Any,
    args: tuple = (),
    *,
    bounds: Any = (-np.inf, np.inf),
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    loss: Any = "linear",
    f_scale: float = 1.0,
    max_nfev: int | None = None,
    covariances: bool = False,
    options: dict | None = None,
) -> OptimizeResult:
    """Minimises ½ Σ ρ(fun(x)²) for each of many problems of one structure.

    `fun` is written for one problem. It is traced once, and every problem is minimised with its own
    steps and its own end, side by side on the CPU's vector units and cores.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)``, x of shape (n,), returns the residuals of one problem, shape (m,).
    X0 : array_like of shape (N, n)
        Starts.
    args : tuple
        Arrays whose first axis has N entries are the problems' own numbers: fun gets one entry.
        Everything else is the same for all problems.
    bounds : 2-tuple of array_like or scipy.optimize.Bounds
        Lower and upper bounds of x, for all problems.
    ftol, xtol, gtol : float or None
        As those of `least_squares`.
    loss, f_scale
        As those of `least_squares`.
    max_nfev : int, optional
        Most evaluations of one problem, 100 n if not given.
    covariances : bool
        The result has `covariance` of shape (N, n, n): (JᵀJ)⁻¹ at each solution, infinite where JᵀJ is
        singular.
    options : dict, optional
        Options of `Problem.solve`. {'fallback': False}: what cannot be traced raises TracingError
        instead of being solved by SciPy, problem by problem.

    Returns
    -------
    OptimizeResult
        x (N, n), cost (N,), success (N,) bool, status (N,): 1 converged, 0 the limit of evaluations was
        reached, -1 failed, such as a start without a value; nfev (N,); `message` and `summary` of all.

    Raises ValueError for shapes that do not fit.
    """
    starts = np.array(as_numpy(X0), dtype=float, order="C")
    if starts.ndim != 2 or starts.size == 0:
        raise ValueError(f"X0: expected shape (problems, unknowns), got {starts.shape}")
    given = dict(options or {})
    falls_back = given.pop("fallback", True)
    count, n = starts.shape
    if not isinstance(args, tuple):
        args = tuple(args) if isinstance(args, list) else (args,)
    arrays = [_per_problem(a, count) for a in args]
    box = _bounds_of(bounds, n)
    scaled = None if loss == "linear" else ((loss, f_scale**2 if loss == "arctan" else f_scale)
                                            if not callable(loss) else checked_loss(loss, f_scale))
    settings = {"function_tolerance": ftol or 0.0, "parameter_tolerance": xtol or 0.0,
                "gradient_tolerance": gtol or 0.0, "max_iterations": max((max_nfev or 100 * n) - 1, 0),
                **given}
    try:
        one = _Prototype(fun, starts[0], list(args), arrays, scaled)
        if box is not None:
            one.model.set_bounds(list(range(n)), *box)
        first = starts[: _CHECKED].copy()
        found = _core.solve_many(one.model, starts, one.data, settings, covariances)
        if loss == "linear":
            _check(fun, first, args, arrays, found["initial_cost"])
    except (TracingError, _core.Error) as error:
        if not falls_back or isinstance(error, _core.Error) and error.code != "unsupported":
            raise
        return _by_scipy(fun, np.array(as_numpy(X0), dtype=float), args, arrays, bounds, ftol, xtol, gtol,
                         loss, f_scale, max_nfev, covariances)
    status = found["status"]
    result = OptimizeResult(x=starts, cost=found["cost"], status=status, success=status > 0,
                            nfev=1 + found["steps"], message=found["summary"].message,
                            summary=found["summary"])
    if covariances:
        result["covariance"] = found["covariance"].reshape(count, n, n)
    return result


def _arguments(args: tuple, arrays: list[np.ndarray | None], k: int) -> list[Any]:
    return [a if array is None else array[k] for a, array in zip(args, arrays)]


def _check(fun: Callable, starts: np.ndarray, args: tuple, arrays: list[np.ndarray | None],
           costs: np.ndarray) -> None:
    """Raises TracingError if the traced function has other values than the function."""
    for k, x in enumerate(starts):
        try:
            with np.errstate(all="ignore"):
                f = np.asarray(fun(x.copy(), *_arguments(args, arrays, k)), dtype=float)
        except Exception:  # made for traced arrays alone
            return
        cost = 0.5 * float(np.sum(f * f))
        if np.isfinite(cost) and not abs(cost - costs[k]) <= 1e-8 * max(cost, 1e-300):
            raise TracingError(f"problem {k}: the traced function has cost {costs[k]:.9g} at the start, "
                               f"the function {cost:.9g}")


def _by_scipy(fun: Callable, starts: np.ndarray, args: tuple, arrays: list[np.ndarray | None], bounds: Any,
              ftol: Any, xtol: Any, gtol: Any, loss: Any, f_scale: float, max_nfev: int | None,
              covariances: bool) -> OptimizeResult:
    """The same, problem by problem."""
    count, n = starts.shape
    cost, status, nfev = np.zeros(count), np.full(count, -1), np.zeros(count, dtype=int)
    covariance = np.full((count, n, n), np.inf)
    for k in range(count):
        try:
            found = scipy.optimize.least_squares(
                fun, starts[k].copy(), bounds=bounds, ftol=ftol, xtol=xtol, gtol=gtol, loss=loss,
                f_scale=f_scale, max_nfev=max_nfev, args=tuple(_arguments(args, arrays, k)))
        except ValueError:  # no value at the start
            cost[k] = np.nan
            continue
        starts[k], cost[k], status[k], nfev[k] = found.x, found.cost, min(found.status, 1), found.nfev
        if covariances:
            try:
                covariance[k] = np.linalg.inv(found.jac.T @ found.jac)
            except np.linalg.LinAlgError:
                pass
    result = OptimizeResult(x=starts, cost=cost, status=status, success=status > 0, nfev=nfev,
                            message=f"{int(np.sum(status > 0))} of {count} problems converged, by SciPy",
                            summary=None)
    if covariances:
        result["covariance"] = covariance
    return result


def curve_fit_many(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    *,
    bounds: Any = (-np.inf, np.inf),
    full_output: bool = False,
    options: dict | None = None,
    **kwargs: Any,
) -> Any:
    """Fits ``f(xdata, *p)`` to each row of ydata: `curve_fit` for many curves at once.

    Parameters
    ----------
    f : callable
        ``f(xdata, *p)`` of one curve, shape (m,). Traced once.
    xdata : array_like of shape (m,), (k, m), (N, m) or (N, k, m), or object
        The same for all curves, or each curve's own if its first axis has N entries and another one m.
    ydata : array_like of shape (N, m)
        What f is fitted to.
    p0 : array_like of shape (n,) or (N, n), optional
        Starts, as in `curve_fit`.
    sigma : array_like of shape (m,) or (N, m), optional
        Standard deviations of ydata.
    absolute_sigma : bool
        False: covariances are scaled by the variance of each curve's residuals.
    bounds, **kwargs
        As in `least_squares_many`.
    full_output : bool
        Also returns the result of `least_squares_many`.

    Returns
    -------
    popt (N, n) and pcov (N, n, n), which is infinite where it could not be estimated and for curves that
    did not converge.
    """
    y = np.ascontiguousarray(as_numpy(ydata), dtype=float)
    if y.ndim != 2 or y.size == 0:
        raise ValueError(f"ydata: expected shape (curves, points), got {y.shape}")
    count, points = y.shape
    start = _starts(f, p0, bounds)
    if start.ndim == 1:
        start = np.tile(start, (count, 1))
    if start.shape[0] != count:
        raise ValueError(f"p0: expected shape (n,) or ({count}, n), got {start.shape}")
    n = start.shape[1]
    x: Any = xdata
    own = False
    if isinstance(xdata, (list, tuple, np.ndarray)):
        x = np.asarray(as_numpy(xdata), dtype=float)
        own = x.ndim >= 2 and x.shape[0] == count and x.shape[-1] == points
    deviations = None if sigma is None else np.asarray(as_numpy(sigma), dtype=float)
    if deviations is not None and deviations.shape not in ((points,), (count, points)):
        raise ValueError(f"sigma: expected shape ({points},) or ({count}, {points}), got "
                         f"{deviations.shape}")
    mine = [y] + ([x] if own else [])
    if deviations is not None and deviations.ndim == 2:
        mine.append(deviations)

    def residuals(p: Any, *numbers: Any) -> Any:
        rest = list(numbers)
        target = rest.pop(0)
        at = rest.pop(0) if own else x
        difference = f(at, *p) - target
        if deviations is None:
            return difference
        return difference / (rest.pop(0) if deviations.ndim == 2 else deviations)

    known: dict[str, Any] = {"ftol": _LEASTSQ, "xtol": _LEASTSQ, **kwargs}
    result = least_squares_many(residuals, start, tuple(mine), bounds=bounds, covariances=True,
                                options=options, **known)
    covariance = result["covariance"]
    if not absolute_sigma:
        freedom = points - n
        with np.errstate(invalid="ignore"):
            covariance = (covariance * (2 * result.cost / freedom)[:, None, None] if freedom > 0
                          else np.full_like(covariance, np.inf))
    covariance[~result.success] = np.inf
    return (result.x, covariance, result) if full_output else (result.x, covariance)
