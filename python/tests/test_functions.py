"""Functions of NumPy and SciPy on traced values: their numbers, and derivatives by differences."""

import cmath
import os
import unittest
import warnings

import numpy as np
from scipy import (
    fft, integrate, interpolate, linalg, ndimage, optimize, signal, sparse, spatial, special, stats,
)
from scipy.sparse import linalg as _  # noqa: F401  # which sparse.linalg needs
from scipy.spatial.transform import Rotation

import topograd
from test_tracing import jacobian, model_of, trapezoid
from topograd import TracingError, _core
from topograd._least_squares import trace_function

NUMBERS = np.random.default_rng(1).uniform(0.5, 2, (4, 3))
TIMES = np.linspace(0, 3, 20)
TURN = Rotation.from_euler("xyz", [0.3, -0.2, 0.5])
SPARSE = sparse.random(4, 12, 0.4, "csr", random_state=3)
FILLED = interpolate.interp1d(TIMES, np.sin(TIMES), bounds_error=False, fill_value=0.0)
NORMAL = stats.norm(0.5, 2.0)
SPLINE = interpolate.CubicSpline(TIMES, np.sin(TIMES))
PERIODIC = interpolate.CubicSpline(TIMES, np.sin(2 * np.pi * TIMES / 3), bc_type="periodic")
PLACES = np.array([0.0, 0.4, 0.9, 1.1, 1.7, 2.2, 2.6])
TABLE = np.sin(np.outer(PLACES, PLACES + 1))
LINEAR = interpolate.RegularGridInterpolator((PLACES, PLACES), TABLE)
NEAREST = interpolate.RegularGridInterpolator((PLACES, PLACES), TABLE, method="nearest")
FILLED_TABLE = interpolate.RegularGridInterpolator((PLACES, PLACES), TABLE, bounds_error=False, fill_value=-1.5)
SURFACE = interpolate.RectBivariateSpline(PLACES, PLACES, TABLE)


def set_chosen(x):
    out = x * 2
    out[x[:6] > 1] = 0
    return out


def m43(x):
    return x.reshape(4, 3)


def m33(x):
    return x[:9].reshape(3, 3)


def definite(x):
    return m33(x) @ m33(x).T + 3 * np.eye(3)


def definite5(x):
    return np.outer(x[:5], x[:5]) + 3 * np.eye(5)


def solves_after_determinant(a, b):
    return np.linalg.det(a) * np.linalg.solve(a, np.linalg.solve(a, b))


def as_complex(x):
    return x[:6] + 1j * x[6:]


def added_at(x):
    f = np.zeros(3)
    np.add.at(f, [0, 1, 1, 2], x[:4])
    return f


def oscillator(x):
    y = np.array([x[0], x[1]])
    for _ in range(5):
        y = y + 0.1 * np.array([y[1], -y[0] * x[2]])
    return y


def guarded(x):
    y = x * np.log(x)
    if np.isnan(x).any() or not np.all(np.isfinite(y)) or np.any(np.isinf(y) | np.isnan(y)):
        return np.full(12, 1e10)
    return y


