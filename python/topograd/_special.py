"""Functions of scipy.special on traced arrays, as operations whose derivatives are exact."""
#
# NumPy's stubs do not know that traced arrays implement its functions:
# mypy: disable-error-code="call-overload,arg-type,operator,index,var-annotated"

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np
import scipy.special

from ._complex import COMPLEX_UFUNCS, ComplexArray, as_complex, horner
from ._functions import implements
from ._trace import Array, Trace, TracingError, contains_traced
from ._ufuncs import COMPOSITES, reduce, select

#: NumPy for traced arrays: its stubs do not know that these implement its functions.
_numpy: Any = np
_SQRT_PI = math.sqrt(math.pi)


# The error function's family.


def _erfc(t: Trace, x: Any) -> Array:
    """Without cancellation: the normal distribution's tail."""
    return 2.0 * t.apply("normal_cdf", np.multiply(x, -math.sqrt(2.0)))


def _erfcx(t: Trace, x: Any) -> Array:
    far = np.greater(x, 12.0)
    near, large = select(t, far, 0.0, x), select(t, far, x, 12.0)
    series: Any = 1.0
    for k in range(14, 0, -1):  # 1 - 1/(2 x²) (1 - 3/(2 x²) (1 - ...
        series = 1.0 - (2 * k - 1) / (2.0 * np.square(large)) * series
    return select(t, far, series / (large * _SQRT_PI), np.exp(np.square(near)) * _erfc(t, near))


def _log_ndtr(t: Trace, x: Any) -> Array:
    low = np.less(x, -1.0)
    small, rest = select(t, low, x, -1.0), select(t, low, 0.0, x)
    tail = np.log(0.5 * _erfcx(t, small * -math.sqrt(0.5))) - 0.5 * np.square(small)
    return select(t, low, tail, np.log1p(-0.5 * _erfc(t, rest * math.sqrt(0.5))))


def _ndtri(t: Trace, p: Any) -> Array:
    """Acklam's start, and three of Newton's steps."""
    low = np.less(p, 0.5)
    tail = np.sqrt(-2.0 * np.log(select(t, low, p, 1.0 - np.multiply(p, 1.0))))
    start = tail - (2.515517 + tail * (0.802853 + 0.010328 * tail)) / (
        1.0 + tail * (1.432788 + tail * (0.189269 + 0.001308 * tail)))
    x: Any = select(t, low, -start, start)
    for _ in range(4):
        step = (t.apply("normal_cdf", x) - p) * math.sqrt(2 * math.pi) * np.exp(0.5 * np.square(x))
        x = x - step / (1.0 + 0.5 * x * step)
    return x


def _weideman(n: int = 40) -> tuple[float, np.ndarray]:
    """Coefficients of Weideman's rational function for w(z), and its scale."""
    m = 2 * n
    k = np.arange(-m + 1, m)
    scale = math.sqrt(n / math.sqrt(2))
    at = scale * np.tan(k * math.pi / (2 * m))
    f = np.concatenate([[0.0], np.exp(-np.square(at)) * (scale**2 + np.square(at))])
    return scale, np.real(np.fft.fft(np.fft.fftshift(f)))[1: n + 1][::-1] / (2 * m)


_SCALE, _W = _weideman()


def wofz(t: Trace, z: ComplexArray) -> ComplexArray:
    """Faddeeva's function."""
    below = np.less(z.imag, 0.0)
    sign = np.where(below, -1.0, 1.0)
    up = ComplexArray(z.real * sign, z.imag * sign)
    above: Any = 1.0 / (up * -1j + _SCALE)
    ratio = (up * 1j + _SCALE) * above
    w = horner(ratio, [complex(c) for c in _W]) * 2.0 * above * above + above / _SQRT_PI
    # Weideman's function is for the upper half; w(z) = 2 exp(-z²) - w(-z).
    lower = np.exp(-(z * z)) * 2.0 - w
    return ComplexArray(np.where(below, lower.real, w.real), np.where(below, lower.imag, w.imag))


def _voigt(t: Trace, x: Any, sigma: Any, gamma: Any) -> Array:
    scale = np.multiply(sigma, math.sqrt(2.0))
    re, im = t.array(np.divide(x, scale)), t.array(np.divide(gamma, scale))
    shape = np.broadcast_shapes(re.shape, im.shape)
    re, im = (p._view(np.broadcast_to(p._shadow, shape)).copy() for p in (re, im))
    return wofz(t, ComplexArray(re, im)).real / (scale * _SQRT_PI)


