"""least_squares with the signature of SciPy's."""

from __future__ import annotations

import functools
import inspect
import math
import time
import warnings
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np
from scipy.linalg.lapack import dgeqrf, dpotrf
from scipy.optimize import OptimizeResult
from scipy.sparse import csr_matrix, issparse

from . import _core, _reuse
from ._losses import traced_loss
from ._shim import run_traced
from ._summary import Summary
from ._trace import (Array, NotReal, Trace, Traced, TracingError, as_numpy, location_of, location_of_function,
                     returned)

_EPS = float(np.finfo(float).eps)
#: The default of gtol.
_GTOL = 1e-8
#: Codes of errors that say that a backend or a device cannot be had.
_NO_DEVICE = ("no_loader", "no_driver", "no_device", "device_lost")
#: Seconds that an operation of a row takes to compile, and an element of a filled array to trace.
_PER_OPERATION, _PER_ELEMENT = 45e-6, 1e-7
#: What a trace may always take, in seconds, and evaluations of a function that SciPy makes for each
#: unknown.
_ALWAYS, _EVALUATIONS = 0.2, 40
#: Rows up to which the trace of a function is kept for later calls.
_MOST_ROWS_KEPT = 100_000
#: Numbers of a Jacobian up to which it is computed at once, and an engine is kept.
_MOST_IN_ENGINE = 100_000
#: Seconds below which SciPy is expected to stay where it tries again what did not converge.
_MOST_AFTER = 2.0
#: Times that a solve goes on from beside its result.
_MOST_KINKS = 4
#: Times that a solve goes on with another grid of times.
_MOST_GRIDS = 8
#: Share of the residuals by which a step beside a kink changes them, share below which an unknown of its own
#: size has no effect on them, and the exponent of the longest such step.
_BESIDE_A_KINK, _VANISHED, _LARGEST_EXPONENT = 1e-4, 1e-12, 1000
#: Steps in a row that change the cost by rounding alone, after which a solve ends.
_STALLED = 6
#: Share of the cost that a Gauss-Newton step may gain from where a solve ends, and operations up to
#: which it is computed.
_MOST_GAIN, _MOST_OPERATIONS = 0.005, 2_000_000
#: Share of the largest length to which the Jacobian maps a unit step below which a step changes nothing,
#: how many such directions are looked along, by which share of x to see whether the cost curves down, and
#: a length of nothing.
_STILL, _MOST_STILL, _BESIDE, _TINY = 1e-4, 4, 0.01, 1e-300
#: Cosine between the residuals and a column of the Jacobian below which a gradient has vanished.
_MOST_COSINE = 1e-6
#: The same beside gtol, and the largest that a gtol may ask for.
_COSINES_OF_GTOL, _LARGEST_COSINE = 100, 1e-2
#: Share of the residuals below which an unknown of its own size may have no effect on them, share of them
#: by which it is then moved, and the factor by which the change may miss what the derivative promises.
_FAINT, _MOVED, _LINEAR = 1e-6, 1e-3, 2.0
#: Factor from the start of an unknown from which on it has run away, and share of the largest singular value of
#: the Jacobian below which a direction is lost.
_FAR, _LOST_RANK = 1e8, 1e-10
#: The end of a solve that was led to where the residuals no longer depend on an unknown.
_FLAT = "the residuals hardly depend on x[{}] near the result: this is no minimum"
#: Dampings of the steps that are tried where steps changed nothing, the most unknowns that are also
#: moved one by one, and how many times a tolerance these steps must gain.
_DAMPINGS, _MOST_ALONE, _MOST_OVER_TOLERANCE = (1.0, 1e2, 1e4, 1e6), 32, 10
#: The end of a solve whose cost small steps still lower.
_STILL_FALLS = {"status": -1, "success": False, "message": "small steps still lower the cost"}
#: Share of the squares of terms below which a fit is perfect.
_PERFECT = 1e-20
#: Tolerances above it ask for less than that.
_LOOSE = 1e-4
#: Bounds of a call that has none.
_UNBOUNDED = (-np.inf, np.inf)
_METHODS = ("trf", "dogbox", "lm")
_LOSSES = ("linear", "soft_l1", "huber", "cauchy", "arctan")
_MESSAGES = {
    -2: "`callback` raised StopIteration.",
    -1: "Improper input parameters status returned from `leastsq`",
    0: "The maximum number of function evaluations is exceeded.",
    1: "`gtol` termination condition is satisfied.",
    2: "`ftol` termination condition is satisfied.",
    3: "`xtol` termination condition is satisfied.",
    4: "Both `ftol` and `xtol` termination conditions are satisfied.",
}
#: Dense Jacobians of a result have at most this many numbers; above, they are sparse.
_DENSE = 4_000_000


class Result(OptimizeResult):
    """An OptimizeResult whose `jac`, if it is large, is computed when it is first asked for."""

    def __missing__(self, name: str) -> Any:
        later = self.__dict__.get("jacobian")
        if name != "jac" or later is None:
            raise KeyError(name)
        self["jac"] = later()
        return self["jac"]

    def __dir__(self) -> list[str]:
        return sorted({*self.keys(), "jac"})

    def __reduce__(self) -> Any:
        if self.__dict__.get("jacobian") is not None:
            self.jac  # computed, if it was not
        return Result, (dict(self),)


def trace_function(fun: Callable, size: int, scale: Any, args: tuple, kwargs: dict,
                   seconds: float | None = None, notes_sources: bool = False,
                   start: np.ndarray | None = None) -> tuple[Trace, Array]:
    """Runs fun(x, *args, **kwargs) once on a traced x of this size, which is scale times the unknowns.

    Raises TracingError, and what fun raises. With `seconds`, what would take longer to trace and to
    compile is refused here or by Graph.model.
    """
    trace = Trace()
    if start is not None:
        trace.start = lambda: start / scale
    if notes_sources:
        trace.sources = []
    if seconds is not None:
        trace.graph.limit(int(seconds / _PER_OPERATION))
        trace.most_written = min(int(seconds / _PER_ELEMENT), 20_000_000)
    x = trace.unknowns(0, (size,))
    if np.ndim(scale) > 0:
        x = x.times(scale)
    made = run_traced(trace, fun, (x, *args), kwargs)
    if isinstance(made, Traced) and not isinstance(made, Array) and not hasattr(type(made), "number"):
        raise TracingError("what the function returns: " + made.not_real, location_of_function(fun))
    rows = trace.array(made)
    return trace, rows.reshape(-1) if rows.ndim == 0 else rows


def _tolerance(value: Any, name: str, method: str) -> float:
    if value is None:
        value = 0.0
    if not isinstance(value, (int, float, np.number)):
        raise TypeError(f"`{name}` must be a number or None")
    if value < _EPS:
        if method == "lm":
            raise ValueError(f"`{name}` is below machine epsilon, which method='lm' does not take")
        if value != 0.0:
            warnings.warn(f"`{name}` is below machine epsilon: it has no effect", stacklevel=4)
    return float(value)


