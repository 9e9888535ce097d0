"""least_squares_many and curve_fit_many: one small problem, written once, for many sets of numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable

import numpy as np
import scipy.optimize
from scipy.optimize import OptimizeResult

from . import _core
from ._fits import _ROUNDINGS, _SHORT, _TIGHT, _covariance, _is_undetermined, _starts
from ._least_squares import (_EPS, _LOSSES, _MOST_KINKS, _NO_DEVICE, _bounds, _cost, _gain_within,
                             _gradient_tolerances, _rho)
from ._problem import _core_loss
from ._shim import calls_users, run_traced
from ._trace import NotReal, Trace, TracingError, as_numpy, location_of, returned

#: Problems whose cost is compared with that of the function's numbers, and residuals after which no further
#: one is.
_CHECKED, _MOST_CHECKED = 8, 2048
#: Shares by which these costs may differ by rounding.
_F64, _F32 = 1e-8, 1e-3
#: Share by which unknowns that are together may differ, how many unknowns there may be, and shares by which
#: one looks apart.
_TOGETHER, _MOST_TOGETHER, _APART = 1e-2, 16, (0.3, 0.1, 0.03, 0.01)
#: Factors of unknowns at which one looks whether residuals depend on them, where one has grown by another.
_ELSEWHERE, _GROWN = (1.05, 0.95, 1.3), 10


def _array(value: Any, name: str) -> np.ndarray:
    """An array of floats, the same one if it is one. Raises ValueError for masked entries, which would count as numbers."""
    if isinstance(value, np.ma.MaskedArray):
        if np.any(np.ma.getmaskarray(value)):
            raise ValueError(f"{name}: expected an array without masked entries, got "
                             f"{int(np.sum(np.ma.getmaskarray(value)))}; leave their points out, or give "
                             "them the weight 0 in fun")
        value = value.data
    array = as_numpy(value)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name}: expected real numbers, got an array of {array.dtype}")
    return np.ascontiguousarray(array, dtype=float)


def _is_array(value: Any) -> bool:
    if isinstance(value, (np.ndarray, list, tuple)) or hasattr(value, "__dlpack__"):
        return np.ndim(as_numpy(value)) > 0
    return False


def _own_arrays(args: tuple, count: int) -> list[np.ndarray | None]:
    """The arrays among args, each with an entry for every problem; None for what is no array."""
    found: list[np.ndarray | None] = []
    for k, argument in enumerate(args):
        array = _array(argument, f"args[{k}]") if _is_array(argument) else None
        if array is not None and array.shape[0] != count:
            raise ValueError(f"args[{k}]: expected a first axis of {count}, one entry for each problem, got "
                             f"shape {array.shape}; arrays that all problems share belong in kwargs")
        found.append(array)
    return found


class _Arguments:
    """Checked arguments of a call."""

    def __init__(self, fun: Callable, X0: Any, args: Any, kwargs: Any, bounds: Any, ftol: Any, xtol: Any,
                 gtol: Any, loss: Any, f_scale: float, max_nfev: Any, covariances: bool,
                 options: dict) -> None:
        self.starts = _array(X0, "X0")
        if self.starts.ndim != 2 or self.starts.shape[1] == 0:
            raise ValueError(f"X0: expected shape (problems, unknowns), got {self.starts.shape}")
        self.count, self.n = self.starts.shape
        args = args if isinstance(args, tuple) else tuple(args) if isinstance(args, list) else (args,)
        self.function, self.args, self.kwargs = fun, args, dict(kwargs or {})
        self.own = _own_arrays(args, self.count)
        self.lower, self.upper = _bounds(bounds, self.n)
        if np.any(self.lower >= self.upper):
            raise ValueError("Each lower bound must be strictly less than each upper bound.")
        if self.bounded:
            outside = (self.starts < self.lower) | (self.starts > self.upper)
            if np.any(outside):
                k, i = np.argwhere(outside)[0]
                raise ValueError(f"X0[{k}, {i}] is {self.starts[k, i]:.9g}, outside of its bounds "
                                 f"[{self.lower[i]:.9g}, {self.upper[i]:.9g}]")
        if loss not in _LOSSES and not callable(loss):
            raise ValueError(f"`loss` must be one of {_LOSSES} or a callable.")
        if not f_scale > 0:
            raise ValueError(f"`f_scale` must be positive, got {f_scale}.")
        if max_nfev is not None and max_nfev <= 0:
            raise ValueError("`max_nfev` must be None or positive integer.")
        tolerances = [0.0 if t is None else max(0.0, float(t)) for t in (ftol, xtol, gtol)]
        if not max(tolerances) >= _EPS:
            raise ValueError("At least one of the tolerances must be above machine epsilon.")
        self.ftol, self.xtol, self.gtol = tolerances
        self.loss, self.f_scale, self.max_nfev = loss, float(f_scale), max_nfev
        self.covariances = covariances
        _core.check_options(options)
        self.settings = {"function_tolerance": self.ftol, "parameter_tolerance": self.xtol,
                         **_gradient_tolerances(self.gtol), "max_iterations": self.most - 1, **options}

    @property
    def most(self) -> int:
        """Evaluations after which a problem ends."""
        return min(self.max_nfev or 100 * self.n, 2**31 - 1)

    @property
    def bounded(self) -> bool:
        return bool(np.any(np.isfinite(self.lower) | np.isfinite(self.upper)))

    def given(self, k: int) -> list[Any]:
        """args of problem k, with integers as they are."""
        return [a if own is None else as_numpy(a)[k] for a, own in zip(self.args, self.own)]

    def fun(self, x: Any, *given: Any) -> Any:
        return self.function(x, *given, **self.kwargs)

    def residuals(self, x: np.ndarray, k: int) -> np.ndarray:
        """Those of problem k, by the function."""
        f = np.asarray(self.fun(x.copy(), *self.given(k)), dtype=float)
        if f.ndim > 1:
            raise ValueError(f"fun: expected the residuals of one problem, shape (m,), got {f.shape}")
        return f.reshape(-1)


class _Prototype:
    """One of the problems, traced: its data are stand-ins for those of each problem.

    With `weights` its rows are multiplied by weights(f) of the residuals f at an x that is data, too.
    """

    def __init__(self, a: _Arguments, loss: Any, weights: Callable | None = None) -> None:
        self.model = _core.Model()
        trace = Trace()
        self._start = a.starts[0].copy()
        self.model.add_parameters(self._start, a.n, "x")
        self.data: list[np.ndarray] = []

        def stand_in(array: np.ndarray) -> Any:
            size = int(np.prod(array.shape[1:], dtype=np.int64))
            _, first = self.model.add_data(_core.codes(len(self.data), size), "")
            self.data.append(array.reshape(array.shape[0], size))
            return trace.wrap(trace.graph.unknowns(first, size), array.shape[1:])

        given = [argument if own is None else stand_in(own) for argument, own in zip(a.args, a.own)]
        unknowns = trace.unknowns(0, (a.n,))
        rows = trace.array(run_traced(trace, a.function, (unknowns, *given), a.kwargs))
        if rows.ndim > 1:
            raise ValueError(f"fun: expected the residuals of one problem, shape (m,), got {rows.shape}")
        rows = rows.reshape(-1)
        if weights is not None:
            fixed = trace.array(run_traced(trace, a.function, (stand_in(a.starts), *given), a.kwargs)).reshape(-1)
            rows = rows * trace.array(run_traced(trace, weights, (fixed,)))
        self.rows = rows.size
        added = trace.graph.add_blocks(self.model, rows._whole_node(), 1, _core_loss(loss), "",
                                       _core.BlockKind.residual, loss is None)
        if added.rows != self.rows or self.model.sizes()["rows"] != self.rows:
            raise TracingError("a residual reads no unknown")
        if a.bounded:
            self.model.set_bounds(list(range(a.n)), a.lower, a.upper)

    def solve(self, x: np.ndarray, settings: dict, covariances: bool, some: Any = slice(None)) -> dict:
        """Minimises the problems `some` from x, which is overwritten."""
        data = [np.ascontiguousarray(d[some]) for d in self.data]
        return _core.solve_many(self.model, x, data, settings, covariances)


def least_squares_many(
    fun: Callable[..., Any],
    X0: Any,
    args: tuple = (),
    *,
    kwargs: dict | None = None,
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
        ``fun(x, *args, **kwargs)``, x of shape (n,), returns the residuals of one problem, shape (m,).
    X0 : array_like of shape (N, n)
        Starts. N may be 0: then the result is empty, and fun is not called.
    args : tuple
        The problems' own numbers: arrays whose first axis has N entries, of which fun gets one. What
        is no array is given to fun as it is.
    kwargs : dict, optional
        What all problems share. Arrays are given to fun whole, whatever their shape.
    bounds : 2-tuple of array_like or scipy.optimize.Bounds
        Lower and upper bounds of x, for all problems.
    ftol, xtol, gtol : float or None
        As those of `least_squares`.
    loss, f_scale
        As those of `least_squares`; losses that are functions are left to SciPy.
    max_nfev : int, optional
        Most evaluations of one problem, 100 n if not given.
    covariances : bool
        The result has `covariance` of shape (N, n, n): (JᵀJ)⁻¹ at each solution, infinite where JᵀJ is
        singular. With a loss, rows of J have the factors that `jac` of `least_squares` has.
    options : dict, optional
        Options of `Problem.solve`. {'fallback': False}: what cannot be traced raises TracingError
        instead of being solved by SciPy, problem by problem; `message` says why it was.

    Returns
    -------
    OptimizeResult
        x (N, n), cost (N,), success (N,) bool, status (N,): 1 converged, 0 the limit of evaluations was
        reached, -1 failed, such as a start without a value or an end where no residual depends on any
        unknown; nfev (N,); `message` and `summary` of all.

    Raises ValueError for arguments that do not fit, and for masked entries.
    """
    given = dict(options or {})
    falls_back = given.pop("fallback", True)
    a = _Arguments(fun, X0, args, kwargs, bounds, ftol, xtol, gtol, loss, f_scale, max_nfev, covariances,
                   given)
    if a.count == 0:
        return _result(a, a.starts, np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.int64),
                       np.zeros((0, a.n, a.n)), "There are no problems.")
    try:
        return _traced(a)
    except (MemoryError, NotReal):
        raise
    except Exception as error:  # whatever fun raises for a traced array
        named = given.get("device") or given.get("backend") == "vulkan"  # who names one wants it
        if not falls_back or isinstance(error, _core.Error) and (named or error.code in _NO_DEVICE):
            raise
        reason = str(error) or type(error).__name__
        if not isinstance(error, (_core.Error, TracingError)):
            reason += f" ({location_of(error)})"
    return _by_scipy(a, reason)