def _dawsn(t: Trace, x: Any) -> Array:
    a = t.array(x)
    return wofz(t, ComplexArray(a, t.numbers(np.zeros(a.shape)))).imag * (0.5 * _SQRT_PI)


# The gamma function's family: shifted by eight, where Stirling's series is exact.

_STIRLING = [-3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12]
_BERNOULLI = [3617 / 8160, -1 / 12, 691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12]


def _stirling(x: Any) -> Any:
    y = x + 8.0
    square = np.reciprocal(np.square(y))
    return (y - 0.5) * np.log(y) - y + 0.5 * math.log(2 * math.pi) + horner(square, _STIRLING) / y


def _rising(x: Any) -> Any:
    out: Any = x
    for k in range(1, 8):
        out = out * (x + float(k))
    return out


def _positive(t: Trace, x: Any) -> tuple[Any, Any]:
    """Where x < 1/2, and 1 - x there, else x."""
    low = np.less(x, 0.5)
    return low, select(t, low, np.subtract(1.0, x), x)


def _gammaln(t: Trace, x: Any) -> Array:
    low, y = _positive(t, x)
    found = _stirling(y) - np.log(_rising(y))
    sine = np.abs(np.sin(np.multiply(select(t, low, x, 0.5), math.pi)))
    return select(t, low, math.log(math.pi) - np.log(sine) - found, found)


def _gamma(t: Trace, x: Any) -> Array:
    low, y = _positive(t, x)
    found = np.exp(_stirling(y)) / _rising(y)
    return select(t, low, math.pi / (np.sin(np.multiply(select(t, low, x, 0.5), math.pi)) * found), found)


def _digamma(t: Trace, x: Any) -> Array:
    low, y = _positive(t, x)
    far = y + 8.0
    square = np.reciprocal(np.square(far))
    found = np.log(far) - 0.5 / far + horner(square, _BERNOULLI) * square
    for k in range(8):
        found = found - np.reciprocal(y + float(k))
    angle = np.multiply(select(t, low, x, 0.5), math.pi)
    return select(t, low, found - math.pi * np.cos(angle) / np.sin(angle), found)


def _betaln(t: Trace, a: Any, b: Any) -> Any:
    return _gl(t, a) + _gl(t, b) - _gl(t, np.add(a, b))


def _gl(t: Trace, x: Any) -> Any:
    return _gammaln(t, x) if contains_traced(x) else scipy.special.gammaln(x)


def _gf(t: Trace, x: Any) -> Any:
    return _gamma(t, x) if contains_traced(x) else scipy.special.gamma(x)


# Bessel functions of whole orders: the trapezoidal rule of their integrals, which is exact for
# |x| < 25, and Hankel's expansion beyond.

_POINTS, _FAR = 64, 25.0


def _order(n: Any) -> int:
    if contains_traced(n) or np.ndim(n) > 0 or float(n) != int(n):
        raise TracingError("a Bessel function of an order that is not a whole number cannot be traced")
    return int(n)


