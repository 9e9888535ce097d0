"""scipy.stats' distributions in traced code: densities and probabilities of traced values."""
#
# NumPy's stubs do not know that traced arrays implement its functions:
# mypy: disable-error-code="call-overload,arg-type,operator,index,var-annotated"

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np
from scipy import special

from ._trace import TracingError, contains_traced, plain

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
#: NumPy for traced arrays: its stubs do not know that these implement its functions.
_numpy: Any = np


def _log_normal_density(z: Any) -> Any:
    return -0.5 * np.square(z) - _LOG_SQRT_2PI


def _log_t(z: Any, df: Any) -> Any:
    return (special.gammaln(0.5 * (df + 1.0)) - special.gammaln(0.5 * df) - 0.5 * np.log(df * math.pi) -
            0.5 * (df + 1.0) * np.log1p(np.square(z) / df))


def _log_gamma_density(z: Any, a: Any) -> Any:
    return (a - 1.0) * np.log(z) - z - special.gammaln(a)


def _log_beta_density(z: Any, a: Any, b: Any) -> Any:
    return (a - 1.0) * np.log(z) + (b - 1.0) * np.log1p(-z) - special.betaln(a, b)


def _log_exponnorm(z: Any, k: Any) -> Any:
    inverse = 1.0 / k
    return (np.log(0.5 * inverse) + 0.5 * np.square(inverse) - z * inverse +
            np.log(special.erfc((inverse - z) * _SQRT_HALF)))


class _Standard:
    """Functions of a distribution with location 0 and scale 1: of z and its shapes."""

    def __init__(self, logpdf: Callable, cdf: Callable | None = None, sf: Callable | None = None,
                 ppf: Callable | None = None, support: tuple[float, float] = (-math.inf, math.inf)) -> None:
        self.logpdf, self.cdf, self.sf, self.ppf, self.support = logpdf, cdf, sf, ppf, support


_POSITIVE = (0.0, math.inf)
_CONTINUOUS: dict[str, _Standard] = {
    "norm": _Standard(_log_normal_density, special.ndtr, lambda z: special.ndtr(-z), special.ndtri),
    "halfnorm": _Standard(lambda z: math.log(2) + _log_normal_density(z),
                          lambda z: special.erf(z * _SQRT_HALF), lambda z: special.erfc(z * _SQRT_HALF),
                          support=_POSITIVE),
    "lognorm": _Standard(lambda z, s: _log_normal_density(np.log(z) / s) - np.log(s * z),
                         lambda z, s: special.ndtr(np.log(z) / s), lambda z, s: special.ndtr(-np.log(z) / s),
                         support=_POSITIVE),
    "expon": _Standard(lambda z: -z, lambda z: -np.expm1(-z), lambda z: np.exp(-z),
                       lambda q: -np.log1p(-q), _POSITIVE),
    "exponnorm": _Standard(_log_exponnorm),
    "gamma": _Standard(_log_gamma_density, lambda z, a: special.gammainc(a, z),
                       lambda z, a: special.gammaincc(a, z), support=_POSITIVE),
    "chi2": _Standard(lambda z, df: _log_gamma_density(0.5 * z, 0.5 * df) - math.log(2),
                      lambda z, df: special.gammainc(0.5 * df, 0.5 * z),
                      lambda z, df: special.gammaincc(0.5 * df, 0.5 * z), support=_POSITIVE),
    "weibull_min": _Standard(lambda z, c: np.log(c) + (c - 1.0) * np.log(z) - z**c,
                             lambda z, c: -np.expm1(-(z**c)), lambda z, c: np.exp(-(z**c)),
                             support=_POSITIVE),
    "rayleigh": _Standard(lambda z: np.log(z) - 0.5 * np.square(z), lambda z: -np.expm1(-0.5 * np.square(z)),
                          lambda z: np.exp(-0.5 * np.square(z)), support=_POSITIVE),
    "maxwell": _Standard(lambda z: 2.0 * np.log(z) - 0.5 * np.square(z) + 0.5 * math.log(2 / math.pi),
                         support=_POSITIVE),
    "fisk": _Standard(lambda z, c: np.log(c) + (c - 1.0) * np.log(z) - 2.0 * np.log1p(z**c),
                      lambda z, c: special.expit(c * np.log(z)), lambda z, c: special.expit(-c * np.log(z)),
                      support=_POSITIVE),
    "pareto": _Standard(lambda z, b: np.log(b) - (b + 1.0) * np.log(z), lambda z, b: 1.0 - z ** (-b),
                        lambda z, b: z ** (-b), support=(1.0, math.inf)),
    "beta": _Standard(_log_beta_density, support=(0.0, 1.0)),
    "uniform": _Standard(lambda z: 0.0 * z, lambda z: 1.0 * z, lambda z: 1.0 - z, support=(0.0, 1.0)),
    "t": _Standard(_log_t),
    "cauchy": _Standard(lambda z: -np.log(math.pi * (1.0 + np.square(z))),
                        lambda z: 0.5 + np.arctan(z) / math.pi, lambda z: 0.5 - np.arctan(z) / math.pi),
    "laplace": _Standard(lambda z: -np.abs(z) - math.log(2),
                         lambda z: 0.5 * (1.0 + np.sign(z) * -np.expm1(-np.abs(z))),
                         lambda z: 0.5 * (1.0 - np.sign(z) * -np.expm1(-np.abs(z)))),
    "logistic": _Standard(lambda z: special.log_expit(z) + special.log_expit(-z), special.expit,
                          lambda z: special.expit(-z), special.logit),
    "gumbel_r": _Standard(lambda z: -z - np.exp(-z), lambda z: np.exp(-np.exp(-z)),
                          lambda z: -np.expm1(-np.exp(-z))),
    "gumbel_l": _Standard(lambda z: z - np.exp(z), lambda z: -np.expm1(-np.exp(z)),
                          lambda z: np.exp(-np.exp(z))),
    "skewnorm": _Standard(lambda z, a: math.log(2) + _log_normal_density(z) + special.log_ndtr(a * z)),
}