# Functions of twelve unknowns between 0.5 and 1.5.
FUNCTIONS = {
    "sinc": lambda x: np.sinc(x),
    "sinc0": lambda x: np.sinc(x - x[0]),
    "unwrap": lambda x: np.unwrap(x * 9),
    "cumprod": lambda x: np.cumprod(x),
    "cumsum2": lambda x: np.cumsum(m43(x), axis=1),
    "x.cumprod": lambda x: x.cumprod(),
    "median": lambda x: np.median(x),
    "median ax": lambda x: np.median(m43(x), axis=0),
    "sort": lambda x: np.sort(x),
    "sort2": lambda x: np.sort(m43(x), axis=0),
    "x.sort": lambda x: (lambda y: (y.sort(), y)[1])(x.copy()),
    "diff prepend": lambda x: np.diff(x, prepend=0),
    "diff append": lambda x: np.diff(x, append=x[0]),
    "pad": lambda x: np.pad(x, 2),
    "pad edge": lambda x: np.pad(x, (1, 2), mode="edge"),
    "pad wrap": lambda x: np.pad(m43(x), 1, mode="wrap"),
    "pad reflect": lambda x: np.pad(m43(x), ((1, 1), (0, 0)), mode="reflect"),
    "pad const": lambda x: np.pad(x, 1, constant_values=2.0),
    "block": lambda x: np.block([[m43(x), m43(x)], [NUMBERS, NUMBERS]]),
    "kron": lambda x: np.kron(m43(x), NUMBERS),
    "kron1": lambda x: np.kron(x, x[:2]),
    "clip min": lambda x: np.clip(x, 1.0, None),
    "clip kw": lambda x: np.clip(x, a_min=0.8, a_max=1.2),
    "x.clip min": lambda x: x.clip(min=1.0),
    "x.clip max": lambda x: x.clip(max=1.0),
    "nansum": lambda x: np.nansum(x),
    "nanmean": lambda x: np.nanmean(x),
    "nanmax": lambda x: np.nanmax(x),
    "nanmin": lambda x: np.nanmin(x),
    "nanstd": lambda x: np.nanstd(x),
    "nanvar": lambda x: np.nanvar(x),
    "nanprod": lambda x: np.nanprod(x),
    "ptp": lambda x: np.ptp(x),
    "x.ptp": lambda x: x.ptp() if np.__version__ < "2" else np.ptp(x),
    "ptp ax": lambda x: np.ptp(m43(x), axis=1),
    "slogdet": lambda x: np.linalg.slogdet(definite(x))[1],
    "cholesky": lambda x: np.linalg.cholesky(definite(x)),
    "chol5": lambda x: np.linalg.cholesky(definite5(x)),
    "solve3": lambda x: np.linalg.solve(definite(x), x[:3]),
    "solve5": lambda x: np.linalg.solve(definite5(x), x[:5]),
    "solve5 again": lambda x: [np.linalg.solve(definite5(x)[::-1], x[:5] * k) for k in (1.0, 2.0, 3.0)],
    "solve5 after det": lambda x: solves_after_determinant(definite5(x)[[2, 0, 1, 4, 3]], x[:5]),
    "solve5m": lambda x: np.linalg.solve(definite5(x), np.outer(x[:5], [1.0, 2])),
    "solve of each size": lambda x: np.concatenate([
        np.linalg.solve(definite5(x)[:n, :n].T, np.outer(x[:n], [1.0, 2])).ravel() for n in (1, 2, 3, 4, 5)]),
    "inv of each size": lambda x: np.concatenate([
        np.linalg.inv(definite5(x)[n:, n:] + np.triu(np.ones((5 - n, 5 - n)), 1)).ravel() for n in (1, 2, 3, 4)]),
    "det of each size": lambda x: np.array([
        np.linalg.det(definite5(x)[n:, n:] + np.triu(np.ones((5 - n, 5 - n)), 1)) for n in (1, 2, 3, 4)]),
    "inv of several": lambda x: np.linalg.inv(np.stack([definite5(x)[:2, :2], definite5(x)[2:4, 2:4]])),
    "inv5": lambda x: np.linalg.inv(definite5(x)),
    "det5": lambda x: np.linalg.det(definite5(x)),
    "pinv": lambda x: np.linalg.pinv(m43(x)),
    "lstsq": lambda x: np.linalg.lstsq(m43(x), NUMBERS[:, 0], rcond=None)[0],
    "matrix_power": lambda x: np.linalg.matrix_power(m33(x), 3),
    "matrix_power-": lambda x: np.linalg.matrix_power(definite(x), -2),
    "multi_dot": lambda x: np.linalg.multi_dot([m43(x).T, NUMBERS, m33(x)]),
    "sl.solve": lambda x: linalg.solve(definite(x), x[:3]),
    "sl.inv": lambda x: linalg.inv(definite(x)),
    "sl.det": lambda x: linalg.det(definite(x)),
    "sl.norm": lambda x: linalg.norm(x),
    "sl.cholesky": lambda x: linalg.cholesky(definite(x), lower=True),
    "sl.cholesky u": lambda x: linalg.cholesky(definite(x)),
    "sl.expm": lambda x: linalg.expm(m33(x) * 0.3),
    "cho_solve": lambda x: linalg.cho_solve(linalg.cho_factor(definite(x)), x[:3]),
    "solve_tri": lambda x: linalg.solve_triangular(definite(x), x[:3], lower=True),
    "block_diag": lambda x: linalg.block_diag(m33(x), x[:3]),
    "toeplitz": lambda x: linalg.toeplitz(x[:4]),
    "circulant": lambda x: linalg.circulant(x[:4]),
    "fft": lambda x: np.abs(np.fft.fft(x)),
    "rfft": lambda x: np.abs(np.fft.rfft(x)),
    "ifft": lambda x: np.real(np.fft.ifft(np.fft.fft(x) * np.exp(-x * 1j))),
    "irfft": lambda x: np.fft.irfft(np.fft.rfft(x) * 2),
    "fft2": lambda x: np.abs(np.fft.fft2(m43(x))),
    "fftshift": lambda x: np.fft.fftshift(x),
    "ifftshift": lambda x: np.fft.ifftshift(x),
    "ctanh": lambda x: np.abs(np.tanh(as_complex(x))),
    "ctan": lambda x: np.abs(np.tan(as_complex(x))),
    "clog10": lambda x: np.abs(np.log10(as_complex(x))),
    "carctan": lambda x: np.abs(np.arctan(as_complex(x))),
    "cexpm1": lambda x: np.abs(np.expm1(as_complex(x))),
    "clog1p": lambda x: np.abs(np.log1p(as_complex(x))),
    "csign": lambda x: np.abs(as_complex(x)) ** 2,
    "cconj mul": lambda x: (as_complex(x) * np.conj(as_complex(x))).real,
    "cangle": lambda x: np.angle(as_complex(x)),
    "cabs2": lambda x: np.abs(1 / (1 + as_complex(x))),
    "c iter": lambda x: np.array([abs(z) for z in as_complex(x)]),
    "c prod": lambda x: np.abs(np.prod(as_complex(x))),
    "c einsum": lambda x: np.abs(np.einsum("i,i->", as_complex(x), as_complex(x))),
    "c outer": lambda x: np.abs(np.outer(as_complex(x), as_complex(x))),
    "c power": lambda x: np.abs(as_complex(x) ** x[:6]),
    "c **": lambda x: np.abs(1j ** x),
    "c dot": lambda x: np.abs(as_complex(x).dot(as_complex(x))),
    "c vdot": lambda x: np.abs(np.vdot(as_complex(x), as_complex(x))),
    "c ravel": lambda x: np.concatenate([as_complex(x).real, as_complex(x).imag]),
    "c T": lambda x: np.abs(np.stack([as_complex(x), as_complex(x)]).T.conj()),
    "add.at": added_at,
    "bincount": lambda x: np.bincount([0, 1, 1, 2], weights=x[:4]),
    "erf": lambda x: special.erf(x),
    "erfc": lambda x: special.erfc(x),
    "erfcx": lambda x: special.erfcx(x),
    "erfcx big": lambda x: special.erfcx(20 * x),
    "erfinv": lambda x: special.erfinv(x / 3),
    "erfi": lambda x: special.erfi(x),
    "dawsn": lambda x: special.dawsn(x),
    "gamma": lambda x: special.gamma(x),
    "gammaln": lambda x: special.gammaln(x),
    "loggamma": lambda x: special.loggamma(x),
    "digamma": lambda x: special.digamma(x),
    "psi": lambda x: special.psi(x),
    "j0": lambda x: special.j0(x),
    "j1": lambda x: special.j1(x),
    "jn": lambda x: special.jn(2, x),
    "jv": lambda x: special.jv(3, x),
    "j0 big": lambda x: special.j0(10 * x),
    "y0": lambda x: special.y0(x),
    "y1": lambda x: special.y1(x),
    "yn": lambda x: special.yn(3, x),
    "y0 big": lambda x: special.y0(20 * x),
    "i0": lambda x: special.i0(x),
    "i1": lambda x: special.i1(x),
    "k0": lambda x: special.k0(x),
    "voigt": lambda x: special.voigt_profile(x, 0.5, 0.3),
    "voigt p": lambda x: special.voigt_profile(TIMES - 1, x[0], x[1]),
    "wofz": lambda x: np.real(special.wofz(x + 0.5j)),
    "wofz c": lambda x: special.wofz(as_complex(x)).real,
    "expit": lambda x: special.expit(x),
    "logit": lambda x: special.logit(x / 3),
    "log_expit": lambda x: special.log_expit(x),
    "softmax": lambda x: special.softmax(x),
    "log_softmax": lambda x: special.log_softmax(x),
    "logsumexp": lambda x: special.logsumexp(x),
    "logsumexp ax": lambda x: special.logsumexp(m43(x), axis=1),
    "xlogy": lambda x: special.xlogy(x, x),
    "xlog1py": lambda x: special.xlog1py(x, x),
    "exprel": lambda x: special.exprel(x),
    "expm1": lambda x: special.expm1(x),
    "log1p": lambda x: special.log1p(x),
    "cosm1": lambda x: special.cosm1(x),
    "cbrt": lambda x: special.cbrt(x),
    "exp10": lambda x: special.exp10(x),
    "exp2": lambda x: special.exp2(x),
    "sindg": lambda x: special.sindg(x),
    "cosdg": lambda x: special.cosdg(x),
    "radian": lambda x: np.radians(x),
    "ndtr": lambda x: special.ndtr(x),
    "log_ndtr": lambda x: special.log_ndtr(x),
    "ndtri": lambda x: special.ndtri(x / 3),
    "beta": lambda x: special.beta(x, 2.0),
    "betaln": lambda x: special.betaln(x, x[::-1]),
    "spherical_jn": lambda x: special.spherical_jn(1, x),
    "eval_legendre": lambda x: special.eval_legendre(3, x),
    "eval_chebyt": lambda x: special.eval_chebyt(3, x / 3),
    "eval_hermite": lambda x: special.eval_hermite(3, x),
    "lambertw": lambda x: special.lambertw(x).real,
    "huber": lambda x: special.huber(1.0, x),
    "rel_entr": lambda x: special.rel_entr(x, 2.0),
    "entr": lambda x: special.entr(x),
    "comb": lambda x: special.binom(x, 2),
    "ellipk": lambda x: special.ellipk(x / 3),
    "R.rotvec apply": lambda x: Rotation.from_rotvec(x[:3]).apply(NUMBERS),
    "R.matrix": lambda x: Rotation.from_rotvec(x[:3]).as_matrix(),
    "R.euler": lambda x: Rotation.from_euler("xyz", x[:3]).as_matrix(),
    "R.euler deg": lambda x: Rotation.from_euler("ZYX", x[:3], degrees=True).as_matrix(),
    "R.euler1": lambda x: Rotation.from_euler("z", x[0]).apply(NUMBERS),
    "R.quat": lambda x: Rotation.from_quat(x[:4]).as_matrix(),
    "R mul": lambda x: (Rotation.from_rotvec(x[:3]) * Rotation.from_rotvec(x[3:6])).as_matrix(),
    "R inv": lambda x: Rotation.from_rotvec(x[:3]).inv().apply(NUMBERS),
    "R as_rotvec": lambda x: Rotation.from_rotvec(x[:3]).as_rotvec(),
    "R stack": lambda x: Rotation.from_rotvec(m43(x)).apply(NUMBERS),
    "R as_quat": lambda x: Rotation.from_rotvec(x[:3]).as_quat(),
    "R mul data": lambda x: (Rotation.from_euler("z", 0.3) * Rotation.from_rotvec(x[:3])).as_matrix(),
    "R data apply": lambda x: Rotation.from_euler("z", 0.3).apply(m43(x)),
    "R as_euler": lambda x: Rotation.from_rotvec(x[:3] * 0.3).as_euler("xyz"),
    "R from_matrix": lambda x: Rotation.from_matrix(Rotation.from_rotvec(x[:3]).as_matrix()).as_rotvec(),
    "R of a stack": lambda x: Rotation.from_rotvec(m43(x))[len(Rotation.from_rotvec(m43(x))) - 2].as_quat(),
    "R as_matrix inverse apply": lambda x: Rotation.from_rotvec(x[:3]).apply(NUMBERS, inverse=True),
    "R concatenate": lambda x: Rotation.concatenate([Rotation.from_rotvec(x[:3]), TURN]).apply(NUMBERS[0]),
    "R mag": lambda x: Rotation.from_rotvec(x[:3]).magnitude(),
    "CubicSpline": lambda x: interpolate.CubicSpline(TIMES, np.sin(TIMES))(x),
    "CubicSpline periodic": lambda x: PERIODIC(3 * x - 2),
    "CubicSpline of pairs": lambda x: interpolate.CubicSpline(TIMES, np.c_[np.sin(TIMES), np.cos(TIMES)])(x),
    "CubicSpline d": lambda x: interpolate.CubicSpline(TIMES, np.sin(TIMES))(x, 1),
    "interp1d": lambda x: interpolate.interp1d(TIMES, np.sin(TIMES))(x),
    "RegularGridInterpolator": lambda x: LINEAR(x.reshape(6, 2)),
    "RegularGridInterpolator, filled": lambda x: FILLED_TABLE((2 * x[:6], x[6:])),
    "interpn": lambda x: interpolate.interpn((PLACES, PLACES), TABLE, x.reshape(6, 2), bounds_error=False, fill_value=None),
    "RectBivariateSpline": lambda x: SURFACE.ev(x[:6], x[6:]),
    "RectBivariateSpline, clipped": lambda x: SURFACE(2 * x[:6], x[6:], grid=False),
    "RectBivariateSpline dx": lambda x: SURFACE.ev(x[:6], x[6:], 1, 0),
    "RectBivariateSpline grid": lambda x: interpolate.RectBivariateSpline(PLACES, PLACES, TABLE, kx=2, ky=1)(
        np.sort(x[:4]), np.sort(x[4:6])).ravel(),
    "interp1d cubic": lambda x: interpolate.interp1d(TIMES, np.sin(TIMES), kind="cubic")(x),
    "Pchip": lambda x: interpolate.PchipInterpolator(TIMES, np.sin(TIMES))(x),
    "Akima": lambda x: interpolate.Akima1DInterpolator(TIMES, np.sin(TIMES))(x),
    "BSpline": lambda x: interpolate.make_interp_spline(TIMES, np.sin(TIMES))(x),
    "splev": lambda x: interpolate.splev(x, interpolate.splrep(TIMES, np.sin(TIMES))),
    "splev of coefficients": lambda x: interpolate.splev(TIMES[1:-1], (np.r_[[0] * 3, np.linspace(0, 3, 10), [3] * 3], x, 3)),
    "splev padded": lambda x: interpolate.splev(TIMES, [np.arange(-3.0, 7), np.append(x[:6], np.zeros(4)), 3], 1),
    "cdist": lambda x: spatial.distance.cdist(m43(x), NUMBERS[:2] + 3),
    "cdist city": lambda x: spatial.distance.cdist(m43(x), NUMBERS[:2] + 3, "cityblock"),
    "pdist": lambda x: spatial.distance.pdist(m43(x), "sqeuclidean") + spatial.distance.pdist(m43(x)),
    "UniSpline": lambda x: interpolate.InterpolatedUnivariateSpline(TIMES, np.sin(TIMES))(x),
    "np.interp": lambda x: np.interp(x, TIMES, np.sin(TIMES)),
    "np.interp100": lambda x: np.interp(x, np.linspace(0, 3, 200), np.sin(np.linspace(0, 3, 200))),
    "CubicSpline y": lambda x: interpolate.CubicSpline(np.arange(12.0), x)(TIMES * 2),
    "interp1d y": lambda x: interpolate.interp1d(np.arange(12.0), x)(TIMES * 2),
    "interp1d y cubic": lambda x: interpolate.interp1d(np.arange(12.0), x, kind="cubic")(TIMES * 2),
    "simpson": lambda x: integrate.simpson(x),
    "trapezoid": lambda x: integrate.trapezoid(x),
    "cumtrapz": lambda x: integrate.cumulative_trapezoid(x),
    "cumtrapz x": lambda x: integrate.cumulative_trapezoid(x[:5], np.array([0.0, 1, 3, 4, 8]), initial=0),
    "cumtrapz axis": lambda x: integrate.cumulative_trapezoid(m43(x), dx=0.5, axis=0),
    "cumtrapz of unknowns": lambda x: integrate.cumulative_trapezoid(x[:4], x[4:8]),
    "euler loop": oscillator,
    "argmax use": lambda x: x - x[0],
    "shape assign": lambda x: x.reshape(-1, 3).sum(1),
    "nditer": lambda x: np.array([v for v in x.flat]),
    "chosen, sum": lambda x: np.sum(x[x > 1] ** 2) + np.mean(x[x > 1]) + np.add.reduce(x[x > 1].copy()),
    "chosen, extrema": lambda x: np.max(x[x < 1.2]) - x[x < 1.2].dtype.itemsize * np.min(np.abs(x[x < 1.2])),
    "enumerate": lambda x: np.array([i * v for i, v in enumerate(x)]),
    "ndenumerate": lambda x: np.array([v * i[0] for i, v in np.ndenumerate(x)]),
    "apply_along": lambda x: np.apply_along_axis(lambda r: r.sum() * r, 1, m43(x)),
    "apply_over": lambda x: np.apply_over_axes(np.sum, m43(x), [0]),
    "vectorize": lambda x: np.vectorize(lambda v: v * v)(x),
    "frompyfunc": lambda x: np.frompyfunc(lambda v: v * v, 1, 1)(x),
    "fromfunction": lambda x: np.fromfunction(lambda i: i * x[0], (3,)),
    "tril": lambda x: np.tril(m43(x)),
    "triu": lambda x: np.triu(m43(x)),
    "diagflat": lambda x: np.diagflat(x[:3]),
    "fill_diag": lambda x: (lambda A: (np.fill_diagonal(A, x[:3]), A)[1])(np.zeros((3, 3))),
    "put": lambda x: (lambda A: (np.put(A, [0, 2], x[:2]), A)[1])(np.zeros(5)),
    "copyto": lambda x: (lambda A: (np.copyto(A, x), A)[1])(np.zeros(12)),
    "putmask": lambda x: (lambda A: (np.putmask(A, A < 1, x), A)[1])(np.zeros(12)),
    "place": lambda x: np.insert(x, 2, x[0]),
    "insert arr": lambda x: np.insert(x, [1, 2], [3.0, 4.0]),
    "delete": lambda x: np.delete(x, 2),
    "ediff1d": lambda x: np.ediff1d(x),
    "extract": lambda x: np.extract(np.arange(12) > 4, x),
    "choose": lambda x: np.choose([0, 1, 0], [x[:3], x[3:6]]),
    "take": lambda x: np.take(x, [1, 2]),
    "logspace": lambda x: np.logspace(x[0], x[1], 5),
    "geomspace": lambda x: np.geomspace(x[0], x[1], 5),
    "arange": lambda x: np.arange(3) * x[0],
    "tri": lambda x: np.tri(3) * x[0],
    "poly": lambda x: np.polynomial.polynomial.polyval(TIMES, x[:3]),
    "Polynomial": lambda x: np.polynomial.Polynomial(x[:3])(TIMES),
    "chebval": lambda x: np.polynomial.chebyshev.chebval(TIMES / 3, x[:4]),
    "legval": lambda x: np.polynomial.legendre.legval(TIMES / 3, x[:4]),
    "hermval": lambda x: np.polynomial.hermite.hermval(TIMES / 3, x[:4]),
    "poly1d": lambda x: np.poly1d(x[:3])(TIMES),
    "polyder": lambda x: np.polyval(np.polyder(x[:4]), TIMES),
    "polyint": lambda x: np.polyval(np.polyint(x[:4]), TIMES),
    "polymul": lambda x: np.polymul(x[:3], x[3:6]),
    "polyadd": lambda x: np.polyadd(x[:3], x[3:5]),
    "polyfit": lambda x: np.polyfit(np.arange(12.0), x, 2),
    "roots": lambda x: np.sort(np.roots([1.0, -3 - x[0], 1.0])),
    "polyvander": lambda x: np.polynomial.polynomial.polyvander(x, 2),
    "convolve": lambda x: np.convolve(x, NUMBERS[0]),
    "correlate": lambda x: np.correlate(x, NUMBERS[0], "full"),
    "correlate v": lambda x: np.correlate(x, x[:4]),
    "corrcoef": lambda x: np.corrcoef(x[:6], x[6:])[0, 1],
    "cov": lambda x: np.cov(m43(x)),
    "average w": lambda x: np.average(x, weights=np.arange(1.0, 13)),
    "percentile": lambda x: np.percentile(x, 30),
    "quantile": lambda x: np.quantile(x, 0.4),
    "mean where": lambda x: np.mean(x, where=np.arange(12) % 2 == 0),
    "sum where": lambda x: np.sum(x, where=np.arange(12) % 2 == 0),
    "std where": lambda x: np.std(x, where=np.arange(12) % 2 == 0),
    "var where": lambda x: np.var(m43(x), axis=0, where=NUMBERS > 1),
    "max initial": lambda x: np.max(x, initial=1.2),
    "min where": lambda x: np.min(x, where=np.arange(12) < 4, initial=9.0),
    "prod where": lambda x: np.prod(x, where=np.arange(12) < 4),
    "argsort": lambda x: x[np.argsort(NUMBERS.ravel())],
    "trapz dx": lambda x: trapezoid(x, dx=0.5),
    "gradient 2": lambda x: np.gradient(x, edge_order=2),
    "interp per": lambda x: np.interp(TIMES, np.arange(12.0) / 4, x, period=3),
    "cross2": lambda x: np.cross(x[:3], x[3:6]),
    "norm mat": lambda x: np.linalg.norm(m43(x)),
    "norm 1 mat": lambda x: np.linalg.norm(m33(x), 1),
    "norm inf mat": lambda x: np.linalg.norm(m33(x), np.inf),
    "norm nuc": lambda x: np.linalg.norm(x, 3),
    "copysign -0": lambda x: np.copysign(x, -0.0),
    "copysign 0": lambda x: np.copysign(x, 0.0),
    "logaddexp": lambda x: np.logaddexp(x, -10000.0),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x),
    "add.reduceat": lambda x: np.add.reduceat(x, [0, 3, 7]),
    "maximum.acc": lambda x: np.maximum.accumulate(x),
    "mult.acc": lambda x: np.multiply.accumulate(x),
    "sub.outer": lambda x: np.subtract.outer(x, x),
    "add.reduce": lambda x: np.add.reduce(m43(x)),
    "modf": lambda x: np.modf(x)[0],
    "frexp": lambda x: np.ldexp(x, 2),
    "gcd": lambda x: np.fmod(x, 0.3),
    "float_power": lambda x: np.float_power(x, 2.0),
    "divmod": lambda x: np.divmod(x, 0.3)[1],
    "spacing": lambda x: np.positive(x),
    "i0 np": lambda x: np.i0(x),
    "fix": lambda x: np.fix(x),
    "around": lambda x: np.around(x, 1) + x,
    "real_if": lambda x: np.real_if_close(x),
    "isclose": lambda x: np.where(np.isclose(x, 1.0), x, 2 * x),
    "nan_to_num": lambda x: np.nan_to_num(x),
    "angle": lambda x: np.angle(x),
    "hypot.reduce": lambda x: np.hypot.reduce(x),
    "rot90": lambda x: np.rot90(m43(x)),
    "broadcast": lambda x: np.broadcast_arrays(x[:3], NUMBERS)[0],
    "atleast": lambda x: np.atleast_2d(x),
    "squeeze": lambda x: np.squeeze(x[None]),
    "mgrid": lambda x: np.mgrid[0:3] * x[0],
    "ix_": lambda x: m43(x)[np.ix_([0, 1], [0, 2])],
    "unravel": lambda x: np.ravel(m43(x), order="F"),
    "reshape F": lambda x: x.reshape(3, 4, order="F"),
    "flatten F": lambda x: m43(x).flatten("F"),
    "T assign": lambda x: m43(x).T.ravel(),
    "matvec": lambda x: NUMBERS @ x[:3],
    "x@x": lambda x: x @ x,
    "cumsum.method": lambda x: x.cumsum(),
    "x.dot": lambda x: x.dot(x),
    "x.all": lambda x: x * np.all(x > 0),
    "any": lambda x: np.where(np.any(m43(x) > 1.4, axis=1), 1.0, 2.0) * x[:4],
    "count_nonzero": lambda x: x * np.count_nonzero(x > 1),
    "x.astype": lambda x: x.astype(np.float64),
    "full": lambda x: np.full((2, 2), x[0]),
    "full_like": lambda x: np.full_like(NUMBERS, x[0]),
    "ones*x": lambda x: np.ones(4) * x[0],
    "empty fill": lambda x: (lambda A: (A.fill(x[0]), A)[1])(np.empty(3)),
    "stack loop": lambda x: np.stack([x[i] * TIMES for i in range(3)]),
    "array nested": lambda x: np.array([[x[0], 1], [2, x[1]]]),
    "array of arr": lambda x: np.array([x[0] * TIMES, x[1] * TIMES]),
    "np.float64": lambda x: np.float64(x[0]) * x,
    "float": lambda x: float(x[0]) * x,
    "sum builtin": lambda x: sum(x),
    "max builtin": lambda x: max(x) * 1.0,
    "sorted": lambda x: np.array(sorted(x)),
    "round": lambda x: round(x[0], 2) + x,
    "abs": lambda x: abs(x - 1),
    "pow": lambda x: pow(x, 2),
    "divmod b": lambda x: divmod(x[0], 0.3)[1] * x,
    "list comp": lambda x: [v ** 2 for v in x],
    "dict": lambda x: np.array(list({"a": x[0], "b": x[1]}.values())),
    "tolist": lambda x: np.array(x.tolist()),
    "item": lambda x: x[0].item() * x,
    "np.isscalar": lambda x: x * (1 if np.isscalar(x[0]) else 1),
    "select": lambda x: np.select([x < 0.8, x > 1.2], [x, x * 2], default=0.0),
    "digitize": lambda x: np.searchsorted([0.5, 1.0], 0.7) * x,
    "take_along": lambda x: np.take_along_axis(m43(x), np.argsort(NUMBERS, axis=1), 1),
    "partition": lambda x: np.partition(x, 3)[3],
    "x.std": lambda x: x.std(ddof=1),
    "x.mean ax": lambda x: m43(x).mean(1),
    "heaviside": lambda x: np.heaviside(x - 1, 0.5) * x,
    "sign": lambda x: np.sign(x - 1) * x,
    "trunc": lambda x: np.trunc(x * 3) + x,
    "gaussian_filter": lambda x: ndimage.gaussian_filter(m43(x), 0.8),
    "savgol_filter": lambda x: signal.savgol_filter(x, 5, 2),
    "lfilter": lambda x: signal.lfilter([1.0, 0.5], [1, -0.4], x),
    "lfilter integrates": lambda x: signal.lfilter([1.0], [1, -1.0], np.tanh(x)),
    "lfilter of zeros": lambda x: signal.lfilter([0.0, 0.0], [2.0], x) + x,
    "lfilter delays": lambda x: signal.lfilter([0.0, 0.0, 3.0], 2.0, x),
    "lfilter of rows": lambda x: signal.lfilter([1.0, 0.5], [1, -0.4], m43(x)),
    "lfilter by unknowns": lambda x: signal.lfilter([x[0], 0.3], [1 + x[1] ** 2, x[2], 0.1], NUMBERS[0]),
    "lfilter by unknowns of x": lambda x: signal.lfilter(b=x[:3], a=[2.0], x=x),
    "sosfilt": lambda x: signal.sosfilt(signal.butter(4, 0.2, output="sos"), x),
    "fftconvolve": lambda x: signal.fftconvolve(x, NUMBERS[0]),
    "compress": lambda x: np.compress([True, False, True], m43(x), axis=1) * x.compress(NUMBERS[0] > 0)[0],
    "a rotation of numbers": lambda x: TURN.apply(m43(x)) * (TURN * Rotation.from_rotvec(x[:3])).magnitude(),
    "a spline of numbers": lambda x: SPLINE(x) * SPLINE.derivative()(x) + SPLINE(0.5),
    "boxcox of two": lambda x: special.boxcox(x[:6], x[6:]) + special.boxcox1p(x[6:], x[:6]),
    "boxcox at 0": lambda x: special.boxcox(x, 0.0) + special.boxcox1p(x, np.arange(12.0)),
    "inv_boxcox": lambda x: special.inv_boxcox(x, np.arange(12.0)) + special.inv_boxcox1p(x[::-1], [0, 0.5] * 6),
    "spherical_jn near 0": lambda x: special.spherical_jn(0, 1e-3 * x) + special.spherical_jn(0, x),
    "polysub": lambda x: np.polysub(x[:3], x[5:10]) + np.polysub(x[:5], NUMBERS[0][:3]),
    "root of a line": lambda x: np.roots(x[:2]),
    "cov of columns": lambda x: np.cov(m43(x), rowvar=False),
    "quantiles": lambda x: np.quantile(m43(x), [[0.3, 0.6], [0.1, 0.9]], axis=1),
    "quantiles, keepdims": lambda x: np.quantile(m43(x), [0.3, 0.6], axis=0, keepdims=True) * m43(x),
    "quantiles of all": lambda x: np.quantile(m43(x), [0.3, 0.6], keepdims=True) * m43(x),
    "quantile, keepdims": lambda x: np.percentile(m43(x), 30, axis=-1, keepdims=True) * m43(x),
    "nancumprod": lambda x: np.nancumprod(x * np.where(np.arange(12) % 5 == 2, np.nan, 1.0)),
    "nancumsum": lambda x: np.nancumsum(m43(x) * np.where(np.arange(12) % 5 == 2, np.nan, 1.0).reshape(4, 3), axis=0),
    "differences that accumulate": lambda x: np.subtract.accumulate(m43(x), axis=0) + np.divide.accumulate(m43(x), axis=1),
    "reductions of nothing": lambda x: np.sum(m43(x)[:0], axis=0) + np.prod(m43(x)[:3, :0], axis=1) * x[:3],
    "reductions from a number": lambda x: np.sum(m43(x), axis=0, initial=2.5) * np.min(m43(x), axis=0, initial=0.8),
    "histogram of weights": lambda x: np.histogram(np.arange(12) / 3, 4, weights=x)[0],
    "pad by means": lambda x: np.concatenate([np.pad(x, (1, 2), mode=m) for m in ("mean", "wrap", "reflect")]),
    "complex products": lambda x: (as_complex(x).prod() * np.multiply.reduce(as_complex(x)).conj()).real.reshape(1),
    "complex means": lambda x: as_complex(x).reshape(2, 3).mean(axis=1).imag + np.add.reduce(as_complex(x)).real,
    "complex shapes": lambda x: as_complex(x).reshape(2, 1, 3).squeeze(1).transpose(1, 0).copy().imag,
    "complex by real": lambda x: np.abs(as_complex(x)[:4].reshape(2, 2) @ x[:2]),
    "a guard against NaN": guarded,
    "text of values": lambda x: x * len(f"{x[0]:8.3f}") / len(f"{x[0]:8.3f}"),
    "interp between unknowns": lambda x: np.interp(TIMES, np.cumsum(x[:4]), x[4:8]),
    "interp at unknowns between unknowns": lambda x: np.interp(x, np.cumsum(x[:4]), x[4:8], left=0.5),
    "convolve of two": lambda x: np.concatenate([signal.convolve(x[:7], x[7:]), signal.fftconvolve(x[:5], x[5:], "same"),
                                                 signal.convolve(x[:7], x[7:], mode="valid")]),
    "scipy.fft": lambda x: np.concatenate([np.abs(fft.rfft(x)), fft.dct(x, norm="ortho"), fft.irfft(fft.rfft(x) * 2)]),
    "cmath": lambda x: np.array([abs(cmath.exp(1j * x[0]) + x[1]), cmath.phase(complex(x[2], x[3])), cmath.sqrt(x[4]).real]),
    "polyval of complex": lambda x: np.abs(np.polyval(x[:3], 1j * TIMES) / np.polyval([1, x[4], x[5]], 1j * TIMES)),
    "freqs": lambda x: np.abs(signal.freqs([x[0]], [1, x[1], x[2]], worN=TIMES)[1]),
    "freqz": lambda x: np.angle(signal.freqz(x[:2], [1, 0.3 * x[2]], worN=9)[1]) + signal.freqz(x[0], [2.0], worN=9)[0],
    "divide where": lambda x: np.divide(x, [1, 0, 2] * 4, out=np.zeros(12), where=np.array([1, 0, 1] * 4, bool)),
    "divide where unknowns": lambda x: np.divide(1.0, x, out=np.full(12, 0.5), where=x > 0.9),
    "rotations side by side": lambda x: Rotation.concatenate([Rotation.from_rotvec(x[:3]), TURN]).as_rotvec(),
    "exp1": lambda x: special.exp1(x) + special.exp1(7 * x) + special.expn(3, x),
    "expi": lambda x: special.expi(x) + special.expi(-4 * x) + special.expi(9 * x) * 1e-4,
    "gammainc": lambda x: special.gammainc(x, x[::-1]) + special.gammainc(2.0, 4 * x) + special.gammaincc(6 * x, 5.0),
    "gammainc at 0": lambda x: special.gammainc(x, 0.0) + special.gammaincc(x, np.arange(12.0)),
    "kv of a half": lambda x: special.kv(1.5, x) + special.kve(0.3, x),
    "eval_genlaguerre": lambda x: special.eval_genlaguerre(3, 1.5, x) + special.genlaguerre(2, 1)(x),
    "normal distribution": lambda x: stats.norm.pdf(TIMES, x[0], x[1]) + stats.norm.cdf(TIMES, loc=x[2], scale=x[3]) + (
        stats.norm(x[4], x[5]).logpdf(TIMES) + stats.norm.sf(TIMES, x[6]) * stats.norm.logsf(x[7] * TIMES)),
    "normal quantiles": lambda x: stats.norm.ppf(x / 3, x[0], x[1]) + NORMAL.pdf(x) + NORMAL.cdf(0.3),
    "positive distributions": lambda x: sum(
        getattr(d, f)(TIMES - 0.2, *shapes, loc=0.1 * x[2], scale=x[3]) for d, shapes in (
            (stats.expon, ()), (stats.gamma, x[4:5]), (stats.lognorm, x[5:6]), (stats.weibull_min, x[6:7]),
            (stats.rayleigh, ()), (stats.halfnorm, ()), (stats.fisk, x[7:8]), (stats.chi2, x[8:9])) for f in ("pdf", "cdf", "sf")),
    "distributions on a line": lambda x: sum(
        d.pdf(TIMES, *shapes, x[0], x[1]) for d, shapes in (
            (stats.t, x[2:3]), (stats.cauchy, ()), (stats.laplace, ()), (stats.logistic, ()), (stats.gumbel_r, ()),
            (stats.gumbel_l, ()), (stats.skewnorm, x[3:4]), (stats.exponnorm, x[4:5]), (stats.maxwell, ()))),
    "probabilities on a line": lambda x: sum(
        d.cdf(TIMES, x[0], x[1]) + d.logcdf(TIMES, x[2]) for d in (
            stats.cauchy, stats.laplace, stats.logistic, stats.gumbel_r, stats.gumbel_l)) + stats.logistic.ppf(0.3, x[3]),
    "distributions on intervals": lambda x: (
        stats.beta.pdf(TIMES / 4, x[0], x[1]) + stats.uniform.cdf(TIMES, x[2], x[3]) + stats.pareto.pdf(TIMES, x[4], scale=x[5])),
    "discrete distributions": lambda x: (
        stats.poisson.logpmf(np.arange(9), x[0] + x[1]) + stats.poisson.pmf(np.arange(9), mu=x[2]) +
        stats.binom.pmf(np.arange(9), 9, x[3] / 2) + stats.nbinom.pmf(np.arange(9), x[4], x[5] / 2) + stats.geom.pmf(3, x[6] / 2)),
    "quad": lambda x: np.array([integrate.quad(lambda u: x[0] * np.exp(-x[1] * u), 0, t)[0] for t in TIMES[:5]]),
    "quad of numbers": lambda x: integrate.quad(lambda u: np.exp(-u), 0, 1)[0] * x,
    "quad of branches": lambda x: np.array([integrate.quad(lambda u, a: a * u if u > 0 else 0.0, 0, t, args=(x[0],))[0] for t in TIMES[:5]]),
    "quad to unknowns": lambda x: np.array([integrate.quad(np.cos, 0, v)[0] for v in x[:3]]),
    "quad to infinity": lambda x: np.array([integrate.quad(lambda u: np.exp(-x[1] * u * u), *ends)[0] for ends in (
        (x[0], np.inf), (-np.inf, x[2]), (-np.inf, np.inf), (x[3], -np.inf), (np.inf, 0.2))]),
    "sparse products": lambda x: np.concatenate([SPARSE @ x, SPARSE.dot(x), SPARSE * x, SPARSE.T @ x[:4], x[:4] @ SPARSE,
                                                 (SPARSE @ x.reshape(12, 1)).ravel(), SPARSE.tocsc().T.dot(x[4:8])]),
    "sparse matrices made inside": lambda x: np.concatenate([
        sparse.diags([np.arange(12.0), np.ones(11)], [0, 1]) @ x, sparse.csr_matrix(NUMBERS) @ x[:3],
        (2 * sparse.coo_matrix(NUMBERS).T).dot(x[:4]), sparse.csr_matrix((3, 12)) @ x, 0 * x[:1] + SPARSE.sum()]),
    "sparse solves": lambda x: np.concatenate([
        sparse.linalg.spsolve(sparse.csc_matrix(np.eye(3) * 2), x[:3]),
        linalg.solve_banded((1, 1), np.array([[0.0, 1, 1], [4, 4, 4], [1, 1, 0]]), x[:3])]),
    "inverse of complex": lambda x: np.abs(np.linalg.inv(np.array([[1 + 1j * x[0], x[1]], [x[1], 2 - 1j * x[2]]]))),
    "squareform": lambda x: spatial.distance.squareform(spatial.distance.pdist(m43(x))),
    "a rotation applied to a list": lambda x: Rotation.from_rotvec(x[:3]).apply([1, 0, 0]),
    "quaternions of inverses": lambda x: (Rotation.from_rotvec(x[:3]).inv() * Rotation.from_euler("z", 0.2)).as_quat(),
    "interp1d, filled": lambda x: FILLED(4 * x - 1) + interpolate.interp1d(TIMES, np.cos(TIMES), "cubic", bounds_error=False, fill_value=(1.0, 2.0))(5 * x),
    "spline, zero outside": lambda x: interpolate.UnivariateSpline(TIMES, np.sin(TIMES), s=0, ext=1)(4 * x - 1),
    "rotations near 0": lambda x: Rotation.from_rotvec((x[:3] - x[:3]) + 1e-9 * x[3:6]).as_rotvec() * 1e9,
}  # fmt: skip