def _traced(a: _Arguments) -> OptimizeResult:
    scaled: Any = None
    if callable(a.loss):
        raise TracingError("a loss that is a function")
    if a.loss != "linear":
        scaled = (a.loss, a.f_scale**2 if a.loss == "arctan" else a.f_scale)
    one = _Prototype(a, scaled)
    x = a.starts.copy()
    found = one.solve(x, a.settings, a.covariances)
    found["nfev"] = 1 + found["steps"]
    _check(a, a.starts, found["initial_cost"], _F32 if a.settings.get("precision", "f64") != "f64" else _F64)
    _go_on_from_kinks(a, one, x, found)
    _go_on_from_saddles(a, one, x, found)
    _refuse_plateaus(a, one, x, found)
    status, cost = found["status"], found["cost"]
    _check(a, x, cost, _F64)
    if a.covariances and a.loss != "linear":
        found["covariance"] = _robust_covariances(a, x)
    return _result(a, x, cost, status, found["nfev"], found["covariance"], found["summary"].message,
                   found["summary"])


def _result(a: _Arguments, x: np.ndarray, cost: np.ndarray, status: np.ndarray, nfev: np.ndarray,
            covariance: np.ndarray, message: str, summary: Any = None) -> OptimizeResult:
    result = OptimizeResult(x=x, cost=cost, status=status, success=status > 0, nfev=nfev, message=message,
                            summary=summary)
    if a.covariances:
        result["covariance"] = covariance.reshape(a.count, a.n, a.n)
    return result


