"""curve_fit and minimize with the signatures of SciPy's."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import time
import types
import warnings
from typing import Any, Callable

import numpy as np
import scipy.optimize
from scipy.linalg import LinAlgError, cholesky, qr, solve_triangular
from scipy.linalg.lapack import dgesdd, dormqr
from scipy.optimize import OptimizeResult, OptimizeWarning

from . import _core
from ._least_squares import (_EVALUATIONS, _NO_DEVICE, _UNBOUNDED, _Callback, _CallbackError,
                             _length_that_changes, is_flat, least_squares)
from ._problem import Problem
from ._shim import calls_users, run_traced
from ._summary import Summary
from ._trace import NotReal, Trace, TracingError, as_numpy, returned

#: Tolerances of fits, whose covariance is that of the optimum: with leastsq's 1.5e-8 slow ones end early.
_TIGHT = 1e-12
#: Unknowns up to which minimize solves for Newton's steps, where the function does not curve down at the start.
_MOST_FOR_NEWTON = 200
#: Seconds that an operation takes to be compiled with its derivatives, and to be evaluated node by node
#: throughout a solve; operations that are always compiled, and seconds that the others may always take.
_PER_COMPILED, _PER_LISTED, _ALWAYS_COMPILED, _ALWAYS_LISTED = 20e-6, 1.5e-6, 300, 0.005
_UNLIMITED = 1 << 62
#: Shares of the gradient at the start with which L-BFGS ends, and any solve; that with which L-BFGS ends where
#: it shows that a result stands still.
_SHARE, _LEAST_SHARE, _SHARE_OF_STILL = 1e-8, 1e-20, 1e-2
#: Times that a solve goes on from its result, share of the cost below which it stands still, and share of
#: the largest numbers of unknowns below which they do.
_MOST_ROUNDS, _STILL_COST, _STILL_STEP = 20, 1e-9, 1e-6
#: Unknowns up to which second derivatives are looked at where a solve ends, the share of the largest above
#: which all of them are positive, and shares of the unknowns by which a solve then goes on beside.
_MOST_CURVED, _CURVED, _ASIDE = 50, 1e-6, (1e-1, 1e-2, 1e-3, 1e-4)
#: The end of a solve that never stands still.
_FALLS = "the cost still falls: from where each solve ends, the next one leads lower"
#: Lengths of the way of a solve, beyond its end, at which the cost must go on falling to have no minimum, and the
#: share of the fall before that each must fall.
_BEYOND, _UNDIMINISHED = tuple(2.0**k - 1 for k in range(1, 31)), 0.9
#: The end of a solve that leads into what has no minimum.
_ENDLESS = "the function has no minimum: it falls on and on along the way of the solve"
#: A gradient whose square is no number beside 0.
_NOTHING = 1e-150
#: The least square of a column's length that is sure not to have lost digits, and the unit of rounding.
_LEAST_SQUARE, _EPS = 1e-280, float(np.finfo(float).eps)
#: Roundings of the terms by which an unknown is moved to see whether the residuals depend on it, and share of
#: it below which such a step is short.
_ROUNDINGS, _SHORT = 1e3, 1e-3
#: The number of the first column in MINPACK's orders, which SciPy has in C since 1.15.
_FIRST_COLUMN = 1 if tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 15) else 0
#: Status of a solve that a callback ended.
_STOPPED = 99


def _positional(f: Callable) -> int:
    """The number of positional parameters."""
    if type(f) is types.FunctionType and not f.__dict__:  # inspect takes 40 us
        return f.__code__.co_argcount
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
               for p in inspect.signature(f).parameters.values())


def _starts(f: Callable, p0: Any, bounds: Any) -> np.ndarray:
    """The start, as SciPy chooses it if none is given."""
    if p0 is not None:
        return np.atleast_1d(np.asarray(p0, dtype=float))
    n = _positional(f) - 1
    if n < 1:
        raise ValueError("Unable to determine number of fit parameters.")
    if bounds is _UNBOUNDED:
        return np.ones(n)
    pair = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    lower, upper = (np.resize(np.asarray(b, dtype=float), n) for b in pair)
    start = np.ones(n)
    both = np.isfinite(lower) & np.isfinite(upper)
    start[both] = 0.5 * (lower[both] + upper[both])
    below, above = np.isfinite(lower) & ~both, np.isfinite(upper) & ~both
    start[below], start[above] = lower[below] + 1, upper[above] - 1
    return start


def _covariance(jacobian: Any) -> np.ndarray:
    """(JᵀJ)⁻¹; infinite if JᵀJ is singular.

    Columns are scaled by their lengths first: whether an unknown is determined does not depend on
    its unit.
    """
    dense = jacobian if isinstance(jacobian, np.ndarray) else jacobian.toarray()
    rows, n = dense.shape
    if rows < n:
        return np.full((n, n), np.inf)
    squares = np.einsum("ij,ij->j", dense, dense)
    if _LEAST_SQUARE < squares.min() and squares.max() < 1 / _LEAST_SQUARE:
        scale = np.sqrt(squares)
    else:
        largest = np.abs(dense).max(axis=0)
        if not ((largest > 0) & (largest < np.inf)).all():
            return np.full((n, n), np.inf)
        scaled = dense / largest
        scale = largest * np.sqrt((scaled * scaled).sum(axis=0))
    _, s, vt, failed = dgesdd(dense / scale, full_matrices=0, overwrite_a=1)
    if failed or not s[-1] > _EPS * max(dense.shape) * s[0]:
        return np.full((n, n), np.inf)
    with np.errstate(over="ignore"):
        half = vt.T / s / scale[:, np.newaxis]
        return half @ half.T


def _is_undetermined(residuals: Callable, x: np.ndarray, f: np.ndarray, size: float, covariance: np.ndarray) -> bool:
    """True if the residuals f at x do not depend on an unknown beyond rounding, though a derivative is not zero:
    as a rate whose amplitude is 1e-17, where 0 makes JᵀJ singular.

      size        length of the terms whose difference the residuals are
      covariance  (JᵀJ)⁻¹: 1 / √ of its diagonal bounds from below what a unit step changes
    """
    rounding = _ROUNDINGS * _EPS * size
    with np.errstate(all="ignore"):
        steps = rounding * np.sqrt(abs(covariance.diagonal()))
        if not (steps > _SHORT * abs(x)).any():
            return False
        for k in np.flatnonzero((steps > _SHORT * abs(x)) & np.isfinite(steps)):
            for step in (steps[k], -steps[k]):
                beside = x.copy()
                beside[k] += step
                try:
                    change = np.linalg.norm(np.asarray(residuals(beside), dtype=float) - f)
                except (ArithmeticError, ValueError):  # it has no value there
                    continue
                if change < rounding / 2:
                    return True
    return False


def _weighted(difference: Any, sigma: np.ndarray | None, factor: np.ndarray | None) -> Any:
    if factor is not None:
        return np.matmul(factor, difference)
    return difference if sigma is None else difference / sigma


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    check_finite: bool | None = None,
    bounds: Any = _UNBOUNDED,
    method: str | None = None,
    jac: Any = None,
    *,
    full_output: bool = False,
    nan_policy: str | None = None,
    options: dict | None = None,
    **kwargs: Any,
) -> Any:
    """Fits ``f(xdata, *p)`` to ydata: scipy.optimize.curve_fit, compiled.

    f is recorded and solved by `least_squares`. What cannot be recorded, and fits without success, are
    left to SciPy, with the same arguments.

    Parameters
    ----------
    f : callable
        ``f(xdata, *p)``, shape (m,), with each unknown as an argument of its own.
    xdata : array_like or object
        Passed to f.
    ydata : array_like of shape (m,)
        What f is fitted to.
    p0 : array_like, optional
        Start; ones if not given, or numbers between the bounds.
    sigma : array_like of shape (m,) or (m, m), optional
        Standard deviations of ydata, or their covariance.
    absolute_sigma : bool
        False: the covariance of p is scaled by the residuals' variance.
    check_finite, method, jac, full_output, nan_policy, **kwargs
        As in SciPy; ftol, xtol, gtol, loss, f_scale, x_scale and max_nfev or maxfev are used. Without
        a method, and by 'lm', ftol and xtol are 1e-12 if they are not given.
    bounds : 2-tuple of array_like or scipy.optimize.Bounds
        Bounds of p.
    options : dict, optional
        Those of `least_squares`.

    Returns
    -------
    popt (n,) and pcov (n, n); with full_output also infodict, mesg and ier. infodict has nfev and fvec,
    and without bounds, by no method or 'lm', also fjac, ipvt and qtf.

    pcov is infinite, with SciPy's OptimizeWarning, where the data do not determine all of p: by every
    method as by SciPy's 'lm', whose others leave directions out that the data do not determine. Units
    of p do not matter to that. An unknown that has no effect beyond rounding is not determined.

    Raises what SciPy raises: ValueError for arguments, RuntimeError where no optimum is found.
    """
    given = dict(options or {})
    falls_back = given.pop("fallback", True)

    def scipys() -> Any:
        signature = inspect.signature(scipy.optimize.curve_fit).parameters
        newer = {"full_output": (full_output, False), "nan_policy": (nan_policy, None)}
        more = {k: v for k, (v, default) in newer.items() if k in signature or v != default}
        checks = True if check_finite is None else check_finite
        return scipy.optimize.curve_fit(f, xdata, ydata, p0, sigma, absolute_sigma, checks, bounds,
                                        method, jac, **more, **kwargs)

    fit: OptimizeResult | None = None
    residuals: Any = None
    try:
        fit, residuals = _traced_fit(f, xdata, ydata, p0, sigma, bounds, method, nan_policy, given, dict(kwargs),
                                     falls_back)
    except _core.Error as error:
        if not falls_back or error.code in _NO_DEVICE:
            raise
    except NotReal:
        raise
    except Exception:  # SciPy says what is wrong with the arguments, or takes what cannot be traced
        if not falls_back:
            raise
    if fit is None or not fit.success and falls_back:
        return scipys()
    if not fit.success:
        raise RuntimeError("Optimal parameters not found: " + fit.message)
    covariance = _covariance(fit.jac)
    rows = fit.fun.size
    terms = abs(fit.jac) @ abs(fit.x)
    size = float(np.sqrt(np.dot(terms, terms)) + np.sqrt(2 * fit.cost))
    if (not absolute_sigma and rows <= fit.x.size or
            _is_undetermined(residuals, fit.x, fit.fun, size, covariance)):
        covariance = np.full_like(covariance, np.inf)
    if covariance.flat[0] == np.inf and np.isinf(covariance).all():
        warnings.warn("Covariance of the parameters could not be estimated", OptimizeWarning,
                      stacklevel=2)
    elif not absolute_sigma:
        covariance = covariance * (2 * fit.cost / (rows - fit.x.size))
    if full_output:
        known = dict(nfev=fit.nfev, fvec=fit.fun)
        if (method is None and bounds is _UNBOUNDED or method == "lm") and isinstance(fit.jac, np.ndarray):
            known.update(_factors(fit.jac, fit.fun))
        return fit.x, covariance, known, fit.message, fit.status
    return fit.x, covariance


def _factors(jacobian: np.ndarray, f: np.ndarray) -> dict:
    """What MINPACK leaves of QR with column pivoting: R above the reflections in the transposed matrix,
    the order of the columns, counted from 1 as in Fortran, or from 0 where SciPy has MINPACK in C, and the
    first numbers of Qᵀf."""
    (packed, tau), _, order = qr(jacobian, mode="raw", pivoting=True)
    turned = dormqr("L", "T", packed, tau, f[:, np.newaxis], 64)[0]
    return {"fjac": packed.T, "ipvt": (order + _FIRST_COLUMN).astype(np.int32), "qtf": turned[:tau.size, 0]}


def _traced_fit(f: Callable, xdata: Any, ydata: Any, p0: Any, sigma: Any, bounds: Any, method: Any,
                nan_policy: Any, options: dict, kwargs: dict, falls_back: bool) -> tuple[OptimizeResult, Callable]:
    """The fit, and its residuals as a function of the unknowns."""
    if nan_policy not in (None, "raise"):
        raise TracingError("nan_policy")
    start = _starts(f, p0, bounds)
    y = np.asarray_chkfinite(as_numpy(ydata), dtype=float)
    x = xdata
    if isinstance(xdata, (list, tuple, np.ndarray)):
        x = np.asarray_chkfinite(xdata, dtype=float)
    if y.size == 0:
        raise ValueError("`ydata` must not be empty!")
    if method in (None, "lm") and start.size > y.size and y.size != 1:
        raise TypeError(f"The number of func parameters={start.size} must not exceed the number of "
                        f"data points={y.size}")
    deviations = factor = None
    if sigma is not None:
        deviations = np.asarray(sigma, dtype=float)
        if deviations.shape == (y.size, y.size):
            try:
                lower = cholesky(deviations, lower=True)
            except LinAlgError as error:
                raise ValueError("`sigma` must be positive definite.") from error
            factor = solve_triangular(lower, np.eye(y.size), lower=True)
        elif deviations.shape != (y.size,):
            raise ValueError("`sigma` has incorrect shape.")

    if deviations is None:
        @calls_users
        def residuals(p: Any) -> Any:
            return returned(f, f(x, *p)) - y
    else:
        @calls_users
        def residuals(p: Any) -> Any:
            return _weighted(returned(f, f(x, *p)) - y, deviations, factor)

    known = {k: kwargs.pop(k) for k in ("ftol", "xtol", "gtol", "loss", "f_scale", "x_scale", "max_nfev",
                                        "verbose") if k in kwargs}
    if "maxfev" in kwargs:
        known.setdefault("max_nfev", kwargs.pop("maxfev") or None)
    kwargs.pop("args", None) if not kwargs.get("args") else None
    if any(k not in ("epsfcn", "diff_step", "tr_solver", "tr_options", "jac_sparsity") for k in kwargs):
        raise TracingError("an argument that only SciPy knows")
    if method in (None, "lm"):
        known = {"ftol": _TIGHT, "xtol": _TIGHT, **known}
    solve = functools.partial(least_squares, residuals, start, bounds=bounds, method=method or "trf", **known)
    fit = solve(options={**options, "fallback": False})
    if falls_back and fit.success and is_flat(fit):
        fit = solve(options=options)
    return fit, residuals


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple = (),
    method: Any = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict | None = None,
) -> OptimizeResult:
    """Minimises the number ``fun(x, *args)`` over x, within bounds and constraints:
    scipy.optimize.minimize, compiled.

    fun is recorded, and its derivatives are exact: Newton's steps for up to 200 unknowns, if fun does
    not curve down at the start, else L-BFGS; the augmented Lagrangian for constraints. Sums of many
    terms are compiled term by term. What cannot be recorded is left to SciPy, with the same arguments.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns a number.
    x0 : array_like of shape (n,)
        Start.
    args : tuple
        After x in calls of fun.
    method : str or callable, optional
        As in SciPy, which gets every method that is named.
    jac, hess, hessp
        Used by SciPy alone: derivatives of recorded functions are exact. With jac=True fun returns
        its derivative, too, which is not used.
    bounds : scipy.optimize.Bounds or sequence of pairs, optional
        Bounds of x; None is none.
    constraints : dict, LinearConstraint, NonlinearConstraint, or a list of them
        As in SciPy.
    tol : float, optional
        Tolerance of the gradient's largest component, in the units of fun and x. Without it, and
        without an option 'gtol', a solve ends where steps and the cost stand still: it goes on from where it
        ended until that changes the cost by less than 1e-9 of it, or x by less than 1e-6 of its largest
        numbers. Where up to 50 unknowns end at a saddle, it goes on beside it. `success` is False if each
        solve leads lower, as on a function without a minimum.
    callback : callable, optional
        callback(x), or callback(intermediate_result), after each step.
    options : dict, optional
        SciPy's 'maxiter', 'gtol', 'ftol' and 'disp', or options of topograd.Problem.solve; with
        {'fallback': False} what cannot be recorded raises.

    Returns
    -------
    OptimizeResult
        x (n,), fun, jac (n,), nit, nfev, njev, status, message, success; for recorded functions also
        `summary`, and without bounds and constraints `hess_inv` (n, n), which is computed when it is read.
    """
    given = dict(options or {})
    falls_back = given.pop("fallback", True)
    found: OptimizeResult | None = None
    if method is None:
        try:
            found = _traced_minimum(fun, x0, args, jac, bounds, constraints, tol, callback, given, falls_back)
            if found.success or not falls_back or found.status == _STOPPED:
                return found
        except _CallbackError as error:
            raise error.__cause__ or error
        except _core.Error as error:
            if not falls_back or error.code in _NO_DEVICE:
                raise
        except NotReal:
            raise
        except Exception:  # SciPy says what is wrong with the arguments
            if not falls_back:
                raise
    elif not falls_back:
        raise TracingError(f"method={method!r}, which is SciPy's")
    kept = {k: v for k, v in given.items() if not _is_ours(k)}
    scipys = scipy.optimize.minimize(fun, x0, args, method, jac, hess, hessp, bounds, constraints, tol,
                                     callback, kept or None)
    if found is None or _constrained(constraints):
        return scipys
    if not scipys.fun < found.fun:
        return found
    # SciPy's gtol is an absolute number, which small numbers meet anywhere.
    try:
        again = _traced_minimum(fun, scipys.x, args, jac, bounds, constraints, tol, callback, given)
    except (_core.Error, ArithmeticError, ValueError):
        again = scipys
    lower = again if again.fun <= scipys.fun else scipys

    def cost(x: np.ndarray) -> float:
        value = fun(x, *(args if isinstance(args, tuple) else (args,)))
        return float(np.asarray(value[0] if jac is True else value, dtype=float).reshape(()))

    start = np.atleast_1d(np.asarray(as_numpy(x0), dtype=float))
    if lower.success and _is_endless(cost, start, lower.x, _box_of(bounds, start)):
        lower.update(success=False, status=1, message=_ENDLESS)
    return lower


def _constrained(constraints: Any) -> bool:
    return not isinstance(constraints, (list, tuple)) or len(constraints) > 0


def _units(start: np.ndarray) -> np.ndarray:
    """Powers of two by which unknowns that begin far from 1 are divided: steps for energies depend on
    units."""
    with np.errstate(all="ignore"):
        powers = np.where(start == 0, 0.0, np.round(np.log2(np.abs(start))))
    return np.exp2(np.where(np.abs(powers) > 10, np.clip(powers, -500, 500), 0.0))


def _changing_step(value: Callable, at: np.ndarray, k: int, f: float) -> float:
    """The power of two by which a step in one unknown changes the function by a share of f, its value at `at`,
    on one of both sides; 0: there is none."""
    def change(step: float) -> float:
        shares = []
        for side in (step, -step):
            beside = at.copy()
            beside[k] += side
            try:
                shares.append(abs(float(value(beside)) - f) / abs(f))
            except (ArithmeticError, ValueError):  # it has no value there
                return np.inf
        return np.inf if np.isnan(shares).any() else max(shares)

    with np.errstate(all="ignore"):
        return _length_that_changes(change) if f != 0 and np.isfinite(f) else 0.0


def _natural_units(value: Callable, start: np.ndarray, f0: float) -> np.ndarray:
    """Units of unknowns at a start. That of one which begins far below 1 is where a step changes the function,
    if this is longer: 1e-17 may stand for 0."""
    units = _units(start)
    largest = max(1.0, float(np.max(units)))
    for k in np.flatnonzero(units < 1):
        step = _changing_step(lambda x: np.asarray(value(x), dtype=float).reshape(()), start, k, f0)
        units[k] = max(units[k], min(step, largest))
    return units


def _is_ours(name: str) -> bool:
    try:
        _core.check_options({name: None})
    except TypeError as error:
        return "unknown option" not in str(error)
    except Exception:
        return True
    return True


def _constrain(problem: Problem, x: Any, constraint: Any) -> None:
    """Adds one constraint of SciPy's."""
    def bound(value: Any, low: Any, high: Any) -> None:
        lower, upper = (np.broadcast_to(np.asarray(b, dtype=float), value.shape).ravel()
                        for b in (low, high))
        value = value.reshape(-1)
        same = np.flatnonzero(lower == upper)
        if same.size:
            problem.equalities(value[same] - lower[same])
        for numbers, sign in ((lower, 1.0), (upper, -1.0)):
            some = np.flatnonzero(np.isfinite(numbers) & (lower != upper))
            if some.size:
                problem.inequalities(sign * (value[some] - numbers[some]))

    if isinstance(constraint, dict):
        add = {"eq": problem.equalities, "ineq": problem.inequalities}[constraint["type"].lower()]
        add(constraint["fun"], x, *constraint.get("args", ()))
    elif hasattr(constraint, "A"):
        matrix = constraint.A.toarray() if hasattr(constraint.A, "toarray") else constraint.A
        bound(np.matmul(np.atleast_2d(matrix), x), constraint.lb, constraint.ub)
    else:
        bound(problem._traced(constraint.fun, (x,)), constraint.lb, constraint.ub)


