"""odeint and solve_ivp with SciPy's signatures, also for traced values: Runge-Kutta steps on a fixed grid."""

from __future__ import annotations

import functools
import math
from typing import Any, Callable

import numpy as np
import scipy.integrate
from scipy.integrate._ivp.ivp import OdeResult

from . import _core
from ._scan import Step, _steps, scan
from ._trace import Array, Trace, TracingError, contains_traced, plain, tracer_of, user_location

#: Steps of a grid that a first pass finds.
_MOST_STEPS = 20_000
#: SciPy's default tolerances of odeint, those of a first pass, and the largest rtol of SciPy's that is
#: traced.
_ODEINT, _CLOSE, _LOOSEST = 1.49012e-8, 1e-9, 1e-6
#: Tolerances of this package's functions for numbers: SciPy's errors are up to hundreds of times as large.
_EXACT = 1e-11
#: The differences of the matrix of an implicit step as a share of the state, and its largest last
#: correction.
_BESIDE, _SMALL = 2.0**-20, 1e-6


class _Tableau:
    """A Runge-Kutta method: y + h sum(b k), where k_i = f(t + c_i h, y + h sum(A_i k)).

    `dense`, of shape (stages + 1, p), has the interpolation: sum_s k_s sum_q dense[s, q] x^(q + 1).
    """

    def __init__(self, A: Any, b: Any, c: Any, dense: Any = None) -> None:
        self.A, self.b, self.c = (np.asarray(v, float) for v in (A, b, c))
        self.dense = dense


class _Implicit:
    """y_new = y + h ((1 - share) f(t, y) + share f(t + h, y_new)), by Newton's method."""

    b = np.ones(1)

    def __init__(self, share: float, corrections: int = 8) -> None:
        self.share, self.corrections = share, corrections

    def step(self, f: Any, t: Any, h: Any, y: Any) -> Any:
        """The next state. Its derivatives are those of the equation that it solves; NaN where the last
        correction is not small."""
        slope = f(t, y)
        base = y if self.share == 1.0 else y + (1.0 - self.share) * h * slope
        moved = np.abs(h * slope)
        new = y
        for _ in range(self.corrections):
            now = f(t + h, new)
            size = np.abs(new) + moved
            largest = np.max(size)
            by = _BESIDE * np.where(size > 0, size, np.where(largest > 0, largest, 1.0))
            columns = []
            for j in range(len(y)):
                unit = np.zeros(len(y))
                unit[j] = 1.0
                columns.append((f(t + h, new + by * unit) - now) / by[j])
            matrix = np.eye(len(y)) - self.share * h * np.stack(columns, 1)
            correction = np.linalg.solve(matrix, new - self.share * h * now - base)
            new = new - correction
        beyond = np.max(np.abs(correction) - _SMALL * (np.abs(new) + moved))
        return np.where(beyond <= 0, new, np.nan)


def _scipys(method: Any) -> _Tableau:
    return _Tableau(method.A[:, : method.n_stages], method.B, method.C, method.P)


@functools.lru_cache(maxsize=1)
def _tableaus() -> dict[str, Any]:
    return {
        "euler": _Tableau([[0]], [1], [0]),
        "rk4": _Tableau([[0, 0, 0, 0], [0.5, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 1, 0]],
                        [1 / 6, 1 / 3, 1 / 3, 1 / 6], [0, 0.5, 0.5, 1]),
        "RK23": _scipys(scipy.integrate.RK23),
        "RK45": _scipys(scipy.integrate.RK45),
        "implicit_euler": _Implicit(1.0),
        "trapezoidal": _Implicit(0.5),
    }


_NAMES = {"dormand_prince": "RK45"}


def _tableau(method: Any, call: str, corrections: Any) -> Any:
    name = _NAMES.get(method, method)
    found = _tableaus().get(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"{call}: expected a method of {', '.join([*_tableaus(), *_NAMES])} for fixed steps, "
                         f"got {method!r}")
    count = _steps(corrections)
    if count < 1:
        raise ValueError(f"{call}: expected corrections >= 1, got {count}")
    return _Implicit(found.share, count) if isinstance(found, _Implicit) else found