def _check(a: _Arguments, x: np.ndarray, costs: np.ndarray, rounding_of: float) -> None:
    """Raises TracingError if the traced function has other values at x than the function.

    It is called for some problems: fewer if each has many residuals. A device's costs at the starts
    have its precision, those at the ends are of f64.
    """
    of_loss = SimpleNamespace(loss=a.loss, f_scale=a.f_scale)
    checked = 0
    for k in _spread(a.count):
        if checked > _MOST_CHECKED:
            return
        try:
            with np.errstate(all="ignore"):
                f = a.residuals(x[k], k)
                cost = _cost(of_loss, f)  # type: ignore[arg-type]
                checked += f.size
                if not np.isfinite(cost) or abs(cost - costs[k]) <= rounding_of * cost:
                    continue
                near = a.residuals(x[k] * (1 + 2.0**-20), k)
        except Exception:  # made for traced arrays alone
            return
        # Near a perfect fit all digits cancel: what is rounded are the terms, about |J x| large.
        terms = float(np.linalg.norm(near - f)) * 2.0**20
        norm = rounding_of * np.sqrt(cost) + (1e-11 * terms if np.isfinite(terms) else 0.0)
        rounding = norm * (2 * np.sqrt(cost) + norm)
        if a.loss != "linear":  # of 1 + z
            rounding += 4 * _EPS * f.size * a.f_scale**2
        if not abs(cost - costs[k]) <= rounding:
            raise TracingError(f"problem {k}: the traced function has cost {costs[k]:.9g} at "
                               f"{np.array2string(x[k], precision=6)}, the function {cost:.9g}")