def _bounds(bounds: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        bounds = (bounds.lb, bounds.ub)
    if len(bounds) != 2:
        raise ValueError("`bounds` must contain 2 elements.")
    lower, upper = np.asarray(bounds[0], dtype=float), np.asarray(bounds[1], dtype=float)
    if lower.ndim == 0:
        lower = np.full(n, lower)
    if upper.ndim == 0:
        upper = np.full(n, upper)
    if lower.shape != (n,) or upper.shape != (n,):
        raise ValueError("Inconsistent shapes between bounds and `x0`.")
    return lower, upper


def _real(fun: Callable, found: Any) -> np.ndarray:
    """What fun returned, as residuals. SciPy goes on with complex ones, to no minimum."""
    values = np.asarray(returned(fun, found))
    kind = values.dtype.kind
    if kind in "fiu":
        return np.atleast_1d(values.astype(float, copy=False))
    if kind == "c":
        raise NotReal("`fun` must return real numbers, got complex ones: return z.view(float), or "
                      "np.concatenate([z.real, z.imag])")
    if kind == "O" and all(v is not None for v in values.flat):
        return np.atleast_1d(values.astype(float))
    raise NotReal(f"`fun` must return numbers, got an array of {values.dtype}")


class _Arguments:
    """Checked arguments of a call."""

    def __init__(self, fun: Callable, x0: Any, jac: Any, bounds: Any, method: str, ftol: Any,
                 xtol: Any, gtol: Any, x_scale: Any, loss: Any, f_scale: float, tr_solver: Any,
                 jac_sparsity: Any, max_nfev: Any, verbose: int, callback: Any = None) -> None:
        if method not in _METHODS:
            raise ValueError(f"`method` must be one of {_METHODS}")
        if jac not in ("2-point", "3-point", "cs") and not callable(jac):
            raise ValueError("`jac` must be '2-point', '3-point', 'cs' or callable.")
        if tr_solver not in (None, "exact", "lsmr"):
            raise ValueError("`tr_solver` must be None, 'exact' or 'lsmr'.")
        if loss not in _LOSSES and not callable(loss):
            raise ValueError(f"`loss` must be one of {_LOSSES} or a callable.")
        if method == "lm" and loss != "linear":
            raise ValueError("method='lm' supports only 'linear' loss function.")
        if verbose not in (0, 1, 2):
            raise ValueError("`verbose` must be in [0, 1, 2].")
        if max_nfev is not None and not max_nfev > 0:
            raise ValueError("`max_nfev` must be None or positive integer.")
        start = as_numpy(x0)
        if start.dtype.kind == "c":
            raise ValueError("`x0` must be real.")
        self.x0 = np.array(start, dtype=float, ndmin=1)
        if self.x0.ndim > 1:
            raise ValueError("`x0` must have at most 1 dimension.")
        n = self.x0.size
        if n == 0:
            raise ValueError("`x0` is empty: there is nothing to minimise over.")
        if bounds is _UNBOUNDED:
            self.lower, self.upper, self.bounded = np.full(n, -np.inf), np.full(n, np.inf), False
        else:
            self._set_bounds(bounds, n, method)
        #: x is this times the unknowns of the solve, which are within a ball if it is an array.
        self.scale: Any = 1.0
        self.in_ball = False
        if not (x_scale is None or isinstance(x_scale, str) and x_scale == "jac"):
            try:
                scale = np.asarray(x_scale, dtype=float)
                valid = bool(np.all(np.isfinite(scale)) and np.all(scale > 0))
            except (ValueError, TypeError):
                valid = False
            if not valid:
                raise ValueError("`x_scale` must be 'jac' or array_like with positive numbers.")
            if scale.ndim > 0 and scale.shape != self.x0.shape:
                raise ValueError("Inconsistent shapes between `x_scale` and `x0`.")
            if scale.ndim > 0:
                self.scale, self.in_ball = scale, True
        #: The ball limits steps of the solve that begins at x0, and of none that goes on from its result.
        self.is_limited = self.in_ball
        self.ftol, self.xtol, self.gtol = (
            _tolerance(t, name, method)
            for t, name in ((ftol, "ftol"), (xtol, "xtol"), (gtol, "gtol"))
        )
        if max(self.ftol, self.xtol, self.gtol) < _EPS:
            raise ValueError("At least one of the tolerances must be above machine epsilon.")
        if method == "lm" and jac_sparsity is not None:
            raise ValueError("method='lm' does not support `jac_sparsity`.")
        self.fun, self.jac, self.method = fun, jac, method
        self.loss, self.f_scale, self.verbose = loss, float(f_scale), verbose
        self.max_nfev = max_nfev
        self.exact = tr_solver == "exact"
        if not callable(jac) and jac_sparsity is not None and tr_solver == "exact":
            raise ValueError("tr_solver='exact' is incompatible with `jac_sparsity`.")
        self.sparsity = None if callable(jac) else jac_sparsity
        self.sparse = self.sparsity is not None
        if callback is not None and not callable(callback):
            raise TypeError("`callback` must be callable.")
        if method == "lm" and callback is not None:
            warnings.warn("`callback` is not supported by method='lm'", stacklevel=3)
            callback = None
        self.callback = callback
        #: Evaluations of the solves from whose result the next one goes on.
        self.spent = 0
        #: Unknowns that the next solve does not move.
        self.held: list[int] = []
        #: how a traced function differs from the function
        self.reached: np.ndarray | None = None  # where it differed, if that is not the start
        self.difference = "no row of the function depends on x"

    def _set_bounds(self, bounds: Any, n: int, method: str) -> None:
        self.lower, self.upper = _bounds(bounds, n)
        self.bounded = not ((self.lower == -np.inf).all() and (self.upper == np.inf).all())
        if method == "lm" and self.bounded:
            raise ValueError("Method 'lm' doesn't support bounds.")
        if not self.bounded:
            return
        if np.any(self.lower >= self.upper):
            raise ValueError("Each lower bound must be strictly less than each upper bound.")
        if np.any(self.x0 < self.lower) or np.any(self.x0 > self.upper):
            raise ValueError("`x0` is infeasible.")

    def check_values(self, f: np.ndarray, loss: Any, first_jacobian: Callable[[], Any]) -> None:
        """Raises ValueError for what does not fit the residuals at the start."""
        size = (f.size, self.x0.size)
        if f.ndim > 1:
            raise ValueError("`fun` must return at most 1-d array_like.")
        if not np.isfinite(f).all():
            raise ValueError("Residuals are not finite in the initial point.")
        if self.method == "lm" and size[0] < size[1]:
            raise ValueError("Method 'lm' doesn't work when the number of residuals is less than the "
                             "number of variables.")
        if callable(loss) and np.shape(loss((f / self.f_scale) ** 2)) != (3, f.size):
            raise ValueError("The return value of `loss` callable has wrong shape.")
        if self.sparsity is not None:
            pattern = self.sparsity if issparse(self.sparsity) else np.atleast_2d(self.sparsity)
            if pattern.shape != size:
                raise ValueError("`jac_sparsity` has wrong shape.")
        if callable(self.jac):
            first = first_jacobian()
            dense = not hasattr(first, "shape") or isinstance(first, np.ndarray)
            shape = np.atleast_2d(first).shape if dense else first.shape
            if shape != size:
                raise ValueError(f"The return value of `jac` has wrong shape: expected {size}, "
                                 f"actual {shape}.")
            self.sparse = issparse(first)
            if not dense and (self.method == "lm" or self.exact):
                which = "method='lm'" if self.method == "lm" else "tr_solver='exact'"
                raise ValueError(f"{which} works only with dense Jacobian matrices.")


def _loss_of(a: _Arguments, f: np.ndarray) -> Any:
    """The loss in the library's terms: SciPy's is scaled by f_scale squared.

    Raises TracingError for a function that cannot be traced, or whose derivative at the residuals f
    is not what it says.
    """
    if callable(a.loss):
        loss = traced_loss(a.loss, a.f_scale)
        for ours, theirs in zip(loss.evaluate(f**2)[:2], _rho(a, f)):
            if not np.allclose(ours, theirs, 1e-6, 1e-9, equal_nan=True):
                raise TracingError("the traced loss has other values than the function")
        return loss
    scale = a.f_scale**2 if a.loss == "arctan" else a.f_scale
    return None if a.loss == "linear" else (a.loss, scale)


def _rho(a: _Arguments, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f_scale² ρ(z) and ρ'(z), ρ''(z) / f_scale² of the loss, where z = (f / f_scale)²."""
    z = (f / a.f_scale) ** 2
    one, zero = np.ones_like(z), np.zeros_like(z)
    with np.errstate(all="ignore"):
        if callable(a.loss):
            rho = tuple(np.asarray(a.loss(z), dtype=float))
        elif a.loss == "huber":
            small = z <= 1
            rho = (np.where(small, z, 2 * np.sqrt(z) - 1), np.where(small, 1, z**-0.5),
                   np.where(small, 0, -0.5 * z**-1.5))
        elif a.loss == "soft_l1":
            rho = (2 * (np.sqrt(1 + z) - 1), (1 + z) ** -0.5, -0.5 * (1 + z) ** -1.5)
        elif a.loss == "cauchy":
            rho = (np.log1p(z), 1 / (1 + z), -1 / (1 + z) ** 2)
        elif a.loss == "arctan":
            rho = (np.arctan(z), 1 / (1 + z**2), -2 * z / (1 + z**2) ** 2)
        else:
            rho = (z, one, zero)
    return a.f_scale**2 * rho[0], rho[1], rho[2] / a.f_scale**2


def _cost(a: _Arguments, f: np.ndarray) -> float:
    """The cost of residuals f."""
    return 0.5 * float(np.dot(f, f) if a.loss == "linear" else np.sum(_rho(a, f)[0]))


def _row_scales(a: _Arguments, f: np.ndarray) -> np.ndarray:
    """Factors of the Jacobian's rows with which JᵀJ approximates the Hessian under the loss."""
    _, slope, curvature = _rho(a, f)
    return np.sqrt(np.maximum(slope + 2 * curvature * f**2, _EPS))


class _Values:
    """Values and derivatives of a traced model without its loss, by an engine that is made for them
    when it is needed."""

    def __init__(self, model: Any, options: dict) -> None:
        self._model, self._options = model, options
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = _core.Values(self._model, _values_options(self._options), False)
        return getattr(self._made, name)


class _Tolerance(NamedTuple):
    """By how much traced residuals may differ from those of the function."""

    unit: float  # share of the largest residual
    of_all: bool  # where terms cancel: a share of the largest terms of all rows, not of the row's


def _tolerance_of(trace: Trace, precision: str) -> _Tolerance:
    """What rounding in the precision of the solve makes, and integrations with fixed steps, whose errors
    are a share of the largest state."""
    unit = max(1e-8 if precision == "f64" else 1e-4, 100 * trace.integrated)
    return _Tolerance(unit, trace.integrated > 0)


def _agrees(deviation: Callable, values: _Values, x: np.ndarray, f: np.ndarray,
            tolerance: _Tolerance) -> bool:
    """True if the traced residuals at unknowns x are those of the function, up to rounding.

    deviation(x, f) gives the largest numbers of |f| and of the difference.
    """
    unit = tolerance.unit
    scale, difference = deviation(x, f)
    if np.isfinite(scale) and difference <= unit * scale:
        return True
    traced = values.residuals(x)
    if not np.array_equal(np.isnan(traced), np.isnan(f)):
        return False
    absolute = unit * scale if np.isfinite(scale) else 0.0
    if np.allclose(traced, f, rtol=100 * unit, atol=absolute, equal_nan=True):
        return True
    # Near a perfect fit all digits cancel: what is rounded are the terms, about |J| |x| large.
    numbers, columns, starts = values.jacobian(x)
    terms = csr_matrix((np.abs(numbers), columns, starts), shape=(f.size, x.size)) @ np.abs(x)
    if tolerance.of_all:
        terms = np.full_like(terms, np.max(terms, initial=0.0))
    return bool(np.all(np.abs(traced - f) <= 100 * unit * np.abs(f) + 0.1 * unit * terms))


@functools.lru_cache(maxsize=8)
def _parts(size: int) -> np.ndarray:
    """Small parts of unknowns by which one looks beside a point."""
    return 0.01 * (np.modf(0.3 + 0.6180339887498949 * np.arange(size))[0] - 0.5)


def _still_agrees(a: _Arguments, engine: Any, evaluate: Callable,
                  tolerance: _Tolerance) -> bool:
    """True if the rows of a trace that is used again are those of the function beside the start, too:
    what a function reads by names of modules or classes may have changed without changing the start."""
    x = engine.unknowns
    beside = x + (0.1 + np.abs(x)) * _parts(x.size)
    if a.bounded:
        beside = np.clip(beside, a.lower / a.scale, a.upper / a.scale)
    with np.errstate(all="ignore"):
        f = evaluate(beside * a.scale)
    return f.size == engine.model.row_count() and _agrees(engine.deviation, engine.values, beside, f,
                                                          tolerance)


def _difference(values: _Values, x: np.ndarray, f: np.ndarray) -> str:
    """The row that differs most of the traced residuals at unknowns x and the function's f."""
    traced = values.residuals(x)
    if traced.size != f.size:
        return f"the function gives {f.size} rows for numbers, and {traced.size} when it is traced"
    far = np.abs(traced - f)
    far[np.isnan(traced) != np.isnan(f)] = np.inf
    k = int(np.nanargmax(far)) if not np.all(np.isnan(far)) else 0
    return (f"row {k} is {traced[k]:.9g} when the function is traced, and {f[k]:.9g} from numbers: it depends "
            "on something that changes from call to call, on the type of its argument, or on an operation "
            "with another meaning")


def _active(a: _Arguments, x: np.ndarray) -> np.ndarray:
    """-1 and 1 where x is at its lower and upper bound, up to xtol; 0 elsewhere."""
    mask = np.zeros(x.size, dtype=int)
    if a.bounded:
        near = a.xtol if a.method == "trf" else 0.0
        with np.errstate(invalid="ignore"):
            below = np.isfinite(a.lower) & (
                x - a.lower <= np.minimum(a.upper - x, near * np.maximum(1, np.abs(a.lower))))
            above = np.isfinite(a.upper) & (
                a.upper - x <= np.minimum(x - a.lower, near * np.maximum(1, np.abs(a.upper))))
        mask[below] = -1
        mask[above] = 1
    return mask


def _optimality(a: _Arguments, x: np.ndarray, g: np.ndarray) -> float:
    """The largest component of the gradient, scaled by the distance to the bound it points to."""
    if g.size == 0:
        return 0.0
    if not a.bounded:
        return float(abs(g).max())
    scale = np.ones_like(x)
    falling = (g < 0) & np.isfinite(a.upper)
    rising = (g > 0) & np.isfinite(a.lower)
    scale[falling] = (a.upper - x)[falling]
    scale[rising] = (x - a.lower)[rising]
    return float(np.max(np.abs(g * scale)))


def _status(a: _Arguments, termination: str, steps: Any, x: np.ndarray, optimality: float,
            is_perfect: Callable[[], bool], has_vanished: Callable[[], bool]) -> int:
    """The condition that ended the solve, as SciPy numbers them; -1 if there is none.

    Where the library's summary says FAILURE or NO_CONVERGENCE, a small gradient is no reason for success: it
    vanishes on a plateau, too. At a limit of steps, the residuals must be orthogonal to the Jacobian.
    """
    if termination not in ("CONVERGENCE", "USER_SUCCESS"):
        limited = termination == "NO_CONVERGENCE" and a.spent + len(steps) >= _limit(a)
        if is_perfect() or limited and has_vanished():
            return 1
        return 0 if limited else -1
    if optimality <= a.gtol:
        return 1
    if not math.isfinite(optimality):
        return -1
    accepted = [s for s in steps[1:] if s.successful]
    last = steps[-1]
    if last.iteration == 0:
        return 1
    step = accepted[-1] if accepted else last
    before = step.cost + max(step.cost_change, 0.0)
    by_cost = abs(step.cost_change) <= a.ftol * before
    by_step = last.step_norm <= a.xtol * (a.xtol + float(np.linalg.norm(x)))
    if by_cost or by_step:
        return 4 if by_cost and by_step else 2 if by_cost else 3
    return 2


def _weighted(a: _Arguments, f: np.ndarray, jacobian: Any) -> tuple[Any, np.ndarray]:
    """The Jacobian of a result without the factors of its rows, and the residuals, each with the square root
    of the loss's slope."""
    if a.loss == "linear":
        return jacobian, f
    weights = np.sqrt(_rho(a, f)[1])
    factors = weights / _row_scales(a, f)
    rows = jacobian.multiply(factors[:, np.newaxis]) if issparse(jacobian) else jacobian * factors[:, np.newaxis]
    return rows, f * weights


def _has_vanished(a: _Arguments, x: np.ndarray, f: np.ndarray, gradient: np.ndarray, jacobian: Any) -> bool:
    """True if the residuals are orthogonal to what the Jacobian spans, up to gtol without units and to
    rounding; False if a column is zero, which is orthogonal to everything."""
    jacobian, f = _weighted(a, f, jacobian)
    free = np.flatnonzero(_free(a, x, gradient))
    squares = (jacobian.multiply(jacobian) if issparse(jacobian) else jacobian * jacobian).sum(axis=0)
    lengths, size = np.sqrt(np.asarray(squares).ravel())[free], float(np.linalg.norm(f))
    most = max(min(_MOST_COSINE, _COSINES_OF_GTOL * a.gtol), min(a.gtol, _LARGEST_COSINE))
    if not (np.isfinite(lengths).all() and (lengths > 0).all() and 0 < size < np.inf):
        return False
    if not np.all(np.abs(gradient[free]) <= most * lengths * size):
        return False
    if issparse(jacobian) or f.size * free.size**2 > _MOST_OPERATIONS:
        return True
    # Columns that are nearly combinations of others hide a direction from each of the cosines.
    directions, shares, _ = np.linalg.svd(jacobian[:, free] / lengths, full_matrices=False)
    known = shares > max(f.size, free.size) * _EPS * shares[0]
    cosines = np.abs(f @ directions[:, known]) / size
    return bool(np.all(cosines <= most + 10 * _EPS * shares[0] / shares[known]))


def _flat_unknown(a: _Arguments, x: np.ndarray, f: np.ndarray, jacobian: Any, depends: Callable,
                  evaluate: Callable) -> int | None:
    """An unknown on which the residuals hardly depend at x, though they do elsewhere; None if there is none.

    Its derivative promises a change of the residuals that a step of this length does not bring on one side:
    on a plateau. Neither its unit nor its size says that, which is nothing for an offset near zero.

      depends  depends() gives the numbers of the unknowns that rows read
    """
    columns = abs(jacobian)
    largest = columns.max(axis=0) if isinstance(columns, np.ndarray) else columns.max(axis=0).toarray().ravel()
    size = float(abs(f).max())
    is_faint = largest * abs(x) <= _FAINT * size
    if not is_faint.any() or _has_no_residuals(a, x, f, jacobian):
        return None
    faint = np.flatnonzero(is_faint & (a.lower < x) & (x < a.upper))
    cost = _cost(a, f)

    def outcome(k: int, step: float) -> tuple[float, float]:
        """The largest change of a residual, and the cost."""
        beside = x.copy()
        beside[k] = min(max(x[k] + step, a.lower[k]), a.upper[k])
        try:
            with np.errstate(all="ignore"):
                there = evaluate(beside)
        except (ArithmeticError, ValueError):  # it has no value there
            return math.inf, math.inf
        return float(np.max(np.abs(there - f))), _cost(a, there)

    for k in np.intersect1d(faint, depends()):
        if largest[k] == 0:
            if x[k] == 0:  # a kink or a square, which is looked at elsewhere
                continue
            if max(_length_that_changes(lambda by: outcome(k, side * by)[0] / size) for side in (1.0, -1.0)) > 0:
                return int(k)
            continue
        promised = _MOVED * size
        step = promised / largest[k]
        if not math.isfinite(step):
            return int(k)
        sides = [outcome(k, step), outcome(k, -step)]
        is_linear = all(promised / _LINEAR <= change <= promised * _LINEAR for change, _ in sides)
        if not is_linear and not all(there > cost for _, there in sides):
            return int(k)
    return None


def _has_run_away(a: _Arguments, x: np.ndarray, jacobian: Any) -> bool:
    """True if an unknown is many times as large as at its start, where the Jacobian has lost its rank."""
    far = abs(x) > _FAR * abs(a.x0)
    if not far.any() or not (far & (a.x0 != 0)).any() or issparse(jacobian) or jacobian.size * x.size > _MOST_OPERATIONS:
        return False
    lengths = np.linalg.norm(jacobian, axis=0)
    if not ((lengths > 0) & (lengths < np.inf)).all():
        return True
    shares = np.linalg.svd(jacobian / lengths, compute_uv=False)
    return bool(shares[-1] < _LOST_RANK * shares[0])


def _limit(a: _Arguments) -> int:
    return min(a.max_nfev or 100 * a.x0.size, 2**31 - 1)


class _CallbackError(Exception):
    """What a callback raised, on its way through the solver."""


class _Callback:
    """SciPy's callback, after each accepted step: callback(x), or callback(intermediate_result=...).

    x: where the solver writes the point, in units of scale. fields: the other fields of a result."""

    def __init__(self, function: Callable, x: np.ndarray, scale: Any, fields: Callable[[Any], dict]) -> None:
        try:
            names = set(inspect.signature(function).parameters)
        except (TypeError, ValueError):  # a compiled function
            names = set()
        self._function, self._x, self._scale, self._fields = function, x, scale, fields
        self._named = names == {"intermediate_result"}
        self.stopped = False

    def __call__(self, step: Any) -> bool:
        if step.iteration == 0 or not step.successful:
            return False
        x = self._x * self._scale
        try:
            if self._named:
                self._function(intermediate_result=OptimizeResult(x=x, **self._fields(step)))
            else:
                self._function(x)
        except StopIteration:
            self.stopped = True
        except Exception as error:
            raise _CallbackError from error
        return self.stopped


def _gradient_tolerances(gtol: float) -> dict:
    """Options for gtol, which is SciPy's: of the gradient's largest component. One of the default's
    size is for the gradient without units: problems with small numbers are solved, too."""
    return {"gradient_tolerance": min(gtol, _GTOL),
            "absolute_gradient_tolerance": gtol if gtol > _GTOL else 0.0}


def _gradient_tolerance_in_ball(a: _Arguments) -> dict:
    """The solver sees g * scale, in the units of the problem: the gradient ends a solve if it is
    as small as a gtol that was asked for. One of the default's size may only say that numbers are
    small."""
    return {"gradient_tolerance": a.gtol * float(np.min(a.scale)) if a.gtol > _GTOL else 0.0}


def _gain_within(gtol: float, step: Any) -> Any:
    """What a step may gain where a gradient is as small as a gtol that was asked for."""
    return abs(step) * gtol if gtol > _GTOL else 0.0


def _ball(values: Any, unknowns: np.ndarray) -> dict:
    """Options of steps that are limited by a ball of the unknowns.

    The damping is the same for all unknowns, and so small at first that it matters to none of them:
    as SciPy's ball is at least as large as x0. In absolute units, the first damping could be
    millions of times JᵀJ, and hundreds of steps would be needed to leave it.
    """
    numbers, columns, _ = values.jacobian(unknowns)
    squares = np.bincount(columns, numbers**2, unknowns.size)
    squares = squares[squares > np.max(squares, initial=0.0) * _EPS**2]
    least = np.min(squares, initial=np.inf)
    diagonal = float(least) if np.isfinite(least) else 1.0
    return {"jacobi_scaling": False, "min_lm_diagonal": diagonal, "max_lm_diagonal": diagonal}


class Engine:
    """What solves one traced function: the model, its unknowns, and the solver."""

    __slots__ = ("unknowns", "model", "values", "solver", "deviation")

    def __init__(self, a: _Arguments, trace: Trace, rows: Array, f0: np.ndarray, options: dict,
                 data: Sequence[int] = ()) -> None:
        self.unknowns = a.x0 / a.scale
        self.model = trace.model(rows, self.unknowns, _loss_of(a, f0), a.loss == "linear", data)
        self.values = _Values(self.model, options)
        self.solver: Any = None
        if self.model.sizes()["rows"] == 0 or self.model.row_count() != f0.size:
            return
        if a.bounded:
            some = np.flatnonzero(np.isfinite(a.lower) | np.isfinite(a.upper))
            lower, upper = (np.broadcast_to(b / a.scale, b.shape)[some] for b in (a.lower, a.upper))
            self.model.set_bounds(some.tolist(), lower, upper)
        if a.held:
            self.model.fix(a.held, True)
        self._make_solver(a, options)

    def start(self, a: _Arguments, options: dict) -> None:
        """Starts where the arguments say."""
        self.unknowns[...] = a.x0 / a.scale
        if a.is_limited:
            self._make_solver(a, options)

    def _make_solver(self, a: _Arguments, options: dict) -> None:
        """The solver from where the unknowns are: a ball has the size that the Jacobian has there."""
        given = {
            "function_tolerance": a.ftol,
            "parameter_tolerance": a.xtol,
            **(_gradient_tolerance_in_ball(a) if a.is_limited else _gradient_tolerances(a.gtol)),
            # A ball has the units of x_scale. Otherwise no unit of an unknown may matter: columns are
            # scaled by their own size, as by x_scale='jac'.
            "scale_free": not a.is_limited,
            "max_iterations": _limit(a) - a.spent - 1,
            "update_state_every_iteration": a.callback is not None,
            **(_ball(self.values, self.unknowns) if a.is_limited else {}),
            **options,
        }
        self.solver = _core.Solver(self.model, given, True)
        # The solver's residuals have the loss in them.
        self.deviation = self.solver.deviation if a.loss == "linear" else self.values.deviation


def _settings(a: _Arguments, options: dict) -> Any:
    """What an engine depends on beside its trace; None if it cannot be kept."""
    if callable(a.loss) or a.callback is not None:
        return None
    bounds = (a.lower.tobytes(), a.upper.tobytes()) if a.bounded else None
    return (a.loss, a.f_scale, a.ftol, a.xtol, a.gtol, a.max_nfev, bounds, a.is_limited, tuple(options.items()))


def _engine(a: _Arguments, trace: Trace, rows: Array, f0: np.ndarray, options: dict,
            kept: Any) -> Engine:
    """An engine: that of the last call with this trace, or a new one."""
    settings = _settings(a, options) if kept is not None and kept.keeps_engine else None
    if settings is None or f0.size * a.x0.size > _MOST_IN_ENGINE:
        return Engine(a, trace, rows, f0, options)
    engine = kept.engine_for(settings)
    if engine is None:
        data = kept.data()
        try:
            engine = Engine(a, trace, rows, f0, options, data)
        except _core.Error:  # rows that read data alone
            if not data:
                raise
            kept.keeps_engine = False
            return Engine(a, trace, rows, f0, options)
        kept.keep_engine(settings, engine)
    else:
        engine.start(a, options)
    return engine


def _solve(a: _Arguments, trace: Trace, rows: Array, f0: np.ndarray,
           evaluate: Callable[[np.ndarray], np.ndarray], options: dict, kept: Any = None,
           is_new: bool = False) -> Result | None:
    """The traced solve; None if the traced function has other values than the function itself. The
    engine is that of a kept trace, or is kept with one that is new."""
    engine = _engine(a, trace, rows, f0, options, kept)
    unknowns, model, values = engine.unknowns, engine.model, engine.values
    solver = engine.solver
    if solver is None:
        if model.row_count() != f0.size:
            a.difference = (f"the function gives {f0.size} rows for numbers, and {model.row_count()} when "
                            "it is traced")
        return None
    deviation = engine.deviation
    tolerance = _tolerance_of(trace, options.get("precision", "f64"))
    if not _agrees(deviation, values, unknowns, f0, tolerance):
        a.difference = _difference(values, unknowns, f0)
        return None
    if kept is not None and not is_new and not _still_agrees(a, engine, evaluate, tolerance):
        return None
    called = None if a.callback is None else _Callback(
        a.callback, unknowns, a.scale,
        lambda step: {"fun": values.residuals(unknowns), "cost": step.cost, "nit": step.iteration,
                      "nfev": step.iteration + 1})
    core = solver.solve(called, _STALLED)
    summary = Summary(core, model)
    if core.interrupted:
        raise KeyboardInterrupt
    steps = core.iterations
    unknowns = unknowns.copy()
    x = unknowns
    if a.in_ball:  # rounding may lead across a bound
        x = np.clip(unknowns * a.scale, a.lower, a.upper)
    f = evaluate(x)
    if f.size != model.row_count() or not _agrees(
            deviation, values, unknowns, f, tolerance):
        a.difference, a.reached = _difference(values, unknowns, f), x.copy()
        return None

    def jacobian() -> Any:
        dense = not a.sparse and f.size * x.size <= _DENSE
        if dense and a.loss == "linear" and not a.in_ball:
            return values.dense_jacobian(unknowns)
        numbers, columns, starts = values.jacobian(unknowns)
        if a.in_ball:
            numbers = numbers / a.scale[columns]
        if a.loss != "linear":
            numbers = numbers * np.repeat(_row_scales(a, f), np.diff(starts))
        if not dense:
            return csr_matrix((numbers, columns, starts), shape=(f.size, x.size))
        entries = np.repeat(np.arange(f.size) * x.size, np.diff(starts)) + columns
        return np.bincount(entries, numbers, f.size * x.size).reshape(f.size, x.size)

    at_end = jacobian() if f.size * x.size <= _MOST_IN_ENGINE else None
    gradient = (np.dot(f, at_end) if a.loss == "linear" and isinstance(at_end, np.ndarray)
                else solver.gradient(unknowns) / a.scale)
    optimality = _optimality(a, x, gradient)
    stopped = called is not None and called.stopped
    at_hand = functools.cache(lambda: jacobian() if at_end is None else at_end)
    status = -2 if stopped else _status(a, core.termination, steps, unknowns, optimality,
                                        lambda: _has_no_residuals(a, x, f, at_hand()),
                                        lambda: _has_vanished(a, x, f, gradient, at_hand()))
    message, flat = core.message if status == -1 else _MESSAGES[status], None
    converged = core.termination == "CONVERGENCE"
    if status not in (-2, 0) and not (converged and at_end is None):
        flat = _flat_unknown(a, x, f, at_hand(), lambda: np.unique(values.jacobian(unknowns)[1]), evaluate)
    if flat is not None and not converged:
        status, message = 0 if a.spent + len(steps) >= _limit(a) else -1, _FLAT.format(flat)
    result = Result(
        x=x, cost=_cost(a, f), fun=f, grad=gradient, optimality=optimality,
        active_mask=_active(a, x), nfev=a.spent + len(steps),
        njev=core.accepted + 1, status=status,
        message=message,
        success=status > 0, summary=summary,
    )
    object.__setattr__(result, "jacobian", jacobian)
    object.__setattr__(result, "held", a.held)
    object.__setattr__(result, "is_flat", flat is not None or converged and at_end is not None and
                       _has_run_away(a, x, at_end))
    if at_end is not None:
        result["jac"] = at_end
    return result


def is_flat(found: OptimizeResult) -> bool:
    """True if the residuals hardly depend on an unknown at a result, though they do elsewhere, or if unknowns
    have run away: a reason to ask SciPy, too."""
    return bool(found.__dict__.get("is_flat"))


def _read(a: _Arguments, fun: Callable, args: tuple, kwargs: dict, f0: np.ndarray) -> Any:
    """What the function reads, if its trace is worth keeping; else None."""
    if f0.size > _MOST_ROWS_KEPT or not isinstance(args, tuple):
        return None
    scaled = a.scale.tobytes() if a.in_ball else None  # the trace has its numbers
    return _reuse.read(fun, args, kwargs, (a.x0.size, scaled))


def _minimum(a: _Arguments, trace: Trace, rows: Array, f0: np.ndarray,
             evaluate: Callable[[np.ndarray], np.ndarray], options: dict,
             kept: Any = None, is_new: bool = False) -> Result | None:
    """The traced solve, which goes on from beside its result where that is lower."""
    a.is_limited = a.in_ball
    found = _solve(a, trace, rows, f0, evaluate, options, kept, is_new)
    a.is_limited = False
    if found is not None and (found["success"] or found["status"] == -1):
        found = _beyond_a_ball(a, found, trace, rows, evaluate, options)
    for _ in range(_MOST_KINKS):
        before = found
        if found is None or _is_perfect(a, found, trace.integrated):
            break
        if _is_stalled(found):
            found = _beyond_a_stall(a, found, trace, rows, evaluate, options)
        if found is before and found["status"] not in (0, -2):
            found = _beyond_a_kink(a, found, trace, rows, evaluate, options)
            if found is before:
                found = _beyond_gauss_newton(a, found, trace, rows, evaluate, options)
            if found is before:
                found = _beyond_a_saddle(a, found, trace, rows, evaluate, options)
        if found is before:
            break
    else:
        if found is not None and _is_stalled(found) and _lower_beside(a, found, evaluate) is not None:
            found.update(_STILL_FALLS)
    return found


def _values_options(options: dict) -> dict:
    return {k: v for k, v in options.items() if k in ("backend", "precision", "device", "threads")}


def _report(a: _Arguments, result: Result) -> None:
    summary = result["summary"]
    if a.verbose == 2:
        print(f"{'Iteration':>9} {'Cost':>16} {'Change':>12} {'Step':>12} {'Gradient':>12}")
        for s in summary.iterations:
            print(f"{s.iteration:>9} {s.cost:>16.8e} {s.cost_change:>12.2e} "
                  f"{s.step_norm:>12.2e} {s.gradient_max_norm:>12.2e}")
    print(result["message"])
    print(f"Function evaluations {result['nfev']}, initial cost {summary.initial_cost:.4e}, "
          f"final cost {result['cost']:.4e}, first-order optimality {result['optimality']:.2e}.")


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = "2-point",
    bounds: Any = _UNBOUNDED,
    method: str = "trf",
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    x_scale: Any = None,
    loss: Any = "linear",
    f_scale: float = 1.0,
    diff_step: Any = None,
    tr_solver: str | None = None,
    tr_options: dict | None = None,
    jac_sparsity: Any = None,
    max_nfev: int | None = None,
    verbose: int = 0,
    args: tuple = (),
    kwargs: dict | None = None,
    callback: Callable[..., Any] | None = None,
    workers: Any = None,
    *,
    options: dict | None = None,
) -> OptimizeResult:
    """Minimises ½ Σ ρ(fun(x)²) over x, within bounds: scipy.optimize.least_squares, compiled.

    `fun` runs once on an array that records what NumPy does to it. The recorded expression becomes
    kernels with exact derivatives, and Python is not called again until the solve ends. A function
    that cannot be recorded (a branch on a value, an unknown function, `.item()`) is solved by SciPy
    with differences instead; `verbose=1` says which way was taken, and which line is the reason.

    Parameters
    ----------
    fun : callable
        `fun(x)`, with `args` and `kwargs` after x, returns the residuals, shape (m,), any unit.
    x0 : array_like, shape (n,) or float
        Start.
    jac : '2-point', '3-point', 'cs' or callable
        Used by SciPy's way alone: derivatives of traced functions are exact.
    bounds : 2-tuple of array_like or scipy.optimize.Bounds
        Lower and upper bounds of x, units of x.
    method : 'trf', 'dogbox' or 'lm'
        Checked as in SciPy. Traced functions are minimised by Levenberg-Marquardt steps, projected
        onto the bounds.
    ftol, xtol, gtol : float or None
        Tolerances of the relative change of the cost, of x, and of the gradient's largest component.
    x_scale : None, 'jac', float or array_like of shape (n,)
        Sizes of steps, units of x: steps are limited within a ball of x / x_scale, up to where these
        steps end; if the gradient is not small there, the solve goes on without a ball. With None,
        'jac' or one number the columns of the Jacobian give the sizes.
    diff_step, tr_solver, tr_options, workers
        As in SciPy, which they are given to if it solves the problem.
    loss : str or callable
        'linear', 'soft_l1', 'huber', 'cauchy' or 'arctan', or a function of z = (f / f_scale)²,
        shape (m,), that returns ρ, ρ' and ρ'', shape (3, m). It is traced, too: ρ is
        differentiated.
    f_scale : float
        Residual at which outliers begin, units of the residuals.
    jac_sparsity : array_like or sparse matrix, optional
        Not needed: the structure is found. If given, shape (m, n), `jac` of the result is sparse.
    max_nfev : int, optional
        Evaluations after which to stop; 100 n if not given.
    verbose : 0, 1 or 2
        Silent, a report at the end, or a line for each step.
    callback : callable, optional
        Called after each accepted step as callback(x), or as callback(intermediate_result) if that is
        the name of its parameter, with an OptimizeResult of x, fun, cost, nit and nfev. StopIteration
        ends the solve with status -2.
    options : dict, optional
        Options of topograd.Problem.solve, such as {'backend': 'cpu', 'threads': 1}. With
        {'fallback': False} what cannot be traced raises instead of taking SciPy's way.

    Returns
    -------
    OptimizeResult
        x (n,), cost, fun (m,), jac (m, n), grad (n,), optimality, active_mask (n,), nfev, njev,
        status, message, success; for traced functions also `summary`. jac is sparse if
        `jac_sparsity` was given or if it would have more than four million numbers.

    Raises
    ------
    ValueError
        For the arguments that SciPy refuses.
    TypeError
        For an option that is unknown or has a wrong type.
    Error
        For a backend or a device that is named in `options` and cannot be had.

    A solve that cannot go on, because derivatives are not finite, is repeated by SciPy's way, or has
    status -1 with {'fallback': False}. So is one whose summary says NO_CONVERGENCE, or whose residuals no
    longer depend on an unknown, however small the gradient is there; and a small one that takes 100 n
    evaluations, where `max_nfev` is not given; the lower cost is returned. At a kink, such as that of a break
    point which is an unknown, success says that no small step lowers the cost; the gradient is that of one side.
    """
    started = time.perf_counter()
    found: Result | None = None
    given = dict(options or {})
    falls_back = given.pop("fallback", True)
    if given.get("device"):  # who names a device wants it
        given.setdefault("backend", "vulkan")
    if given:
        _core.check_options(given)
    a = _Arguments(fun, x0, jac, bounds, method, ftol, xtol, gtol, x_scale, loss, f_scale, tr_solver,
                   jac_sparsity, max_nfev, verbose, callback)
    keywords = kwargs or {}

    def evaluate(x: np.ndarray) -> np.ndarray:
        return np.atleast_1d(np.asarray(fun(x, *args, **keywords), dtype=float))

    at_start = time.perf_counter()
    f0 = _real(fun, fun(a.x0.copy(), *args, **keywords))
    at_start = time.perf_counter() - at_start
    a.check_values(f0, loss, lambda: jac(a.x0.copy(), *args, **keywords))
    try:
        seconds = _ALWAYS + at_start * (a.x0.size + 1) * _EVALUATIONS
        reading = _read(a, fun, args, keywords, f0)
        kept = None if reading is None else _reuse.traces.taken(reading)
        if kept is not None and not kept.useless and kept.take(reading.arrays):
            trace, rows = kept.trace, kept.rows
            found = _minimum(a, trace, rows, f0, evaluate, given, kept)
        if found is None:
            trace, rows = trace_function(fun, a.x0.size, a.scale, args, keywords,
                                         seconds if falls_back else None, reading is not None, a.x0)
            new = None
            if reading is not None and not (kept is not None and kept.useless):
                kept = new = _reuse.Kept(trace, rows, reading, kept)
                rows = kept.rows
            found = _minimum(a, trace, rows, f0, evaluate, given, new, True)
            if trace.integrated > 0:
                until = started + seconds if falls_back else math.inf
                found = _with_other_grids(a, found, fun, args, keywords, evaluate, given, until)
        if kept is not None and found is not None:
            _reuse.traces.put(reading, kept)
        unfinished = found is not None and (found["status"] == -1 or max_nfev is None and seconds < _MOST_AFTER and (
            found["status"] == 0 or found["success"] and is_flat(found)))
        if found is not None and not (unfinished and falls_back):
            for location, advice in trace.slow:
                warnings.warn(f"slow to trace at {location}: {advice}", stacklevel=2)
            if verbose:
                s = found["summary"]
                print(f"Traced: {s.backend} ({s.device}), {s.linear_solver}, "
                      f"{time.perf_counter() - started:.3f} s.")
                sizes = s._model.sizes()
                for m, operations, n in sizes["node_by_node"]:
                    print(f"Evaluated node by node: {m} rows of {operations} operations in all and {n} "
                          "unknowns; by kernels each row would have its own.")
                for how in sizes["long_expressions"]:
                    print(f"Evaluated as {how}.")
                _report(a, found)
            return found
        reason = a.difference if found is None else found["message"]
    except MemoryError:
        raise
    except _CallbackError as error:
        raise error.__cause__ or error
    except Exception as error:  # whatever fun raises for a traced array: it took numbers above
        if not falls_back or isinstance(error, _core.Error) and error.code in _NO_DEVICE:
            raise
        reason = str(error) or type(error).__name__
        if isinstance(error, _core.Error) and "different operations" in reason:
            reason += f": to compile them takes more than the {seconds:.2g} s that SciPy may need"
        if not isinstance(error, (_core.Error, TracingError)):
            reason += f" ({location_of(error)})"
    if not falls_back:
        raise TracingError(reason)
    if verbose:
        what = "Not converged" if found is not None and found["status"] >= 0 else "Not traced"
        print(f"{what}: {reason}. SciPy with differences.")
    scipys = _by_scipy(fun, a, bounds, x_scale, diff_step, tr_solver, tr_options, jac_sparsity, args,
                       keywords, workers)
    if found is None:
        return scipys
    if found["status"] == 0 and not scipys.cost < found["cost"]:
        return found
    if found["success"] and not scipys.cost < (1 - max(a.ftol, _MOST_OVER_TOLERANCE * _EPS)) * found["cost"]:
        return found
    # From there the solve may converge, and says more than SciPy's gtol where all numbers are small.
    a.x0 = scipys.x
    try:
        again = _minimum(a, trace, rows, evaluate(a.x0.copy()), evaluate, given)
    except (_core.Error, ArithmeticError, ValueError):
        return scipys
    if again is None or not again["cost"] <= scipys.cost:
        return scipys
    if again["status"] > 0:
        return again
    # A solve that goes on from there without an end says that SciPy's success is none, and so does a plateau.
    contradicts = scipys.cost - again["cost"] > a.ftol * scipys.cost or is_flat(again)
    return min(found, again, key=lambda end: end["cost"]) if contradicts else scipys


def _with_other_grids(a: _Arguments, found: Result | None, fun: Callable, args: tuple, kwargs: dict,
                      evaluate: Callable, options: dict, until: float) -> Result | None:
    """The solve from where a traced function left its function, because the steps of an integration
    were chosen at the start: they are chosen again there, until a time of the clock."""
    start = a.x0
    for _ in range(_MOST_GRIDS):
        if found is not None or a.reached is None or time.perf_counter() > until:
            break
        a.x0, a.reached = a.reached, None
        trace, rows = trace_function(fun, a.x0.size, a.scale, args, kwargs, None, False, a.x0)
        found = _minimum(a, trace, rows, evaluate(a.x0.copy()), evaluate, options)
    a.x0 = start
    return found


def _by_scipy(fun: Callable, a: _Arguments, bounds: Any, x_scale: Any, diff_step: Any, tr_solver: Any,
              tr_options: Any, jac_sparsity: Any, args: tuple, keywords: dict,
              workers: Any) -> OptimizeResult:
    """What SciPy finds, with those of the newer arguments that this version of it has."""
    from scipy.optimize import least_squares as scipys

    known = inspect.signature(scipys).parameters
    newer = {"callback": a.callback, "workers": workers}
    if a.callback is not None and "callback" not in known:
        warnings.warn("this version of SciPy does not call `callback`", stacklevel=3)
    if x_scale is None and known["x_scale"].default is not None:
        x_scale = "jac" if a.method == "lm" else 1.0
    return scipys(fun, a.x0, a.jac, bounds, a.method, a.ftol, a.xtol, a.gtol, x_scale, a.loss,
                  a.f_scale, diff_step, tr_solver, tr_options or {}, jac_sparsity, a.max_nfev, a.verbose,
                  args, keywords, **{k: v for k, v in newer.items() if k in known and v is not None})


def _is_perfect(a: _Arguments, found: Result, integrated: float) -> bool:
    """True if the residuals of a result are as nothing beside their terms, |J| |x|: what is left are
    steps that no tolerance asks for, and rounding, or the errors of an integration.

      integrated  relative tolerance of the integration; 0: there is none
    """
    jacobian = dict.get(found, "jac")
    return isinstance(jacobian, np.ndarray) and _has_no_residuals(a, found["x"], found["fun"], jacobian, integrated)


def _has_no_residuals(a: _Arguments, x: np.ndarray, f: np.ndarray, jacobian: Any, integrated: float = 0.0) -> bool:
    """True if the residuals f are zero, or as nothing beside their terms."""
    if not f.any():
        return True
    if a.loss != "linear":
        return False
    share = max(_PERFECT, (10 * integrated) ** 2)
    if not issparse(jacobian):
        entries = jacobian.ravel()
        if not np.dot(f, f) <= share * np.dot(entries, entries) * np.dot(x, x) * f.size:
            return False
    return bool(np.dot(f, f) <= share * np.sum((abs(jacobian) @ np.abs(x)) ** 2))


def _length_that_changes(change: Callable[[float], float]) -> float:
    """The power of two from which on a step changes the residuals by a share of them; 0: there is none. The
    units of an unknown whose derivative is zero are found by bisection of the exponent."""
    low, high = -_LARGEST_EXPONENT, _LARGEST_EXPONENT
    if not change(2.0**high) > _BESIDE_A_KINK:
        return 0.0
    while high - low > 1:
        middle = (low + high) // 2
        if change(2.0**middle) > _BESIDE_A_KINK:
            high = middle
        else:
            low = middle
    return 2.0**high


def _beyond_a_kink(a: _Arguments, found: Result, trace: Trace, rows: Array, evaluate: Callable,
                   options: dict) -> Result:
    """The solve from beside its result, if the cost is smaller there: |x| and x² have the derivative 0
    at 0, where SciPy's differences lead away. Looks along unknowns whose derivative has vanished, and along
    all if no step was made, as far as residuals change by some shares of them."""
    x, f = found["x"], found["fun"]
    jacobian, at_start = dict.get(found, "jac"), found["summary"].accepted == 0
    if x.size * f.size > _DENSE or found["cost"] == 0.0:
        return found
    if not isinstance(jacobian, np.ndarray):
        if not at_start and found["grad"].all():
            return found
        jacobian = abs(csr_matrix(found["jac"])).max(axis=0).toarray()
    largest, size = np.max(np.abs(jacobian), axis=0, initial=0.0), np.max(np.abs(f))
    vanished = (largest == 0) | (x != 0) & (largest * np.abs(x) <= _VANISHED * size)
    moved, least = x.copy(), found["cost"]

    def rows_at(k: int, step: float) -> np.ndarray | None:
        """None if there are none, or a bound is nearer."""
        beside = moved.copy()
        beside[k] = x[k] + step
        if not a.lower[k] <= beside[k] <= a.upper[k]:
            return None
        try:
            with np.errstate(all="ignore"):
                return evaluate(beside)
        except (ArithmeticError, ValueError):
            return None

    def change(k: int, step: float) -> float:
        there = rows_at(k, step)
        share = math.nan if there is None else float(np.max(np.abs(there - f)) / size)
        return math.inf if math.isnan(share) else share

    for k in np.flatnonzero(vanished | at_start):
        for side in (1.0, -1.0):
            length = (_length_that_changes(lambda by: change(k, side * by)) if vanished[k]
                      else _BESIDE_A_KINK * size / largest[k])
            for step in side * length * np.array((1e3, 1.0, 1e-3)):
                there = rows_at(k, step) if length > 0 else None
                cost = math.nan if there is None else _cost(a, there)
                if cost < least - 1e-13 * found["cost"] - _gain_within(a.gtol, step):
                    moved[k], least = x[k] + step, cost
    if np.array_equal(moved, x):
        return found
    return _lower_from(a, found, moved, evaluate(moved.copy()), trace, rows, evaluate, options) or found


def _free(a: _Arguments, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Unknowns that no bound holds."""
    return ~(((x <= a.lower) & (gradient > 0)) | ((x >= a.upper) & (gradient < 0)))


def _solve_on(a: _Arguments, found: Result, at: np.ndarray, f: np.ndarray, trace: Trace, rows: Array,
              evaluate: Callable, options: dict) -> Result | None:
    """The solve from another point than a result, where the rows are f. Both count the evaluations of both,
    which keep the limit; None if none is left."""
    if found["nfev"] >= _limit(a):
        return None
    start, spent = a.x0, a.spent
    a.x0, a.spent = at, found["nfev"]
    again = _solve(a, trace, rows, f, evaluate, options)
    a.x0, a.spent = start, spent
    if again is not None:
        found["nfev"] = again["nfev"]
    return again


def _lower_from(a: _Arguments, found: Result, at: np.ndarray, f: np.ndarray, trace: Trace, rows: Array,
                evaluate: Callable, options: dict) -> Result | None:
    """What _solve_on finds; None if it ends no lower."""
    again = _solve_on(a, found, at, f, trace, rows, evaluate, options)
    return again if again is not None and again["cost"] < found["cost"] else None


def _beyond_a_ball(a: _Arguments, found: Result, trace: Trace, rows: Array, evaluate: Callable,
                   options: dict) -> Result:
    """The solve without a ball from where one in a ball ended, if the gradient without units says that this
    is no minimum: where x_scale is far from what the residuals tell, steps in a ball are short."""
    asked = a.gtol > _GTOL and found["optimality"] <= a.gtol
    if not a.in_ball or asked or not found["summary"].optimality > _MOST_COSINE:
        return found
    return _lower_from(a, found, found["x"], found["fun"], trace, rows, evaluate, options) or found


def _promised(jacobian: np.ndarray, f: np.ndarray) -> float:
    """By how much the linear model J d + f can reduce |f|²."""
    n = jacobian.shape[1]
    both = np.empty((f.size, n + 1), order="F")
    both[:, :n] = jacobian
    both[:, n] = f
    rest = dgeqrf(both, overwrite_a=1)[0][n, n] if f.size > n else 0.0
    return float(np.dot(f, f)) - rest * rest


def _still_directions(a: _Arguments, found: Result) -> np.ndarray:
    """Directions that hardly change the residuals, because columns of the Jacobian are nearly combinations of
    others: as rows, each as long as the unknown that it changes most."""
    x, jacobian = found["x"], dict.get(found, "jac")
    none = np.zeros((0, x.size))
    if (not isinstance(jacobian, np.ndarray) or x.size < 2 or not x.any() or found["cost"] == 0.0 or
            jacobian.size * x.size > _MOST_OPERATIONS or max(a.ftol, a.xtol, a.gtol) > _LOOSE):
        return none
    products = jacobian.T @ jacobian
    squares = products.diagonal()
    factor, failed = dpotrf(products)
    if not failed and (factor.diagonal() ** 2 > _STILL * squares).all():  # all columns point elsewhere
        return none
    free = np.flatnonzero(_free(a, x, found["grad"]) & (squares > 0) & (squares < np.inf))
    lengths = np.sqrt(squares[free])
    shares, directions = np.linalg.eigh(products[np.ix_(free, free)] / lengths / lengths[:, np.newaxis])
    some = directions[:, shares < _STILL**2 * shares[-1:]].T[:_MOST_STILL]
    still = np.zeros((len(some), x.size))
    still[:, free] = some / lengths
    sizes = np.where(x == 0, np.max(np.abs(x)), np.abs(x))
    return still / np.max(np.abs(still) / sizes, axis=1, initial=_TINY, keepdims=True)


def _beyond_a_saddle(a: _Arguments, found: Result, trace: Trace, rows: Array, evaluate: Callable,
                     options: dict) -> Result:
    """The solve from beside its result, if the cost curves down along directions that do not change the
    residuals: from a start at which two terms are the same, exact derivatives never part them."""
    def cost(step: np.ndarray) -> float:
        try:
            with np.errstate(all="ignore"):
                value = _cost(a, evaluate(np.clip(x + step, a.lower, a.upper)))
        except (ArithmeticError, ValueError):  # it has no value there
            return math.inf
        return math.inf if math.isnan(value) else value

    x, still = found["x"], _still_directions(a, found)
    if len(still) == 0:
        return found
    curvatures = np.zeros((len(still), len(still)))
    for i, first in enumerate(_BESIDE * still):
        for j, other in enumerate(_BESIDE * still[:i + 1]):
            step = first if i == j else first + other
            curvatures[i, j] = cost(step) + cost(-step) - 2 * found["cost"]
    own = np.diag(curvatures)
    curvatures = np.tril(curvatures - own - own[:, np.newaxis], -1) / 2
    curvatures = curvatures + curvatures.T + np.diag(own)
    if not np.all(np.isfinite(curvatures)) or not curvatures.any():
        return found
    way = np.linalg.eigh(curvatures)[1][:, 0] @ still
    steps = np.outer((0.3, -0.3, 0.1, -0.1, 0.03, -0.03, 0.01, -0.01), way)
    costs = [cost(step) for step in steps]
    best = int(np.argmin(costs))
    if not costs[best] < (1 - max(a.ftol, _MOST_OVER_TOLERANCE * _EPS)) * found["cost"]:
        return found
    at = np.clip(x + steps[best], a.lower, a.upper)
    return _lower_from(a, found, at, evaluate(at.copy()), trace, rows, evaluate, options) or found


def _gauss_newton_steps(a: _Arguments, found: Result) -> list[np.ndarray]:
    """Steps without damping that promise to reduce the cost of a result."""
    x, f, jacobian = found["x"], found["fun"], dict.get(found, "jac")
    if (not isinstance(jacobian, np.ndarray) or found["cost"] == 0.0 or
            f.size * x.size**2 > _MOST_OPERATIONS or max(a.ftol, a.xtol, a.gtol) > _LOOSE):
        return []
    weights = 1.0 if a.loss == "linear" else np.sqrt(_rho(a, f)[1])
    if a.loss != "linear":
        jacobian = jacobian * (weights / _row_scales(a, f))[:, np.newaxis]
        f = f * weights
    free: Any = slice(None)
    if a.bounded:
        free = np.flatnonzero(_free(a, x, found["grad"]))
        jacobian = jacobian[:, free]
    if not _promised(jacobian, f) > _MOST_GAIN * 2 * found["cost"]:
        return []
    lengths = np.linalg.norm(jacobian, axis=0)
    if not np.all(np.isfinite(lengths)):
        return []
    lengths[lengths == 0] = 1.0
    columns = jacobian / lengths
    steps = []
    for share in (1e-12, 1e-8, 1e-5, 1e-3):
        scaled = np.linalg.lstsq(columns, -f, rcond=share)[0]
        if np.dot(f, f) - np.sum((f + columns @ scaled) ** 2) > _MOST_GAIN * 2 * found["cost"]:
            step = np.zeros(x.size)
            step[free] = scaled / lengths
            steps.append(step)
    return steps


def _small_steps(a: _Arguments, found: Result) -> list[np.ndarray]:
    """Steps from where the last steps of a solve changed nothing: damped ones, and those in single unknowns
    that promise more than ftol and the rounding of the terms, |J| |x|; none if there is none of these."""
    x, f, jacobian = found["x"], found["fun"], dict.get(found, "jac")
    if (not isinstance(jacobian, np.ndarray) or not 0 < found["cost"] < np.inf or
            f.size * x.size**2 > _MOST_OPERATIONS):
        return []
    if a.loss != "linear":
        weights = np.sqrt(_rho(a, f)[1])
        jacobian, f = jacobian * (weights / _row_scales(a, f))[:, np.newaxis], f * weights
    lengths = np.linalg.norm(jacobian, axis=0)
    if not np.all(np.isfinite(lengths)):
        return []
    size, rounding = np.linalg.norm(f), _EPS * np.linalg.norm(lengths * x)
    free = np.flatnonzero(_free(a, x, found["grad"]) & (lengths > 0))
    lengths, columns = lengths[free], jacobian[:, free] / lengths[free]
    parts = columns.T @ f
    promised = np.flatnonzero(parts**2 > max(_MOST_OVER_TOLERANCE * a.ftol * size**2, rounding * (size + rounding)))
    if promised.size == 0:
        return []
    products = columns.T @ columns
    some = [np.linalg.solve(products + damping * np.eye(free.size), -parts) for damping in _DAMPINGS]
    if free.size <= _MOST_ALONE:
        some += [-parts[k] * np.eye(free.size)[k] for k in promised[np.argsort(-np.abs(parts[promised]))]]
    steps = np.zeros((len(some), x.size))
    steps[:, free] = np.array(some) / lengths
    return list(steps)


def _is_stalled(found: Result) -> bool:
    """True if the last steps of a solve changed nothing, if it held unknowns, or if its end is none of
    SciPy's."""
    by_watch = found["status"] > 0 and found["summary"].termination == "USER_SUCCESS"
    return by_watch or bool(found["status"] == -1) or bool(found.__dict__.get("held"))


def _at_kinks(a: _Arguments, found: Result, evaluate: Callable) -> list[int]:
    """Unknowns that keep a solve from moving the others: steps down their derivatives raise the cost,
    however small they are."""
    at_kinks = []
    for step in _small_steps(a, found)[len(_DAMPINGS):]:
        costs = []
        for length in (1.0, 1e-2, 1e-4):
            try:
                with np.errstate(all="ignore"):
                    costs.append(_cost(a, evaluate(np.clip(found["x"] + length * step, a.lower, a.upper))))
            except (ArithmeticError, ValueError):  # it has no value there
                continue
        if not min(costs, default=math.inf) < found["cost"]:
            at_kinks.append(int(np.flatnonzero(step)[0]))
    return at_kinks


def _lower_beside(a: _Arguments, found: Result, evaluate: Callable) -> np.ndarray | None:
    """The lowest point to which one of the small steps leads, if it gains more than ftol."""
    least, moved = (1 - _MOST_OVER_TOLERANCE * max(a.ftol, _EPS)) * found["cost"], None
    with np.errstate(all="ignore"):
        for step in _small_steps(a, found):
            beside = np.clip(found["x"] + step, a.lower, a.upper)
            try:
                cost = _cost(a, evaluate(beside.copy()))
            except (ArithmeticError, ValueError):  # it has no value there
                continue
            if cost < least:
                moved, least = beside, cost
    return moved


def _beyond_a_stall(a: _Arguments, found: Result, trace: Trace, rows: Array, evaluate: Callable,
                    options: dict) -> Result:
    """The solve from beyond its result, where the last steps changed nothing, but smaller ones lower the
    cost: all that were tried were too long, as at a kink, or where other unknowns are tiny."""
    moved = _lower_beside(a, found, evaluate)
    if moved is None:
        return found
    if found["nfev"] >= _limit(a):
        found.update(status=0, success=False, message=_MESSAGES[0])
        return found
    again = _solve_on(a, found, moved, evaluate(moved), trace, rows, evaluate, options)
    if again is not None and _is_stalled(again):
        a.held = _at_kinks(a, again, evaluate)
        if a.held:
            again = _lower_from(a, again, again["x"], again["fun"], trace, rows, evaluate, options) or again
        a.held = []
    if again is None or not again["cost"] < found["cost"]:
        found.update(_STILL_FALLS)
        return found
    return again


def _beyond_gauss_newton(a: _Arguments, found: Result, trace: Trace, rows: Array, evaluate: Callable,
                         options: dict) -> Result:
    """The solve from beyond its result, if a step without damping reduces the cost by more than a
    tolerance allows: columns of the Jacobian that differ by many powers of ten in one row hide what
    the other rows determine, from the gradient's cosines and behind the damping."""
    with np.errstate(all="ignore"):
        for step in _gauss_newton_steps(a, found):
            for length in (1.0, 0.5, 0.2):
                moved = np.clip(found["x"] + length * step, a.lower, a.upper)
                try:
                    f = evaluate(moved.copy())
                except (ArithmeticError, ValueError):  # it has no value there
                    continue
                if not _cost(a, f) < (1 - _MOST_GAIN) * found["cost"]:
                    continue
                again = _lower_from(a, found, moved, f, trace, rows, evaluate,
                                    {**options, "gradient_tolerance": 0.0})
                if again is not None:
                    return again
    return found