def _at(numbers: np.ndarray, k: Any) -> Any:
    """An element of an array of numbers; k is the number of a step."""
    return k.of(numbers, ()) if isinstance(k, Step) else float(numbers[k])


def _combination(weights: Any, slopes: list[Any]) -> Any:
    total: Any = 0.0
    for weight, slope in zip(weights, slopes):
        if weight != 0:
            term = weight * slope
            total = term if isinstance(total, float) else total + term
    return total


class _Equations:
    """y' = f(t, y): what the right side returns becomes an array of the state's shape."""

    def __init__(self, right: Callable[[Any, Any], Any], size: int, call: str) -> None:
        self._right, self._size, self._call = right, size, call

    def __call__(self, t: Any, y: Any) -> Any:
        found = plain(self._right(t, y))
        if contains_traced(found):
            array: Any = tracer_of(found).array(found)
        else:
            array = np.array(found, float)
        array = array.reshape(-1) if array.size else array
        if array.shape != (self._size,):
            raise ValueError(f"{self._call}: expected a right side of {self._size} numbers, as y0 has, got "
                             f"{array.size} ({user_location()})")
        return array


def _run(f: _Equations, y0: Any, grid: np.ndarray, tableau: Any, dense: bool) -> tuple[Any, Any]:
    """The states at a grid, shape (n + 1, m), and the slopes of each step if they are wanted, shape
    (n, stages + 1, m)."""
    lengths = np.diff(grid)
    if isinstance(tableau, _Implicit):
        return scan(lengths.size, y0,
                    lambda k, y: tableau.step(f, _at(grid[:-1], k), _at(lengths, k), y)), None
    explicit = tableau.b.size

    def stages(k: Any, y: Any, first: Any) -> tuple[Any, list[Any]]:
        t, h = _at(grid[:-1], k), _at(lengths, k)
        slopes = [first if first is not None else f(t + h * tableau.c[0], y)]
        for row, c in zip(tableau.A[1:explicit], tableau.c[1:]):
            slopes.append(f(t + h * float(c), y + h * _combination(row, slopes)))
        return y + h * _combination(tableau.b, slopes), slopes

    if not dense:
        return scan(lengths.size, y0, lambda k, y: stages(k, y, None)[0]), None

    def step(k: Any, state: tuple) -> tuple:
        y, first, _ = state
        new, slopes = stages(k, y, first)
        slopes.append(f(_at(grid[1:], k), new))
        joined = (tracer_of(slopes).stack([tracer_of(slopes).array(s) for s in slopes], 0)
                  if contains_traced(slopes) else np.stack(slopes))
        return new, slopes[-1], joined

    start = f(float(grid[0]), y0)
    states, _, slopes = scan(lengths.size, (y0, start, np.zeros((explicit + 1, start.size))), step)
    return states, slopes[1:]


class _Numbers:
    """The right side of traced equations with numbers, at the unknowns of the start."""

    def __init__(self, trace: Trace, f: _Equations, y0: Array, call: str) -> None:
        start = None if trace.start is None else np.asarray(trace.start(), float)
        if start is None:
            raise TracingError(f"{call}: expected steps=, the number of steps between two times, because the "
                               "numbers of the unknowns are not known here")
        self._x = np.concatenate([start, np.zeros(y0.size + 1)])
        self._first = start.size  # it does not keep the trace: integrators are in circles, which would keep it
        marked = len(trace.slices), len(trace.blocks)
        y = trace.unknowns(start.size, (y0.size,))
        t = trace.unknowns(start.size + y0.size, (1,))
        # The time is a row, so that one row has an unknown.
        rows = trace.concatenate([y0, trace.array(f(t[0], y)), t], 0)
        self._values = _core.Values(trace.model(rows, self._x, None, False), {"backend": "cpu"}, False)
        self._size = y0.size
        self.y0 = self._values.residuals(self._x)[: y0.size]
        del trace.slices[marked[0]:], trace.blocks[marked[1]:]

    def __call__(self, t: float, y: np.ndarray) -> np.ndarray:
        self._x[self._first:-1] = y
        self._x[-1] = t
        return self._values.residuals(self._x)[self._size: -1]