def _spread(count: int) -> np.ndarray:
    """Numbers of some problems: the first, the last, and then between them."""
    some = np.unique(np.linspace(0, count - 1, _CHECKED).astype(int))
    return np.concatenate((some[:1], some[:0:-1]))


class _Lowest:
    """The lowest points that were found beside results."""

    def __init__(self, a: _Arguments, one: _Prototype, x: np.ndarray, cost: np.ndarray) -> None:
        self._a, self._one, self._x = a, one, x
        self.moved, self._least = x.copy(), cost.copy()

    def look(self, at: np.ndarray, beside: np.ndarray, gain: np.ndarray) -> None:
        """Takes points beside the results of the problems `at` whose costs are lower by more than gain."""
        inside = np.all((beside >= self._a.lower) & (beside <= self._a.upper), axis=1)
        at, beside, gain = at[inside], beside[inside], gain[inside]
        if at.size == 0:
            return
        costs = self._one.solve(beside.copy(), {**self._a.settings, "max_iterations": 0}, False, at)["initial_cost"]
        lower = costs < self._least[at] - gain
        self.moved[at[lower]], self._least[at[lower]] = beside[lower], costs[lower]

    def solve_on(self, found: dict) -> bool:
        """Solves on from them, and keeps what is lower. False if there are none."""
        a, x, cost = self._a, self._x, found["cost"]
        some = np.flatnonzero(np.any(self.moved != x, axis=1) & (found["nfev"] < a.most))
        if some.size == 0:
            return False
        while some.size > 0:
            # All get what the one with the fewest evaluations has left: those that need more go on.
            left = a.most - found["nfev"][some]
            settings = {**a.settings, "max_iterations": min(a.settings["max_iterations"], int(np.min(left)) - 1)}
            again_x = self.moved[some]
            again = self._one.solve(again_x, settings, a.covariances, some)
            found["nfev"][some] += 1 + again["steps"]
            better = (again["cost"] < cost[some]) & (again["status"] >= 0)
            at = some[better]
            x[at], cost[at], found["status"][at] = again_x[better], again["cost"][better], again["status"][better]
            if a.covariances:
                size = a.n * a.n
                found["covariance"].reshape(a.count, size)[at] = again["covariance"].reshape(-1, size)[better]
            self.moved[some] = again_x
            some = some[(again["status"] == 0) & (found["nfev"][some] < a.most) & (left > np.min(left))]
        return True


def _goes_on(found: dict) -> np.ndarray:
    """True for problems whose result may be no minimum, though they converged: those that failed and those
    that the limit ended stay where they are."""
    return (found["status"] > 0) & (found["cost"] > 0)


def _go_on_from_kinks(a: _Arguments, one: _Prototype, x: np.ndarray, found: dict) -> None:
    """Solves on from beside results where an unknown did not move and the cost is smaller beside it:
    |x| and x² have the derivative 0 at 0, where SciPy's differences lead away."""
    start = a.starts
    for _ in range(_MOST_KINKS):
        still = x == start
        if not np.any(still):
            return
        still &= _goes_on(found)[:, None]
        lowest = _Lowest(a, one, x, found["cost"])
        for i in range(a.n):
            some = np.flatnonzero(still[:, i])
            for step in np.outer((1e-4, _EPS**0.5), (1, -1)).ravel():
                if some.size == 0:
                    break
                beside = lowest.moved[some]
                by = step * np.maximum(1.0, np.abs(x[some, i]))
                beside[:, i] = x[some, i] + by
                lowest.look(some, beside, 1e-13 * found["cost"][some] + _gain_within(a.gtol, by))
        start = x.copy()
        if not lowest.solve_on(found):
            return