def _log_poisson(k: Any, mu: Any) -> Any:
    return special.xlogy(k, mu) - special.gammaln(k + 1.0) - mu


def _log_binomial(k: Any, n: Any, p: Any) -> Any:
    ways = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)
    return ways + special.xlogy(k, p) + special.xlog1py(n - k, -p)


def _log_negative_binomial(k: Any, n: Any, p: Any) -> Any:
    ways = special.gammaln(n + k) - special.gammaln(k + 1.0) - special.gammaln(n)
    return ways + n * np.log(p) + special.xlog1py(k, -p)


_DISCRETE: dict[str, Callable] = {"poisson": _log_poisson, "binom": _log_binomial,
                                  "nbinom": _log_negative_binomial,
                                  "geom": lambda k, p: special.xlog1py(k - 1.0, -p) + np.log(p)}


def _arguments(distribution: Any, args: tuple, kwargs: dict) -> tuple[list, Any, Any]:
    """The shapes, the location and the scale of a call."""
    shapes = [s.strip() for s in (distribution.shapes or "").split(",") if s.strip()]
    discrete = not hasattr(distribution, "pdf")
    names = [*shapes, "loc"] + ([] if discrete else ["scale"])
    given = {"loc": 0.0, "scale": 1.0, **dict(zip(names, args)), **kwargs}
    if len(args) > len(names) or set(given) - {*names, "scale"} or not set(shapes) <= set(given):
        raise TypeError(f"wrong arguments of scipy.stats.{distribution.name}")
    return [_numbers(given[s]) for s in shapes], _numbers(given["loc"]), _numbers(given["scale"])


def _numbers(value: Any) -> Any:
    value = plain(value)
    return value if contains_traced(value) and not isinstance(value, (list, tuple)) else (
        np.array(value) if contains_traced(value) else np.asarray(value, dtype=float))


class Distribution:
    """A distribution of scipy.stats, which also takes traced values."""

    def __init__(self, original: Any, args: tuple = (), kwargs: dict | None = None) -> None:
        self._original, self._args, self._kwargs = original, args, kwargs or {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Distribution(self._original, args, kwargs)

    freeze = __call__

    def _unknown(self, name: str) -> TracingError:
        return TracingError(f"scipy.stats.{self._original.name}.{name} of values that depend on unknowns cannot "
                            "be traced")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._original, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            given, named = (*args, *self._args), {**self._kwargs, **kwargs}
            if contains_traced((*given, *named.values())):
                return self._traced(name, given, named)
            return found(*plain(given), **{k: plain(v) for k, v in named.items()})

        return call

    def _traced(self, name: str, args: tuple, kwargs: dict) -> Any:
        if not args:
            raise self._unknown(name)
        x = _numbers(args[0])
        shapes, loc, scale = _arguments(self._original, args[1:], kwargs)
        discrete = _DISCRETE.get(self._original.name)
        if discrete is not None and name in ("pmf", "logpmf"):
            if contains_traced(x):
                raise self._unknown(name)
            found = discrete(x - loc, *shapes)
            return np.exp(found) if name == "pmf" else found
        standard = _CONTINUOUS.get(self._original.name)
        if standard is None:
            raise self._unknown(name)
        if name == "ppf" and standard.ppf is not None:
            return loc + scale * standard.ppf(x, *shapes)
        z = (x - loc) / scale
        low, high = standard.support
        bounded = (low, high) != (-math.inf, math.inf)
        inside: Any = np.logical_and(z >= low, z <= high) if bounded else True
        at = z
        if bounded:  # where z is outside, functions of it need no value
            at = _numpy.where(inside, z, 0.5 if high == 1.0 else 2.0 * low if low else 1.0)
        if name in ("pdf", "logpdf"):
            found = standard.logpdf(at, *shapes) - np.log(scale)
            if name == "pdf":
                found = np.exp(found)
            return _numpy.where(inside, found, 0.0 if name == "pdf" else -math.inf) if bounded else found
        below = {"cdf": 0.0, "sf": 1.0, "logcdf": 0.0, "logsf": 1.0}.get(name)
        if below is None:
            raise self._unknown(name)
        if self._original.name == "norm" and name in ("logcdf", "logsf"):
            return special.log_ndtr(z if name == "logcdf" else -z)
        function = standard.cdf if name.endswith("cdf") else standard.sf
        if function is None:
            raise self._unknown(name)
        found = function(at, *shapes)
        if bounded:
            found = _numpy.where(z < low, below, _numpy.where(z > high, 1.0 - below, found))
        return np.log(found) if name.startswith("log") else found


def own_instance(value: Any) -> Any:
    """What traced code sees for a distribution of scipy.stats, or None."""
    if hasattr(value, "dist") and hasattr(value, "kwds"):  # frozen
        return Distribution(value.dist, value.args, value.kwds)
    if hasattr(value, "numargs") and (hasattr(value, "pdf") or hasattr(value, "pmf")):
        return Distribution(value)
    return None