def _grid(numbers: _Numbers, times: np.ndarray, method: Any, options: dict, call: str) -> np.ndarray:
    """The steps of an adaptive method through all of these times."""
    grid = [float(times[0])]
    options = dict(options)
    longest = options.get("max_step", np.inf)
    if abs(times[-1] - times[0]) > _MOST_STEPS * longest:
        raise TracingError(f"{call}: {'hmax' if call == 'odeint' else 'max_step'}={longest:g} asks for more than "
                           f"{_MOST_STEPS} steps, which are not traced")
    solver = None
    for begin, end in zip(times[:-1], times[1:]):
        if begin == end:
            continue
        if solver is None:
            if options.get("first_step") is not None:
                options["first_step"] = min(options["first_step"], abs(end - begin))
            solver = method(numbers, begin, numbers.y0, end, **options)
        else:  # it goes on with its last step
            solver.t_bound, solver.status = end, "running"
        while solver.status == "running":
            solver.step()
            if solver.status == "failed" or len(grid) > _MOST_STEPS:
                raise TracingError(f"{call}: explicit steps fail, or need more than {_MOST_STEPS}: the equations "
                                   "are stiff at the start")
            grid.append(float(solver.t))
    return np.array(grid)


def _fine(times: np.ndarray, steps: int) -> np.ndarray:
    """`steps` equal steps between neighbours."""
    share = np.arange(steps) / steps
    inner = times[:-1, np.newaxis] + np.diff(times)[:, np.newaxis] * share
    return np.append(inner.reshape(-1), times[-1])


def _checked_steps(steps: Any, call: str) -> int:
    count = _steps(steps)
    if count < 1:
        raise ValueError(f"{call}: expected steps >= 1, got {count}")
    return count


def _numbers_of(value: Any, what: str, call: str) -> np.ndarray:
    if contains_traced(value):
        raise TracingError(f"{call}: {what} that depend on unknowns cannot be traced")
    return np.array(plain(value), float)


def _start(y0: Any) -> Any:
    y = plain(y0)
    array: Any = tracer_of(y).array(y) if contains_traced(y) else np.array(y, float)
    return array.reshape(-1)


def _trace_of(f: _Equations, y0: Any, t: float) -> Trace | None:
    """The trace that y0 or the right side belongs to, if one of them is traced."""
    if isinstance(y0, Array):
        return y0.tracer
    slope = f(t, y0.copy())
    return tracer_of(slope) if contains_traced(slope) else None


def _size(y0: Any) -> float:
    """The size of a state, 1 at most: absolute tolerances have its unit."""
    largest = 0.0 if isinstance(y0, Array) else float(np.max(np.abs(y0), initial=0.0))
    return min(1.0, largest) if largest > 0 and np.isfinite(largest) else 1.0


def _grid_for(trace: Trace, f: _Equations, start: Any, times: np.ndarray, rtol: Any, atol: Any,
              limits: dict, call: str) -> np.ndarray:
    """The grid of a first pass with these tolerances, or smaller ones."""
    relative, absolute = float(np.min(rtol)), np.asarray(atol, float)
    if relative > _LOOSEST:
        raise TracingError(f"{call} with rtol={relative:g} is not traced: its error would decide where a fit ends; "
                           f"use topograd.{call}, or rtol <= {_LOOSEST:g}")
    numbers = _Numbers(trace, f, trace.array(start), call)
    given = {"rtol": _CLOSE, "atol": np.minimum(absolute, _CLOSE), **limits}
    if relative <= _EXACT:
        given["atol"] = _CLOSE * _size(numbers.y0)
    grid = _grid(numbers, times, scipy.integrate.RK45, given, call)
    trace.integrated = max(trace.integrated, relative)
    return grid