class Functions(unittest.TestCase):
    def test_values_and_derivatives(self):
        self.assertGreaterEqual(len(FUNCTIONS), 300)
        start = np.random.default_rng(7).uniform(0.5, 1.5, 12)
        for name, function in FUNCTIONS.items():
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                x = start.copy()
                model = model_of(function, x)
                values = _core.Values(model, {"backend": "cpu"}, False)

                def numbers(at):
                    return np.ravel(np.real(np.asarray(function(at)))).astype(float)

                np.testing.assert_allclose(values.residuals(start), numbers(start), 1e-9, 1e-11)
                slopes = np.stack([(numbers(start + h) - numbers(start - h)) / 2e-6
                                   for h in 1e-6 * np.eye(12)], axis=1)
                np.testing.assert_allclose(jacobian(values, model, start), slopes, 1e-5, 1e-5)

    def test_special_functions_far_away(self):
        """Where formulas change, and where naive ones cancel."""
        cases = {
            "erfc": np.r_[-3.0, 0.1, 2, 5, 10, 25], "erfcx": np.r_[-2.0, 0.5, 11.9, 12.1, 50, 1e4],
            "log_ndtr": np.r_[-30.0, -5, -1.01, -0.99, 0, 5], "ndtri": np.r_[1e-12, 0.01, 0.499, 0.5, 0.9],
            "erfinv": np.r_[-0.999, -0.3, 0.0, 0.7, 0.99], "dawsn": np.r_[-3.0, 0.1, 1, 5, 30],
            "gammaln": np.r_[-1.5, 1e-3, 0.5, 1, 2, 30, 1e5], "gamma": np.r_[-2.5, -0.5, 0.1, 1, 5, 20],
            "digamma": np.r_[-1.5, 0.01, 1, 10, 1e4], "j0": np.r_[-30.0, 0, 3, 24.9, 25.1, 200],
            "y0": np.r_[1e-8, 0.9, 24.9, 25.1, 200], "y1": np.r_[1e-8, 2.2, 24.9, 25.1, 200],
            "j1": np.r_[-30.0, -2, 0, 3, 24.9, 25.1, 200], "i0": np.r_[-20.0, 0, 3, 24.9, 25.1, 100],
            "i1": np.r_[-20.0, 0, 3, 24.9, 25.1, 100], "k0": np.r_[0.1, 1, 10, 50],
            "k1": np.r_[0.1, 1, 10, 50], "exprel": np.r_[-2.0, -1e-6, 0, 1e-7, 1e-4, 3],
            "ellipk": np.r_[-3.0, 0, 0.5, 0.999], "ellipe": np.r_[-3.0, 0, 0.5, 0.999],
        }
        for name, points in cases.items():
            with self.subTest(name):
                function = getattr(special, name)
                problem = topograd.Problem()
                problem.residuals(lambda v: function(v), problem.parameters(points.copy()))
                np.testing.assert_allclose(problem.evaluate(), function(points), 1e-9, 1e-13)
                h = 1e-6 * np.maximum(1, np.abs(points))
                slopes = (function(points + h) - function(points - h)) / (2 * h)
                inside = np.isfinite(slopes) & (np.abs(slopes) < 1e6)
                got = problem.jacobian().diagonal()
                np.testing.assert_allclose(got[inside], slopes[inside], 2e-5, 1e-9)
        z = np.array([0.5 + 0.5j, 3 - 0.4j, -2 + 1e-3j, 8 + 4j])
        problem = topograd.Problem()
        parts = problem.parameters(z.view(float).copy())
        problem.residuals(lambda v: special.wofz(v[::2] + 1j * v[1::2]).view(float), parts)
        np.testing.assert_allclose(problem.evaluate(), special.wofz(z).view(float), 1e-9, 1e-12)

    def test_what_is_left_to_scipy_is_named(self):
        cases = {
            "scipy.special.betainc": lambda x: special.betainc(x[0], x[1], TIMES / 9),
            "RegularGridInterpolator at unknowns can be traced by 'linear'": lambda x: NEAREST(x.reshape(6, 2)),
            "interpolate.griddata cannot be traced: .*RectBivariateSpline": lambda x: interpolate.griddata(
                NUMBERS[:, :2], NUMBERS[:, 0], x.reshape(6, 2)),
            "solve_ivp": lambda x: integrate.solve_ivp(lambda t, y: -x[0] * y, (0, 1), [x[1]]).y[0],
            "np.linalg.eigvalsh cannot be traced: .*unknowns of their own": lambda x: np.linalg.eigvalsh(definite(x)),
            "np.delete": lambda x: np.delete(NUMBERS, x[0]),
            "np.compress": lambda x: np.compress(x > 1, x),
            "a branch on a value": lambda x: x if x[0] > 1 or np.isnan(x).any() else 2 * x,
            "np.sort of elements that a condition": lambda x: np.sort(x[x > 1]),
            "[.]reshape of elements that a condition": lambda x: x[x > 1].reshape(-1, 1),
            "an array beside elements": lambda x: x[x > 1] * NUMBERS[0],
            "an assignment by a condition on unknowns of another shape": lambda x: set_chosen(x),
            "distances by 'canberra'": lambda x: spatial.distance.cdist(m43(x), NUMBERS, "canberra"),
            "as_euler about an axis twice": lambda x: Rotation.from_rotvec(x[:3]).as_euler("zxz"),
            "a sparse matrix of values": lambda x: SPARSE * x[0] @ x,
            "masked arrays": lambda x: x - np.ma.masked_invalid([np.nan, 2, 3] * 4),
            "scipy.stats.vonmises.pdf": lambda x: stats.vonmises.pdf(TIMES, x[0]),
            "scipy.stats.t.cdf": lambda x: stats.t.cdf(TIMES, x[0]),
            "between more than 64 points": lambda x: np.interp(0.5, np.cumsum(np.repeat(x, 9)), np.ones(108)),
            "quad with": lambda x: integrate.quad(lambda u: u * x[0], 0, 1, points=[0.5]),
            "scipy.optimize.brentq, cannot be traced: make the root an unknown": lambda x: optimize.brentq(lambda v: v - x[0], 0, 2) * x,
            "np.argmin cannot be traced: positions .*np.where": lambda x: x[np.argmin(x)],
            "minimum_filter": lambda x: ndimage.minimum_filter(x, 3),
            "AkimaInterpolator|Akima1D": lambda x: interpolate.Akima1DInterpolator(np.arange(12.0), x)(TIMES),
        }
        for name, function in cases.items():
            with self.subTest(name), self.assertRaisesRegex(
                    TracingError, f"({name}).*line .* of test_functions.py"):
                trace_function(function, 12, 1.0, (), {})