def _angles() -> tuple[np.ndarray, np.ndarray]:
    angle = np.linspace(0, math.pi, _POINTS // 2 + 1)
    weight = np.full(angle.size, 2.0 / _POINTS)
    weight[[0, -1]] *= 0.5
    return angle, weight


def _hankel(n: int, x: Any, sign: float) -> tuple[Any, Any]:
    """P and Q of Hankel's expansion; with sign +1 all terms of P are added: those of I."""
    terms = [1.0]
    for k in range(1, 13):
        terms.append(terms[-1] * (4.0 * n * n - (2 * k - 1) ** 2) / (k * 8.0))
    inverse = np.reciprocal(x)
    square = np.square(inverse) * sign
    return (horner(square, terms[::-2] if len(terms) % 2 else terms[-2::-2]),
            horner(square, terms[-2::-2] if len(terms) % 2 else terms[::-2]) * inverse)


def _integral(t: Trace, x: Any, of: Callable[[Any, np.ndarray], Any]) -> Any:
    angle, weight = _angles()
    return np.sum(of(t.array(x)[..., np.newaxis], angle) * weight, axis=-1)


def _bessel_j(t: Trace, order: Any, x: Any) -> Array:
    n = _order(order)
    far = np.greater(np.abs(x), _FAR)
    near = _integral(t, select(t, far, 0.0, x), lambda y, a: np.cos(n * a - y * np.sin(a)))
    large = select(t, far, np.abs(x), 2 * _FAR)
    p, q = _hankel(n, large, -1.0)
    angle = large - (0.5 * n + 0.25) * math.pi
    wave = np.sqrt(2.0 / (math.pi * large)) * (p * np.cos(angle) - q * np.sin(angle))
    return select(t, far, wave * np.sign(x) if n % 2 else wave, near)


def _bessel_i(t: Trace, order: Any, x: Any, scaled: bool = False) -> Array:
    n = _order(order)
    size = np.abs(x)
    far = np.greater(size, _FAR)
    close, large = select(t, far, 0.0, x), select(t, far, size, _FAR)
    near = _integral(t, close, lambda y, a: np.exp(y * np.cos(a) - np.abs(y)) * np.cos(n * a))
    p, q = _hankel(n, large, 1.0)
    beyond = (p - q) / np.sqrt(2 * math.pi * large)
    found = select(t, far, beyond * np.sign(x) if n % 2 else beyond, near)
    return found if scaled else found * np.exp(size)


def _bessel_k(t: Trace, order: Any, x: Any, scaled: bool = False) -> Array:
    """∫ exp(-x (cosh u - 1)) cosh(n u) du, whose trapezoidal sums converge like exp(-1/h)."""
    if contains_traced(order) or np.ndim(order) > 0:
        raise TracingError("a Bessel function of an order that depends on unknowns cannot be traced")
    n = float(order)
    u = np.arange(0, 120) / 12.0
    weight = np.where(u == 0, 0.5, 1.0) / 12.0
    y = t.array(x)[..., np.newaxis]
    found = np.sum(np.exp(-y * (np.cosh(u) - 1.0)) * (weight * np.cosh(n * u)), axis=-1)
    return found if scaled else found * np.exp(-t.array(x))


def _neumann() -> tuple[np.ndarray, np.ndarray]:
    """Angles, and what Neumann's series of Y0, -4/pi sum (-1)^k J_2k / k, has there as an integral."""
    angle = np.linspace(0, math.pi, 65)
    weight = np.full(angle.size, 1.0 / 64)
    weight[[0, -1]] *= 0.5
    k = np.arange(1, 31)
    return angle, (-4 / math.pi) * weight * np.sum((-1.0) ** k / k * np.cos(2 * k * angle[:, np.newaxis]), axis=1)


def _bessel_y(t: Trace, order: Any, x: Any) -> Array:
    """Y0 and its derivative -Y1 by Neumann's series, Hankel's expansion beyond, and the recurrence."""
    n = _order(order)
    if n < 0:
        return _bessel_y(t, -n, x) * (-1.0) ** n
    far = np.greater(x, _FAR)
    near, large = select(t, far, 1.0, x), select(t, far, x, 2 * _FAR)
    angle, weight = _neumann()
    y, sine = t.array(near)[..., np.newaxis], np.sin(angle)
    log = (np.log(near) + (np.euler_gamma - math.log(2.0))) * (2 / math.pi)
    j0, j1 = _bessel_j(t, 0, near), _bessel_j(t, 1, near)
    series = (log * j0 + np.sum(np.cos(y * sine) * weight, axis=-1),
              log * j1 + np.sum(np.sin(y * sine) * (sine * weight), axis=-1) - j0 * (2 / math.pi) / near)
    found = []
    for m in (0, 1):
        p, q = _hankel(m, large, -1.0)
        phase = large - (0.5 * m + 0.25) * math.pi
        wave = np.sqrt(2.0 / (math.pi * large)) * (p * np.sin(phase) + q * np.cos(phase))
        found.append(select(t, far, wave, series[m]))
    for m in range(1, n):
        found.append(found[m] * (2.0 * m) / x - found[m - 1])
    return found[n]


# Exponential integrals and the incomplete gamma function: series near 0, continued fractions beyond.


def _exp1(t: Trace, x: Any) -> Array:
    far = np.greater(x, 2.0)
    near, large = select(t, far, 1.0, x), select(t, far, x, 3.0)
    terms = [-((-1.0) ** k) / (k * math.factorial(k)) for k in range(30, 0, -1)]
    series = horner(near, terms) * near - np.euler_gamma - np.log(near)
    fraction: Any = large + 121.0
    for k in range(60, 0, -1):
        fraction = large + (2.0 * k - 1.0) - k * k / fraction
    return select(t, far, np.exp(-large) / fraction, series)


def _expi(t: Trace, x: Any) -> Array:
    negative = np.less(x, 0.0)
    above = select(t, negative, 1.0, x)
    series = horner(above, [1.0 / (k * math.factorial(k)) for k in range(80, 0, -1)]) * above
    return select(t, negative, -_exp1(t, select(t, negative, np.negative(x), 1.0)),
                  np.euler_gamma + np.log(above) + series)


def _gammainc(t: Trace, a: Any, x: Any) -> tuple[Array, Any, Any]:
    """Where x < a + 1, and there the lower integral's share, elsewhere the upper one's."""
    a = np.asarray(a, dtype=float) if not contains_traced(a) else a
    low = np.less(x, np.add(a, 1.0))
    near, large = select(t, low, x, 1.0), select(t, low, np.add(a, 2.0), x)
    series: Any = 1.0
    for k in range(80, 0, -1):
        series = 1.0 + near / np.add(a, float(k)) * series
    fraction: Any = large + (121.0 - a)
    for k in range(60, 0, -1):
        fraction = large + (2.0 * k - 1.0 - a) - k * (k - a) / fraction
    zero = np.less_equal(near, 0.0)
    inside = select(t, zero, 1.0, near)
    lower = series * np.exp(a * np.log(inside) - inside - _gl(t, np.add(a, 1.0)))
    return low, select(t, zero, 0.0, lower), np.exp(a * np.log(large) - large - _gl(t, a)) / fraction


def _lower_gamma(t: Trace, a: Any, x: Any) -> Array:
    low, below, above = _gammainc(t, a, x)
    return select(t, low, below, 1.0 - above)


def _upper_gamma(t: Trace, a: Any, x: Any) -> Array:
    low, below, above = _gammainc(t, a, x)
    return select(t, low, 1.0 - below, above)


def _expn(t: Trace, n: Any, x: Any) -> Array:
    if contains_traced(n) or np.ndim(n) > 0 or int(n) != n or n < 1:
        raise TracingError("scipy.special.expn of an order that is not 1, 2, ... cannot be traced")
    found = _exp1(t, x)
    for k in range(1, int(n)):
        found = (np.exp(np.negative(x)) - x * found) / float(k)
    return found


# Orthogonal polynomials of whole degrees.


def _recurrence(first: Callable[[Any], Any], step: Callable[[int, Any, Any, Any], Any]) -> Callable:
    def evaluate(t: Trace, n: Any, x: Any) -> Any:
        if contains_traced(n) or np.ndim(n) > 0 or int(n) != n or n < 0:
            raise TracingError("a polynomial of a degree that is not a whole number cannot be traced")
        before: Any = np.multiply(x, 0.0) + 1.0
        now: Any = first(x)
        for k in range(1, int(n)):
            before, now = now, step(k, x, now, before)
        return before if n == 0 else now

    return evaluate


def _genlaguerre(t: Trace, n: Any, alpha: Any, x: Any) -> Any:
    return _recurrence(lambda y: 1.0 + alpha - y, lambda k, y, p, q: (
        (2 * k + 1 + alpha - y) * p - (k + alpha) * q) / float(k + 1))(t, n, x)


def _ellipk(t: Trace, m: Any) -> Any:
    a: Any = 1.0
    b = np.sqrt(np.subtract(1.0, m))
    for _ in range(6):
        a, b = 0.5 * (a + b), np.sqrt(a * b)
    return 0.5 * math.pi / a


def _ellipe(t: Trace, m: Any) -> Any:
    a: Any = 1.0
    b = np.sqrt(np.subtract(1.0, m))
    total: Any = np.multiply(m, 0.5)
    for k in range(6):
        total = total + 2.0**k * np.square(0.5 * (a - b))
        a, b = 0.5 * (a + b), np.sqrt(a * b)
    return (1.0 - total) * 0.5 * math.pi / a


def _exprel(t: Trace, x: Any) -> Array:
    small = np.less(np.abs(x), 1e-5)
    other = select(t, small, 1.0, x)
    return select(t, small, 1.0 + np.multiply(x, 0.5) + np.square(x) / 6.0, np.expm1(other) / other)


def _entr(t: Trace, x: Any) -> Array:
    positive = np.greater(x, 0.0)
    y = select(t, positive, x, 1.0)
    return select(t, positive, -y * np.log(y), select(t, np.equal(x, 0.0), 0.0, -math.inf))


def _huber(t: Trace, delta: Any, r: Any) -> Array:
    size = np.abs(r)
    return select(t, np.less_equal(size, delta), 0.5 * np.square(r),
                  np.multiply(delta, size - np.multiply(delta, 0.5)))


def _boxcox(t: Trace, log: Any, power: Any) -> Array:
    """(x^power - 1) / power, from log x."""
    zero = np.equal(power, 0.0)
    y = select(t, zero, 1.0, power)
    return select(t, zero, log, np.expm1(y * log) / y)


def _log_of_boxcox(t: Trace, y: Any, power: Any) -> Array:
    zero = np.equal(power, 0.0)
    by = select(t, zero, 1.0, power)
    return select(t, zero, y, np.log1p(y * by) / by)


def _log_sigmoid(t: Trace, x: Any) -> Array:
    return -t.apply("softplus", np.negative(x))


COMPOSITES.update({
    "erfc": _erfc, "erfcx": _erfcx, "dawsn": _dawsn, "voigt_profile": _voigt, "log_ndtr": _log_ndtr,
    "ndtri": _ndtri,
    "erfi": lambda t, x: np.exp(np.square(x)) * _dawsn(t, x) * (2.0 / _SQRT_PI),
    "erfinv": lambda t, y: _ndtri(t, 0.5 * np.add(y, 1.0)) * math.sqrt(0.5),
    "erfcinv": lambda t, y: _ndtri(t, np.multiply(y, 0.5)) * -math.sqrt(0.5),
    "gamma": _gamma, "gammaln": _gammaln, "loggamma": _gammaln, "psi": _digamma, "betaln": _betaln,
    "rgamma": lambda t, x: 1.0 / _gamma(t, x),
    "beta": lambda t, a, b: np.exp(_betaln(t, a, b)),
    "binom": lambda t, n, k: _gf(t, np.add(n, 1.0)) / (
        _gf(t, np.add(k, 1.0)) * _gf(t, np.add(np.subtract(n, k), 1.0))),
    "poch": lambda t, z, m: np.exp(_gl(t, np.add(z, m)) - _gl(t, z)),
    "j0": lambda t, x: _bessel_j(t, 0, x), "j1": lambda t, x: _bessel_j(t, 1, x),
    "y0": lambda t, x: _bessel_y(t, 0, x), "y1": lambda t, x: _bessel_y(t, 1, x), "yn": _bessel_y,
    "yv": _bessel_y, "jv": _bessel_j, "jn": _bessel_j, "i0": lambda t, x: _bessel_i(t, 0, x),
    "i1": lambda t, x: _bessel_i(t, 1, x), "iv": _bessel_i,
    "i0e": lambda t, x: _bessel_i(t, 0, x, True), "i1e": lambda t, x: _bessel_i(t, 1, x, True),
    "ive": lambda t, n, x: _bessel_i(t, n, x, True),
    "k0": lambda t, x: _bessel_k(t, 0, x), "k1": lambda t, x: _bessel_k(t, 1, x), "kv": _bessel_k,
    "kn": _bessel_k, "k0e": lambda t, x: _bessel_k(t, 0, x, True),
    "k1e": lambda t, x: _bessel_k(t, 1, x, True), "kve": lambda t, n, x: _bessel_k(t, n, x, True),
    "logit": lambda t, x: np.log(x) - np.log1p(np.negative(x)), "log_expit": _log_sigmoid,
    "xlog1py": lambda t, x, y: select(t, np.equal(x, 0.0), 0.0, x * np.log1p(y)),
    "exprel": _exprel, "cosm1": lambda t, x: -2.0 * np.square(np.sin(np.multiply(x, 0.5))),
    "exp10": lambda t, x: np.exp(np.multiply(x, math.log(10.0))),
    "sindg": lambda t, x: np.sin(np.multiply(x, math.pi / 180)),
    "cosdg": lambda t, x: np.cos(np.multiply(x, math.pi / 180)),
    "tandg": lambda t, x: np.tan(np.multiply(x, math.pi / 180)),
    "radian": lambda t, d, m, s: (d + np.divide(m, 60.0) + np.divide(s, 3600.0)) * (math.pi / 180),
    "entr": _entr, "rel_entr": lambda t, x, y: x * np.log(np.divide(x, y)),
    "kl_div": lambda t, x, y: x * np.log(np.divide(x, y)) - x + y, "huber": _huber,
    "pseudo_huber": lambda t, d, r: np.square(d) * (np.sqrt(1.0 + np.square(np.divide(r, d))) - 1.0),
    "boxcox": lambda t, x, p: _boxcox(t, np.log(x), p),
    "boxcox1p": lambda t, x, p: _boxcox(t, np.log1p(x), p),
    "inv_boxcox": lambda t, y, p: np.exp(_log_of_boxcox(t, y, p)),
    "inv_boxcox1p": lambda t, y, p: np.expm1(_log_of_boxcox(t, y, p)),
    "exp1": _exp1, "expn": _expn, "expi": _expi, "gammainc": _lower_gamma, "gammaincc": _upper_gamma,
    "eval_genlaguerre": _genlaguerre,
    "ellipk": _ellipk, "ellipe": _ellipe, "ellipkm1": lambda t, p: _ellipk(t, np.subtract(1.0, p)),
    "eval_legendre": _recurrence(
        lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / float(k + 1)),
    "eval_chebyt": _recurrence(lambda x: x, lambda k, x, p, q: 2.0 * x * p - q),
    "eval_chebyu": _recurrence(lambda x: 2.0 * x, lambda k, x, p, q: 2.0 * x * p - q),
    "eval_hermite": _recurrence(lambda x: 2.0 * x, lambda k, x, p, q: 2.0 * (x * p - k * q)),
    "eval_hermitenorm": _recurrence(lambda x: x, lambda k, x, p, q: x * p - float(k) * q),
    "eval_laguerre": _recurrence(
        lambda x: 1.0 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / float(k + 1)),
})  # fmt: skip

COMPLEX_UFUNCS["wofz"] = wofz


@implements(scipy.special.logsumexp)
def _logsumexp(trace: Trace, a: Any, axis: Any = None, b: Any = None, keepdims: bool = False,
               return_sign: bool = False) -> Any:
    if return_sign:
        raise TracingError("scipy.special.logsumexp with a sign cannot be traced")
    array = trace.array(a)
    largest = reduce(trace, "max", array, axis, True)
    shares = np.exp(array - largest) if b is None else np.exp(array - largest) * b
    return np.log(reduce(trace, "add", trace.array(shares), axis, keepdims)) + (
        largest if keepdims else reduce(trace, "max", array, axis))


@implements(scipy.special.softmax)
def _softmax(trace: Trace, x: Any, axis: Any = None) -> Any:
    array = trace.array(x)
    shares = np.exp(array - reduce(trace, "max", array, axis, True))
    return shares / reduce(trace, "add", shares, axis, True)


@implements(scipy.special.log_softmax)
def _log_softmax(trace: Trace, x: Any, axis: Any = None) -> Any:
    array = trace.array(x)
    return array - _logsumexp(trace, array, axis, keepdims=True)


@implements(scipy.special.spherical_jn)
def _spherical(trace: Trace, n: int, z: Any, derivative: bool = False) -> Any:
    if derivative or n not in (0, 1):
        raise TracingError("scipy.special.spherical_jn of orders above 1 cannot be traced")
    x = trace.array(z)
    small = np.less(np.abs(x), 1e-2)
    y, square = select(trace, small, 1.0, x), np.square(x)
    if n == 0:
        series = 1.0 - square / 6.0 * (1.0 - square / 20.0 * (1.0 - square / 42.0))
        return select(trace, small, series, np.sin(y) / y)
    series = x / 3.0 * (1.0 - square / 10.0 * (1.0 - square / 28.0 * (1.0 - square / 54.0)))
    return select(trace, small, series, (np.sin(y) / y - np.cos(y)) / y)


@implements(scipy.special.lambertw)
def _lambertw(trace: Trace, z: Any, k: int = 0, tol: float = 1e-8) -> ComplexArray:
    """The principal branch at positive numbers."""
    if k != 0:
        raise TracingError("scipy.special.lambertw of other branches cannot be traced")
    x = trace.array(z)
    w: Any = np.log1p(x)
    w = w * (1.0 - np.log1p(w) / (2.0 + w))
    for _ in range(5):
        exp = np.exp(w)
        off = w * exp - x
        w = w - off / (exp * (w + 1.0) - (w + 2.0) * off / (2.0 * w + 2.0))
    return as_complex(trace, w)


@implements(np.i0)
def _numpys_i0(trace: Trace, x: Any) -> Array:
    return _bessel_i(trace, 0, x)