def _odeint(ours: bool, func: Callable, y0: Any, t: Any, args: tuple = (), Dfun: Any = None,
            col_deriv: Any = 0, full_output: Any = 0, ml: Any = None, mu: Any = None, rtol: Any = None,
            atol: Any = None, tcrit: Any = None, h0: float = 0.0, hmax: float = 0.0, hmin: float = 0.0,
            ixpr: Any = 0, mxstep: int = 0, mxhnil: int = 0, mxordn: int = 12, mxords: int = 5,
            printmessg: Any = 0, tfirst: bool = False, *, method: str = "RK45",
            steps: int | None = None, corrections: int = 8) -> Any:
    def right(at: Any, y: Any) -> Any:
        return func(at, y, *args) if tfirst else func(y, at, *args)

    times, start = _numbers_of(t, "times", "odeint"), _start(y0)
    f = _Equations(right, start.size, "odeint")
    trace = _trace_of(f, start, float(times[0])) if times.size else None
    rtol, atol = (_ODEINT if v is None else v for v in (rtol, atol))
    if ours:
        rtol, atol = np.minimum(rtol, _EXACT), np.minimum(atol, _EXACT * _size(start))
    if steps is None and trace is None:
        return scipy.integrate.odeint(func, y0, t, args, Dfun, col_deriv, full_output, ml, mu, rtol, atol,
                                      tcrit, h0, hmax, hmin, ixpr, mxstep, mxhnil, mxordn, mxords,
                                      printmessg, tfirst)
    if full_output or tcrit is not None:
        raise TracingError("odeint with full_output or tcrit cannot be traced")
    _check_times(times, "odeint")
    if steps is not None:
        count = _checked_steps(steps, "odeint")
        found, _ = _run(f, start, _fine(times, count), _tableau(method, "odeint", corrections), False)
        return found[::count]
    assert trace is not None
    limits = {"max_step": hmax} if hmax > 0 else {}
    grid = _grid_for(trace, f, start, times, rtol, atol, limits, "odeint")
    found, _ = _run(f, start, grid, _tableaus()["RK45"], False)
    at = np.searchsorted(grid, times) if times[-1] >= times[0] else np.searchsorted(-grid, -times)
    return found[at]


def odeint(func: Callable, y0: Any, t: Any, args: tuple = (), *more: Any, method: str = "RK45",
           steps: int | None = None, **options: Any) -> Any:
    """States of ``y' = func(y, t, *args)`` at times t, with the arguments of scipy.integrate.odeint.

    Numbers are integrated by SciPy, with tolerances of at most 1e-11. A traced function makes
    explicit Runge-Kutta steps on a fixed grid through all times: those that RK45 makes with 1e-9 at
    the start of the fit. Derivatives are those of these steps. At the end of a solve least_squares
    compares with the numbers, and goes on with the grid of the result if they differ. With `steps`
    both make as many equal steps between two times.

    scipy.integrate.odeint in a traced function is this one, with SciPy's tolerances.

    Parameters
    ----------
    func, y0, t, args, Dfun, ..., tfirst
        As in SciPy. y0, args and what func reads may be traced, t may not.
    method : 'RK45' ('dormand_prince'), 'RK23', 'rk4', 'euler', 'implicit_euler' or 'trapezoidal'
        Used with `steps`. The last two are for stiff equations: `corrections`
        (8) by Newton's method solve each step, and a state that these do not find is NaN.
    steps : int, optional
        Number of steps between two times. Nothing controls the error.

    Returns
    -------
    array of shape (len(t), len(y0))

    Raises
    ------
    TracingError
        For full_output and tcrit with traced values, for equations that are so stiff that the grid
        needs more than 20,000 steps, and in a Problem without `steps`.
    """
    return _odeint(True, func, y0, t, args, *more, method=method, steps=steps, **options)


def _check_times(times: np.ndarray, call: str) -> None:
    change = np.diff(times)
    if times.ndim != 1 or times.size == 0 or not np.all(np.isfinite(times)) or not (
            np.all(change >= 0) or np.all(change <= 0)):
        raise ValueError(f"{call}: expected finite times that only ascend or only descend "
                         f"({user_location()})")