def _traced_minimum(fun: Callable, x0: Any, args: Any, jac: Any, bounds: Any, constraints: Any, tol: Any,
                    callback: Any, options: dict, falls_back: bool = False) -> OptimizeResult:
    start = np.atleast_1d(np.asarray(as_numpy(x0), dtype=float))
    if start.ndim != 1:
        raise ValueError("'x0' must only have one dimension.")
    args = args if isinstance(args, tuple) else (args,)

    @calls_users
    def value(x: Any) -> Any:
        found = returned(fun, fun(x, *args))
        return found[0] if jac is True else found

    f0 = float(np.asarray(value(start.copy()), dtype=float).reshape(()))
    problem = Problem()
    units = _natural_units(value, start, f0)
    scaled = problem.parameters(start / units)
    x = scaled if np.all(units == 1) else scaled * units
    rows = problem._trace.array(run_traced(problem._trace, value, (x,)))
    if rows.size != 1:
        raise ValueError("The user-provided objective function must return a scalar value.")
    box = _box_of(bounds, start)
    if box is not None:
        scaled.value[...] = np.clip(start, *box) / units
        box = (box[0] / units, box[1] / units)
    given = {k: v for k, v in options.items() if k not in ("maxiter", "gtol", "ftol", "disp")}
    free = not _constrained(constraints)
    solved = _way(problem, scaled, rows.reshape(-1), box, free and not given,
                  (lambda: _seconds_of_scipys(value, start)) if falls_back else None)
    for constraint in constraints if isinstance(constraints, (list, tuple)) else [constraints]:
        _constrain(problem, x, constraint)
    if abs(solved.cost(start / units) - f0) > 1e-8 * max(1.0, abs(f0)) and np.isfinite(f0):
        raise TracingError("the traced function has other values than the function")
    gtol = options.get("gtol", tol)
    by_newton = (free and solved is problem and start.size <= _MOST_FOR_NEWTON and
                 not _curves_down(problem, scaled.value, box))
    # Without a tolerance that was asked for, none may have a unit.
    settings = {"max_iterations": options.get("maxiter") or max(1000, 50 * start.size),
                "absolute_gradient_tolerance": max((gtol or 0.0) * float(np.min(units)), _NOTHING),
                "function_tolerance": options.get("ftol", 1e-15),
                "gradient_tolerance": _LEAST_SHARE if by_newton or gtol is not None else _SHARE,
                "parameter_tolerance": 1e-15,
                "update_state_every_iteration": callback is not None}
    if by_newton:
        settings["method"] = "newton"
    called = None if callback is None else _Callback(callback, scaled.value, units, lambda step: {"fun": step.cost})
    end = _solved(solved, scaled.value, box, called, {**settings, **given},
                  (gtol or 0.0) * units if free else None, given.get("method", settings.get("method")) == "newton")
    summary = end.summary
    at = scaled.value * units
    ends = float(np.asarray(value(at.copy()), dtype=float).reshape(()))
    if np.isfinite(ends) and abs(solved.cost() - ends) > 1e-8 * max(1.0, abs(ends)):
        raise TracingError("the traced function has other values than the function")
    stopped = called is not None and called.stopped
    if end.is_still and free and _is_endless(solved.cost, start / units, scaled.value.copy(), box):
        end.message, end.is_still = _ENDLESS, False
    success = end.is_still and bool(np.isfinite(ends)) and not stopped
    if options.get("disp"):
        print(end.message)

    def gradient(y: np.ndarray) -> np.ndarray:
        scaled.value[...] = y / units
        slope = solved.gradient() / units
        scaled.value[...] = at / units
        return slope

    return _Minimum(
        gradient if free and box is None else None,
        x=at, fun=ends, jac=solved.gradient() / units, nit=end.steps, nfev=end.steps + 1, njev=end.accepted + 1,
        status=0 if success else _STOPPED if stopped else 1, success=success, message=end.message,
        summary=summary)