class RandomPrograms(unittest.TestCase):
    """Programs of a dozen random steps on arrays: values of NumPy's, and derivatives by differences."""

    UNARY = ["np.sin", "np.cos", "np.tanh", "np.arctan", "np.exp", "np.abs", "np.square", "np.cbrt",
             "special.erf", "special.expit", "np.log1p", "np.sinc", "np.negative"]
    BINARY = ["np.add", "np.subtract", "np.multiply", "np.maximum", "np.minimum", "np.hypot",
              "np.logaddexp", "np.arctan2"]
    SHAPING = ["{a}.T", "{a}[::-1]", "{a}[..., ::-1]", "{a}[1:]", "{a}[:, None]", "{a}.ravel()", "np.roll({a}, 1)",
               "{a}.copy()", "np.sort({a}, axis=0)", "np.cumsum({a}, axis=-1)", "np.pad({a}, 1)",
               "{a}[[0, -1]]", "np.diff({a}, axis=0, prepend=0)", "np.repeat({a}, 2, axis=0)",
               "np.flip({a})", "{a}[{a}.shape[0] // 2]", "np.atleast_2d({a})", "np.squeeze({a})",
               "np.concatenate([{a}, 2 * {a}])", "np.stack([{a}, {a} ** 2], axis=-1)", "np.clip({a}, -0.8, 0.9)",
               "np.where({a} > 0.3, {a}, {a} ** 2)", "{a}.reshape(-1, 1)", "np.tril(np.atleast_2d({a}))"]
    REDUCING = ["{a}.sum(axis=0)", "{a}.mean(axis=-1)", "np.linalg.norm({a}, axis=0)", "{a}.max(axis=0)",
                "np.var({a}, axis=-1)", "np.median({a}, axis=0)", "{a}.prod(axis=-1)", "np.ptp({a}, axis=0)",
                "np.sum({a}, axis=0, where=np.arange({a}.shape[0]).reshape((-1,) + (1,) * ({a}.ndim - 1)) != 1)"]
    FILLING = ["f = np.zeros({a}.shape); f[...] = {a}; f[0] += 1.5", "f = np.ones((3,) + {a}.shape); f[1] = {a}",
               "f = np.eye(4); f[:2, 1] = {a}.ravel()[:2]", "f = DATA.copy(); f[0] = {a}.ravel()[0]",
               "f = 0.5 * DATA; f[1, :2] *= {a}.ravel()[-1]", "f = np.array([1.0, 2.0]); f[1] -= {a}.mean()",
               "f = np.empty(4); f[::2] = {a}.ravel()[:1]; f[1::2] = 0.5",
               "f = [v * 0.5 for v in {a}.ravel()[:3]]; f = np.array(f + [max(f), float({a}.ravel()[0])])"]

    @classmethod
    def program(cls, random):
        lines = ["def f(x):", "    v = [x, x.reshape(3, 4), DATA, x[:5] - 1]"]
        for _ in range(random.integers(4, 13)):
            a, b = (f"v[{random.integers(-4, 0)}]" for _ in range(2))
            kind = random.integers(0, 6)
            if kind < 2:
                step = f"{random.choice(cls.UNARY)}({a} / (1 + np.abs({a})))"
            elif kind == 2:
                step = f"{random.choice(cls.BINARY)}({a}, {b}.ravel()[{random.integers(0, 2)}])"
            elif kind == 3:
                step = str(random.choice(cls.SHAPING)).format(a=a)
            elif kind == 4:
                step = f"np.atleast_1d({str(random.choice(cls.REDUCING)).format(a=a)})"
            else:
                lines.append("    " + str(random.choice(cls.FILLING)).format(a=a))
                step = "f"
            lines.append(f"    v.append({step})")
        lines.append("    return np.concatenate([np.ravel(a) for a in v[-3:]])")
        return "\n".join(lines)

    def test_programs(self):
        random = np.random.default_rng(int(os.environ.get("TOPOGRAD_SEED", "5")))
        count, compared = int(os.environ.get("TOPOGRAD_PROGRAMS", "150")), 0
        space = {"np": np, "special": special, "DATA": NUMBERS[:2, :3] - 1}
        for _ in range(count):
            text = self.program(random)
            exec(text, space)
            f, x = space["f"], random.uniform(0.2, 1.2, 12)
            with np.errstate(all="ignore"):
                try:
                    expected = np.asarray(f(x), float)
                except (ValueError, IndexError):  # shapes that do not fit
                    with self.assertRaises((ValueError, IndexError), msg=text):
                        trace_function(f, 12, 1.0, (), {})
                    continue
                if expected.size > 300 or not np.isfinite(expected).all() or not expected.size:
                    continue
                slopes = np.stack([(np.asarray(f(x + h)) - np.asarray(f(x - h))) / 2e-6
                                   for h in 1e-6 * np.eye(12)], axis=1)
            start = x.copy()
            with self.subTest(text):
                compared += 1
                model = model_of(f, x)
                if model.sizes()["rows"] == 0:  # no row reads an unknown
                    continue
                values = _core.Values(model, {"backend": "cpu"}, False)
                np.testing.assert_allclose(values.residuals(start), expected, 1e-10, 1e-11)
                got = jacobian(values, model, start)
                # At a kink the difference is the mean of both sides: those of other steps are left out.
                with np.errstate(all="ignore"):
                    other = np.stack([(np.asarray(f(start + h)) - np.asarray(f(start - h))) / 2e-4
                                      for h in 1e-4 * np.eye(12)], axis=1)
                smooth = np.abs(other - slopes) <= 1e-3 * (1 + np.abs(slopes))
                np.testing.assert_allclose(got[smooth], slopes[smooth], 1e-4, 1e-4)
        self.assertGreater(compared, count // 3)


if __name__ == "__main__":
    unittest.main()