def _solve_ivp(ours: bool, fun: Callable, t_span: Any, y0: Any, method: Any = "RK45", t_eval: Any = None,
               dense_output: bool = False, events: Any = None, vectorized: bool = False,
               args: tuple | None = None, *, steps: int | None = None, corrections: int = 8,
               **options: Any) -> Any:
    def right(at: Any, y: Any) -> Any:
        return fun(at, y, *(args or ()))

    span, start = _numbers_of(t_span, "times", "solve_ivp"), _start(y0)
    f = _Equations(right, start.size, "solve_ivp")
    trace = _trace_of(f, start, float(span[0])) if span.shape == (2,) else None
    rtol, atol = options.get("rtol", 1e-3), options.get("atol", 1e-6)
    if ours:
        rtol, atol = np.minimum(rtol, _EXACT), np.minimum(atol, _EXACT * _size(start))
        options.update(rtol=rtol, atol=atol)
    if steps is None and trace is None:
        return scipy.integrate.solve_ivp(fun, t_span, y0, method, t_eval, dense_output, events, vectorized,
                                         args, **options)
    if events is not None:
        raise TracingError("solve_ivp with events cannot be traced: where they are depends on values")
    if dense_output:
        raise TracingError("solve_ivp with dense_output=True cannot be traced; give t_eval")
    times = span if t_eval is None else _numbers_of(t_eval, "times", "solve_ivp")
    _check_times(times, "solve_ivp")
    if np.any(times < span.min()) or np.any(times > span.max()):
        raise ValueError("Values in `t_eval` are not within `t_span`.")
    if steps is not None:
        return _by_equal_steps(f, start, span, times, _tableau(method, "solve_ivp", corrections),
                               _checked_steps(steps, "solve_ivp"), t_eval is not None)
    assert trace is not None
    if t_eval is None:
        raise TracingError("solve_ivp without t_eval cannot be traced: the number of times depends on values")
    limits = {k: options[k] for k in ("max_step", "first_step") if k in options}
    grid = _grid_for(trace, f, start, span, rtol, atol, limits, "solve_ivp")
    tableau = _tableaus()["RK45"]
    found, slopes = _run(f, start, grid, tableau, True)
    return _result(times, _interpolated(grid, found, slopes, times, tableau), tableau)


def solve_ivp(fun: Callable, t_span: Any, y0: Any, method: Any = "RK45", t_eval: Any = None,
              *more: Any, steps: int | None = None, **options: Any) -> Any:
    """Solution of ``y' = fun(t, y, *args)``, with the arguments of scipy.integrate.solve_ivp.

    Numbers are integrated by SciPy, with tolerances of at most 1e-11. A traced function makes
    explicit Runge-Kutta steps on a fixed grid, those that RK45 makes with 1e-9 at the start of the
    fit, whatever the method, and interpolates at `t_eval`. Derivatives are those of these steps. At
    the end of a solve least_squares compares with the numbers, and goes on with the grid of the
    result if they differ. With `steps` both make as many equal steps.

    scipy.integrate.solve_ivp in a traced function is this one, with SciPy's tolerances: those above
    1e-6, such as the default, are left to SciPy.

    Parameters
    ----------
    fun, t_span, y0, method, t_eval, ..., args, rtol, atol, max_step
        As in SciPy. y0, args and what fun reads may be traced, times may not.
    steps : int, optional
        Number of steps between neighbouring times of `t_eval`, or in `t_span` without it, by the
        method 'RK45' ('dormand_prince'), 'RK23', 'rk4', 'euler', 'implicit_euler' or 'trapezoidal',
        which are described at `odeint`. Nothing controls the error.

    Returns
    -------
    SciPy's bunch, with t of shape (n,) and y of shape (m, n)

    Raises
    ------
    TracingError
        For events, for dense_output and without t_eval with traced values, for equations that are so
        stiff that the grid needs more than 20,000 steps, and in a Problem without `steps`.
    """
    return _solve_ivp(True, fun, t_span, y0, method, t_eval, *more, steps=steps, **options)