def _box_of(bounds: Any, start: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Lower and upper bounds of each unknown, of what SciPy takes for them."""
    if bounds is None:
        return None
    pairs = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else zip(*[
        (-np.inf if low is None else low, np.inf if high is None else high) for low, high in bounds])
    low, high = (np.broadcast_to(np.asarray(b, dtype=float), start.shape) for b in pairs)
    return low, high


def _is_endless(cost: Callable, start: np.ndarray, x: np.ndarray, box: tuple[np.ndarray, np.ndarray] | None) -> bool:
    """True if the function falls on and on beyond x, along the way from a start: at each length twice as far, by
    no less than before. The other wells of a function that grows in the end are no such way."""
    way, before, fall = x - start, float(cost(x)), 0.0
    for length in _BEYOND:
        beyond = x + length * way
        if box is not None and np.any((beyond < box[0]) | (beyond > box[1])):
            return False
        try:
            with np.errstate(all="ignore"):
                there = float(cost(beyond))
        except (ArithmeticError, ValueError):  # it has no value there
            return False
        if there == -np.inf:
            return True
        if not before - there > max(_UNDIMINISHED * fall, _STILL_COST * abs(before)):
            return False
        before, fall = there, before - there
    return True


@dataclasses.dataclass
class _End:
    """Where solves that followed each other ended: the summary of the last, and what they did together."""

    summary: Summary
    message: str
    is_still: bool
    steps: int
    accepted: int


def _solved(solved: Any, y: np.ndarray, box: tuple[np.ndarray, np.ndarray] | None, called: Any, settings: dict,
            gtol: np.ndarray | None, by_newton: bool) -> _End:
    """Solves from y, which is overwritten, and goes on from there until that changes nothing.

    A share of the gradient at the start, or of the cost that the last step changed, says nothing about how far
    the minimum is: the gradient may have been huge, and steps may still grow.

      gtol  largest components of the gradient that were asked for, 0: none; None: there are constraints, whose
            verdict is the library's
    """
    start, sizes, least = y.copy(), np.abs(y), settings["max_iterations"]
    still_cost = max(_STILL_COST, settings["function_tolerance"])
    still_step = max(_STILL_STEP, settings["parameter_tolerance"])

    def solve(share: float | None) -> Summary:
        nonlocal least
        some = {} if share is None else {"gradient_tolerance": share}
        summary = solved.solve(callback=called, **{**settings, **some, "max_iterations": least})
        if summary.interrupted:
            raise KeyboardInterrupt
        end.steps += max(len(summary.iterations) - 1, 0)
        end.accepted += summary.accepted
        least = settings["max_iterations"] - end.steps
        np.maximum(sizes, np.abs(y), out=sizes)
        return summary

    end = _End(None, "", False, 0, 0)  # type: ignore[arg-type]
    end.summary = solve(None)
    end.message, end.is_still = end.summary.message, end.summary.termination == "CONVERGENCE"
    if gtol is None:
        return end
    for _ in range(_MOST_ROUNDS):
        if not end.is_still or least < 1 or called is not None and called.stopped:
            return end
        before, cost, slope = y.copy(), solved.cost(), _projected(solved.gradient(), y, box)
        asked = bool(np.any(gtol > 0) and np.all(np.abs(slope) <= gtol))
        if asked or not _promises(slope, sizes, still_cost * abs(cost)):
            beside = None if asked else _beside_a_saddle(solved, y, box, cost, sizes, start)
            if beside is None:
                return end
            y[...] = beside
        summary = solve(None if by_newton else _SHARE_OF_STILL)
        after = solved.cost()
        if not after < cost:
            y[...] = before
            return end
        still = cost - after <= still_cost * abs(cost) or np.all(np.abs(y - before) <= still_step * sizes)
        if still and np.isfinite(after):
            beside = _beside_a_saddle(solved, y, box, after, sizes, start)
            if beside is None:
                return end
            y[...] = beside
            summary = solve(None)
        end.summary, end.message = summary, summary.message
        end.is_still = summary.termination == "CONVERGENCE"
    end.message, end.is_still = _FALLS, False
    return end


def _projected(slope: np.ndarray, y: np.ndarray, box: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """The gradient without components that lead out of the box."""
    if box is None:
        return slope
    return np.where((y <= box[0]) & (slope > 0) | (y >= box[1]) & (slope < 0), 0.0, slope)


def _promises(slope: np.ndarray, sizes: np.ndarray, change: float) -> bool:
    """True if a step as large as the unknowns promises more than a change of the cost."""
    largest, size = np.max(np.abs(slope)), np.max(sizes)
    return bool(largest > _NOTHING and (size == 0 or not largest * size <= change))


def _beside_a_saddle(solved: Any, y: np.ndarray, box: tuple[np.ndarray, np.ndarray] | None, cost: float,
                     sizes: np.ndarray, start: np.ndarray) -> np.ndarray | None:
    """A lower point beside y, along the direction in which the cost curves down, or least; None if there is none."""
    if y.size > _MOST_CURVED or not np.isfinite(cost):
        return None
    # Where the cost is 0, no step changes it by a share.
    lowest, highest, direction = _curvatures(solved, y, box, sizes, y.copy() if cost != 0 else start)
    if not lowest <= _CURVED * max(-lowest, highest):
        return None
    at, (low, high) = y.copy(), box or (-np.inf, np.inf)
    beside, least = None, cost - _STILL_COST * abs(cost)
    for length in np.outer(_ASIDE, (1.0, -1.0)).ravel():
        np.clip(at + length * direction, low, high, out=y)
        if solved.cost() < least:
            beside, least = y.copy(), solved.cost()
    y[...] = at
    return beside


def _curves_down(solved: Any, y: np.ndarray, box: tuple[np.ndarray, np.ndarray] | None) -> bool:
    """True if the cost at y curves down along a direction. Newton's steps from there are as long as small
    curvatures let them be: atoms that repel each other fly apart."""
    lowest, highest, _ = _curvatures(solved, y, box, np.abs(y), y.copy())
    return lowest < -_CURVED * max(-lowest, highest)


def _curvatures(solved: Any, y: np.ndarray, box: tuple[np.ndarray, np.ndarray] | None, sizes: np.ndarray,
                measured: np.ndarray) -> tuple[float, float, np.ndarray]:
    """The least and the largest curvature of the cost at y among unknowns that no bound holds, and the direction
    of the least, in units of the unknowns' sizes; NaN without any.

    Second derivatives are differences of gradients: 2 n of these.

      measured  the point at which a step in an unknown of size 0 changes the cost by a share of it
    """
    at, units, cost = y.copy(), sizes.copy(), solved.cost(measured)
    for k in np.flatnonzero(sizes < _STILL_STEP):
        units[k] = max(sizes[k], _changing_step(solved.cost, measured, k, cost)) or 1.0
    low, high = box or (-np.inf, np.inf)
    steps = np.cbrt(_EPS) * units
    free = np.flatnonzero((at - steps > low) & (at + steps < high))
    hessian = np.zeros((free.size, free.size))
    for row, k in enumerate(free):
        slopes = []
        for side in (steps[k], -steps[k]):
            y[...] = at
            y[k] += side
            slopes.append(solved.gradient()[free])
        hessian[row] = (slopes[0] - slopes[1]) / (2 * steps[k]) * units[k] * units[free]
    y[...] = at
    direction = np.zeros(y.size)
    if free.size == 0 or not np.isfinite(hessian).all():
        return np.nan, np.nan, direction
    curvatures, directions = np.linalg.eigh((hessian + hessian.T) / 2)
    direction[free] = directions[:, 0] * units[free]
    return float(curvatures[0]), float(curvatures[-1]), direction


class _Minimum(OptimizeResult):
    """A result of minimize. As SciPy's of BFGS it has `hess_inv`, here by differences of exact gradients."""

    def __init__(self, gradient: Callable[[np.ndarray], np.ndarray] | None, **values: Any) -> None:
        super().__init__(**values)
        object.__setattr__(self, "_gradient", gradient)

    def __missing__(self, key: str) -> Any:
        gradient = self.__dict__.get("_gradient")
        if key != "hess_inv" or gradient is None:
            raise KeyError(key)
        x: np.ndarray = self["x"]
        steps = np.cbrt(_EPS) * np.maximum(np.abs(x), _units(x))
        columns = [(gradient(x + step) - gradient(x - step)) / (2 * np.max(step)) for step in np.diag(steps)]
        hessian = np.array(columns).reshape(x.size, x.size)
        self[key] = np.linalg.inv((hessian + hessian.T) / 2)
        return self[key]


def _seconds_of_scipys(value: Callable, x: np.ndarray) -> float:
    """What SciPy may take with differences."""
    def evaluate() -> float:
        began = time.thread_time()
        value(x.copy())
        return time.thread_time() - began

    return min(evaluate(), evaluate()) * (x.size + 1) * _EVALUATIONS


def _way(problem: Problem, x: Any, row: Any, box: tuple[np.ndarray, np.ndarray] | None,
         may_be_whole: bool, scipys: Callable[[], float] | None) -> Any:
    """What minimises a row of one function: the problem, whose energies are its terms, or the row as a
    whole, if kernels of its different terms would take longer to make than the solve.

      scipys  seconds that SciPy takes; None: they do not matter

    Raises TracingError if the row as a whole would take longer than SciPy.
    """
    graph = problem._trace.graph
    listed = _PER_LISTED * graph.operations(row._whole_node())
    if may_be_whole:
        graph.limit(max(_ALWAYS_COMPILED, int(listed / _PER_COMPILED)))
    try:
        terms, count = graph.summands(row._whole_node())
        problem.energies(problem._trace.wrap(terms, (count,)))
    except _core.Error as error:
        if not may_be_whole or error.code != "unsupported":
            raise
        if scipys is not None and listed > _ALWAYS_LISTED and listed > scipys():
            raise TracingError(f"{error}: without kernels SciPy is faster") from error
        graph.limit(_UNLIMITED)
        return _Whole(problem._trace, row, x.value, box)
    if box is not None:
        low, high = box
        some = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        same = low[some] == high[some]
        if np.any(same):
            problem.fix(x[some[same]])
        if not np.all(same):
            problem.bounds(x[some[~same]], low[some[~same]], high[some[~same]])
    return problem


class _Whole:
    """One row, whose value and gradient are evaluated node by node. L-BFGS minimises it."""

    def __init__(self, trace: Trace, row: Any, x: np.ndarray,
                 box: tuple[np.ndarray, np.ndarray] | None) -> None:
        trace.graph.share(row._whole_node())
        self._x = x
        self._low, self._high = (np.ascontiguousarray(b) for b in box or (np.zeros(0), np.zeros(0)))
        self._model = trace.model(row, x, None, True)
        self._values = _core.Values(self._model, {"backend": "cpu"}, False)

    def cost(self, x: np.ndarray | None = None) -> float:
        return float(self._values.residuals(self._x if x is None else x)[0])

    def gradient(self) -> np.ndarray:
        return self._values.dense_jacobian(self._x)[0]

    def solve(self, callback: Any, **options: Any) -> Summary:
        core = _core.minimize_row(self._model, self._x, self._low, self._high, options, callback)
        return Summary(core, self._model)