def _go_on_from_saddles(a: _Arguments, one: _Prototype, x: np.ndarray, found: dict) -> None:
    """Solves on from beside results where two unknowns began and ended together, if the cost is smaller
    where they are apart: exact derivatives never part two terms that are the same."""
    pairs = [(i, j) for i in range(a.n) for j in range(i) if np.any(a.starts[:, i] == a.starts[:, j])]
    if a.n > _MOST_TOGETHER or not pairs:
        return
    for _ in range(_MOST_KINKS):
        lowest = _Lowest(a, one, x, found["cost"])
        goes_on = _goes_on(found)
        for i, j in pairs:
            first, other = x[:, i], x[:, j]
            together = (a.starts[:, i] == a.starts[:, j]) & (np.abs(first - other) <= _TOGETHER * np.abs(first))
            some = np.flatnonzero(together & (first != 0) & goes_on)
            for share in _APART if some.size > 0 else ():
                beside = x[some]
                beside[:, i] *= 1 + share
                beside[:, j] *= 1 - share
                lowest.look(some, beside, max(a.ftol, 10 * _EPS) * found["cost"][some])
        if not lowest.solve_on(found):
            return


def _refuse_plateaus(a: _Arguments, one: _Prototype, x: np.ndarray, found: dict) -> None:
    """Gives the status -1 to results at which no residual depends on any unknown: all derivatives are zero
    there, which is no minimum. Looks where unknowns have grown, or have not moved."""
    led = (found["nfev"] == 1) | np.any(np.abs(x) > _GROWN * np.abs(a.starts), axis=1)
    some = np.flatnonzero(led & (found["status"] > 0) & (found["cost"] > 0) & np.all(x != 0, axis=1))
    for factor in _ELSEWHERE:
        if some.size == 0:
            return
        beside = np.clip(x[some] * factor, a.lower, a.upper)
        costs = one.solve(beside, {**a.settings, "max_iterations": 0}, False, some)["initial_cost"]
        at = found["cost"][some]
        some = some[(np.abs(costs - at) <= 4 * _EPS * at) & np.all(beside != x[some], axis=1)]
    found["status"][some] = -1


def _robust_covariances(a: _Arguments, x: np.ndarray) -> np.ndarray:
    """(JᵀJ)⁻¹ at x with the factors of the rows that SciPy's Jacobian has under a loss."""
    def weights(f: Any) -> Any:
        _, slope, curvature = _rho(of_loss, f)  # type: ignore[arg-type]
        return np.sqrt(np.maximum(slope + 2 * curvature * f**2, _EPS))

    of_loss = SimpleNamespace(loss=a.loss, f_scale=a.f_scale)
    at = SimpleNamespace(**{**vars(a), "starts": x}, fun=a.fun, bounded=False)
    at.args, at.own = a.args, a.own
    weighted = _Prototype(at, None, weights)  # type: ignore[arg-type]
    return weighted.solve(x.copy(), {"max_iterations": 0}, True)["covariance"]


def _by_scipy(a: _Arguments, reason: str) -> OptimizeResult:
    """The same, problem by problem."""
    cost, status, nfev = np.full(a.count, np.nan), np.full(a.count, -1), np.zeros(a.count, dtype=int)
    covariance = np.full((a.count, a.n, a.n), np.inf)
    x = a.starts.copy()
    for k in range(a.count):
        with np.errstate(all="ignore"):
            if not np.all(np.isfinite(a.residuals(x[k], k))):
                continue
        try:
            found = scipy.optimize.least_squares(
                a.fun, x[k].copy(), bounds=(a.lower, a.upper), ftol=a.ftol, xtol=a.xtol, gtol=a.gtol,
                loss=a.loss, f_scale=a.f_scale, max_nfev=a.max_nfev, args=tuple(a.given(k)))
        except (ValueError, np.linalg.LinAlgError):  # derivatives without a value
            continue
        x[k], cost[k], status[k], nfev[k] = found.x, found.cost, min(found.status, 1), found.nfev
        covariance[k] = _covariance(found.jac)
    return _result(a, x, cost, status, nfev, covariance,
                   f"{int(np.sum(status > 0))} of {a.count} problems converged, by SciPy: {reason}")