def _interpolated(grid: np.ndarray, states: Any, slopes: Any, times: np.ndarray, tableau: Any) -> Any:
    direction = 1.0 if grid[-1] >= grid[0] else -1.0
    at = np.clip(np.searchsorted(direction * grid, direction * times, side="left") - 1, 0, grid.size - 2)
    lengths = np.diff(grid)[at]
    x = ((times - grid[at]) / lengths)[:, np.newaxis] ** np.arange(1, tableau.dense.shape[1] + 1)
    weights = lengths[:, np.newaxis] * (x @ tableau.dense.T)  # (times, stages + 1)
    return states[at] + np.sum(weights[:, :, np.newaxis] * slopes[at], axis=1)


def _by_equal_steps(f: _Equations, start: Any, span: np.ndarray, times: np.ndarray, tableau: Any, steps: int,
                    evaluated: bool) -> Any:
    if not evaluated:
        grid = _fine(span, steps)
        return _result(grid, _run(f, start, grid, tableau, False)[0], tableau)
    before = times.size > 0 and times[0] != span[0]
    grid = _fine(np.concatenate([span[:1], times]) if before else times, steps)
    found = _run(f, start, grid, tableau, False)[0]
    return _result(times, found[steps if before else 0::steps], tableau)


def _result(times: np.ndarray, states: Any, tableau: Any) -> Any:
    stages = tableau.b.size
    return OdeResult(t=times.copy(), y=states.T, sol=None, t_events=None, y_events=None,
                     nfev=stages * (times.size - 1), njev=0, nlu=0, status=0, success=True,
                     message="The solver successfully reached the end of the integration interval.")


#: Points of Gauss-Legendre's rule for an integral between two numbers, and to infinity.
_INSIDE, _TO_INFINITY = 64, 160


@functools.lru_cache(maxsize=4)
def _gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(count)
    return 0.5 * (x + 1.0), 0.5 * w


def _quad(func: Callable, a: Any, b: Any, args: Any = (), *more: Any, **options: Any) -> Any:
    """scipy.integrate.quad: by Gauss-Legendre's rule if the integrand or a limit is traced.

    The values of a traced function are compared with the function's own, and so with SciPy's adaptive
    rule; if an integrand needs more points, SciPy solves the problem.
    """
    args = args if isinstance(args, tuple) else (args,)
    limits = plain(a), plain(b)
    if not contains_traced(limits):
        found = func(0.5 if np.isinf(limits[0]) or np.isinf(limits[1]) else float(np.mean(limits)), *args)
        if not contains_traced(found):
            return scipy.integrate.quad(lambda x: plain(func(x, *args)), *limits, (), *more, **options)
    if any(options.get(k) for k in ("full_output", "points", "weight", "complex_func")) or any(more[:1]):
        raise TracingError("scipy.integrate.quad with full_output, points or weight cannot be traced")
    lower, upper = (None if not contains_traced(v) and np.isinf(v) else v for v in limits)
    if lower is None and upper is None:
        left, right = (_quad(func, *ends, args)[0] for ends in ((limits[0], 0.0), (0.0, limits[1])))
        return left + right, 0.0
    if lower is None or upper is None:
        t, weights = _gauss(_TO_INFINITY)
        away, weights = t / (1.0 - t), weights / np.square(1.0 - t)
        start, end, sign = (lower, limits[1], 1.0) if upper is None else (upper, limits[0], -1.0)
        towards = math.copysign(1.0, end)
        points: Any = start + towards * away
        weights = sign * towards * weights
    else:
        t, weights = _gauss(_INSIDE)
        points, weights = lower + t * (upper - lower), weights * (upper - lower)
    values: Any = None
    try:  # an integrand that takes arrays is called once
        values = func(points, *args)
    except TracingError:
        raise
    except (TypeError, ValueError):
        pass
    if np.shape(values) != np.shape(points):
        values = [func(x, *args) for x in points]
        values = tracer_of(values).array(values)
    return np.sum(values * weights), 0.0


#: Functions of SciPy's that call what the user gives them.
CALLING: dict[Any, Callable] = {scipy.integrate.odeint: functools.partial(_odeint, False),
                                scipy.integrate.quad: _quad,
                                scipy.integrate.solve_ivp: functools.partial(_solve_ivp, False)}