def _has_own_points(f: Callable, x: Any, starts: np.ndarray, points: int) -> bool:
    """True if the first axis of xdata is that of the curves: f of the whole is not one curve."""
    count = len(starts)
    if not isinstance(x, np.ndarray) or x.ndim < 2 or count == 0:
        return False
    try:
        with np.errstate(all="ignore"):
            whole = np.shape(f(x, *starts[0]))
    except Exception:  # f is for the points of one curve
        whole = None
    if whole == (points,):
        return False
    if x.shape[0] != count:
        raise ValueError(f"xdata: expected one that f reads as it is, or a first axis of {count}, one entry "
                         f"for each curve, got shape {x.shape}, of which f gives {whole}")
    return True


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
    own_xdata: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Fits ``f(xdata, *p)`` to each row of ydata: `curve_fit` for many curves at once.

    Parameters
    ----------
    f : callable
        ``f(xdata, *p)`` of one curve, shape (m,). Traced once.
    xdata : array_like or object
        The same for all curves, as `curve_fit` reads it, such as (m,) or (k, m); or each curve's own
        with a leading axis of N, such as (N, m) or (N, k, m).
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
    own_xdata : bool, optional
        Whether the first axis of xdata is that of the curves. If not given, f says it: xdata is the
        same for all curves if ``f(xdata, *p)`` of the whole array is one curve, shape (m,), and each
        curve's own if it is not.

    Returns
    -------
    popt (N, n) and pcov (N, n, n), which is infinite where it could not be estimated and for curves that
    did not converge.
    """
    y = _array(ydata, "ydata")
    if y.ndim != 2 or y.shape[1] == 0:
        raise ValueError(f"ydata: expected shape (curves, points), got {y.shape}")
    count, points = y.shape
    start = _starts(f, p0, bounds)
    if start.ndim == 1:
        start = np.tile(start, (count, 1))
    if start.ndim != 2 or start.shape[0] != count:
        raise ValueError(f"p0: expected shape (n,) or ({count}, n), got {start.shape}")
    n = start.shape[1]
    x: Any = _array(xdata, "xdata") if isinstance(xdata, (list, tuple, np.ndarray)) else xdata
    own = _has_own_points(f, x, start, points) if own_xdata is None else own_xdata
    deviations = None if sigma is None else _array(sigma, "sigma")
    if deviations is not None:
        if deviations.shape not in ((points,), (count, points)):
            raise ValueError(f"sigma: expected shape ({points},) or ({count}, {points}), got "
                             f"{deviations.shape}")
        if not np.all(deviations > 0):
            raise ValueError("sigma: expected positive numbers, got "
                             f"{np.min(deviations[~(deviations > 0)]):.9g}")
    mine = [y] + ([x] if own else [])
    if deviations is not None and deviations.ndim == 2:
        mine.append(deviations)

    @calls_users
    def residuals(p: Any, *numbers: Any) -> Any:
        rest = list(numbers)
        target = rest.pop(0)
        at = rest.pop(0) if own else x
        difference = returned(f, f(at, *p)) - target
        if deviations is None:
            return difference
        return difference / (rest.pop(0) if deviations.ndim == 2 else deviations)

    known: dict[str, Any] = {"ftol": _TIGHT, "xtol": _TIGHT, **kwargs}
    if "maxfev" in known:
        known.setdefault("max_nfev", known.pop("maxfev") or None)
    result = least_squares_many(residuals, start, tuple(mine), bounds=bounds, covariances=True,
                                options=options, **known)
    covariance = result["covariance"]
    sizes = np.linalg.norm(y if deviations is None else y / deviations, axis=1)
    spread = np.sqrt(np.abs(np.diagonal(covariance, axis1=1, axis2=2)))
    faint = np.any(_ROUNDINGS * _EPS * sizes[:, None] * spread > _SHORT * np.abs(result.x), axis=1)
    for k in np.flatnonzero(faint & result.success & np.all(np.isfinite(covariance), axis=(1, 2))):
        def of_one(p: np.ndarray, numbers: tuple = tuple(own[k] for own in mine)) -> np.ndarray:
            return np.asarray(residuals(p, *numbers), dtype=float)

        if _is_undetermined(of_one, result.x[k], of_one(result.x[k]), float(sizes[k]), covariance[k]):
            covariance[k] = np.inf
    if not absolute_sigma:
        freedom = points - n
        with np.errstate(invalid="ignore"):
            covariance = (covariance * (2 * result.cost / freedom)[:, None, None] if freedom > 0
                          else np.full_like(covariance, np.inf))
    covariance[~result.success | np.any(np.isnan(covariance), axis=(1, 2))] = np.inf
    return (result.x, covariance, result) if full_output else (result.x, covariance)
