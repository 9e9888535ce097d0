#!/usr/bin/env python3
"""Images and derivatives of COLMAP's and OpenMVG's camera models with 50 digits: writes camera_models.txt.

A line has the name of a model, its parameters and a point, the image, and the derivatives of both of its coordinates by all
of these numbers, each rounded to the nearest double. The models are those of the documentation of both, and the derivatives are
those of steps of 1e-40 i in arithmetic of 110 digits. Needs mpmath.
"""
import math
import pathlib

from mpmath import atan, mp, mpc, pi, sqrt, tan

mp.dps = 110
# focal lengths, numbers of the distortion
MODELS = {"SIMPLE_PINHOLE": (1, 0), "PINHOLE": (2, 0), "SIMPLE_RADIAL": (1, 1), "RADIAL": (1, 2), "OPENCV": (2, 4),
          "OPENCV_FISHEYE": (2, 4), "FULL_OPENCV": (2, 8), "FOV": (2, 1), "SIMPLE_RADIAL_FISHEYE": (1, 1),
          "RADIAL_FISHEYE": (1, 2), "THIN_PRISM_FISHEYE": (2, 8), "RAD_TAN_THIN_PRISM_FISHEYE": (2, 12),
          "SIMPLE_DIVISION": (1, 1), "DIVISION": (2, 1), "SIMPLE_FISHEYE": (1, 0), "FISHEYE": (2, 0), "EUCM": (2, 2),
          "PINHOLE_RADIAL_K3": (1, 3), "PINHOLE_BROWN_T2": (1, 5), "PINHOLE_FISHEYE": (1, 4)}
# Far from the axis and near it, on both sides of where series end, and behind the plane of a fisheye camera.
POINTS = [(0.3, -0.2, 1.1), (3.1, -2.2, 1.7), (1e-12, -2e-12, 2.0), (0.08, 0.0589, 1.0), (0.09, 0.05, 1.0)]
BEHIND = [(-1.4, 0.9, -0.8)]


def lens(u, v, k, p1=0, p2=0):
    s = u * u + v * v
    radial = 1 + sum(c * s ** (i + 1) for i, c in enumerate(k))
    return u * radial + 2 * p1 * u * v + p2 * (s + 2 * u * u), v * radial + 2 * p2 * u * v + p1 * (s + 2 * v * v)


def distorted(model, k, x, y, z):
    u, v = x / z, y / z
    if "FISHEYE" in model:
        rho = sqrt(x * x + y * y)
        angle = atan(rho / z) + (pi if z.real < 0 else 0)
        u, v = x * angle / rho, y * angle / rho
    s = u * u + v * v
    if model in ("SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_FISHEYE", "FISHEYE"):
        return u, v
    if model in ("SIMPLE_RADIAL", "RADIAL", "OPENCV_FISHEYE", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE",
                 "PINHOLE_RADIAL_K3", "PINHOLE_FISHEYE"):
        return lens(u, v, k)
    if model == "PINHOLE_BROWN_T2":
        return lens(u, v, k[:3], k[3], k[4])
    if model == "OPENCV":
        return lens(u, v, k[:2], k[2], k[3])
    if model == "FULL_OPENCV":
        ratio = (1 + k[0] * s + k[1] * s**2 + k[4] * s**3) / (1 + k[5] * s + k[6] * s**2 + k[7] * s**3)
        du, dv = lens(u, v, [], k[2], k[3])
        return du + u * (ratio - 1), dv + v * (ratio - 1)
    if model == "FOV":
        r = sqrt(s)
        factor = atan(2 * r * tan(k[0] / 2)) / (r * k[0])
        return u * factor, v * factor
    if model == "THIN_PRISM_FISHEYE":
        a, b = lens(u, v, [k[0], k[1], k[4], k[5]], k[2], k[3])
        return a + k[6] * s, b + k[7] * s
    if model == "RAD_TAN_THIN_PRISM_FISHEYE":
        a, b = lens(u, v, k[:6])
        t = a * a + b * b
        c, d = lens(a, b, [], k[7], k[6])
        return c + k[8] * t + k[9] * t * t, d + k[10] * t + k[11] * t * t
    if model in ("SIMPLE_DIVISION", "DIVISION"):
        r = 2 / (z + sqrt(z * z - 4 * k[0] * (x * x + y * y)))
        return r * x, r * y
    assert model == "EUCM"
    d = k[0] * sqrt(k[1] * (x * x + y * y) + z * z) + (1 - k[0]) * z
    return x / d, y / d


def image(model, x):
    focal, distortion = MODELS[model]
    n = focal + 2 + distortion
    u, v = distorted(model, x[focal + 2:n], *x[n:])
    return x[0] * u + x[focal], x[focal - 1] * v + x[focal + 1]


def parameters(model, strength):
    focal, distortion = MODELS[model]
    out = [712.5, 698.25][:focal] + [320.75, 239.5]
    out += [strength * 0.03 * math.cos(1 + 2.3 * k) for k in range(distortion)]
    if model == "FOV":
        out[-1] = 0.9 * strength
    if model == "EUCM":
        out[4:] = [0.6 * strength, 1.1]
    return out


def row(model, x):
    step = mp.mpf(10) ** -40
    at = [mpc(value) for value in x]
    out = [float(value.real) for value in image(model, at)]
    columns = []
    for k in range(len(x)):
        moved = list(at)
        moved[k] += mpc(0, step)
        columns.append([float(value.imag / step) for value in image(model, moved)])
    out += [column[0] for column in columns] + [column[1] for column in columns]
    return " ".join([model] + [repr(value) for value in list(x) + out])


def main():
    lines = []
    for model in MODELS:
        points = POINTS + (BEHIND if "FISHEYE" in model else [])
        lines += [row(model, parameters(model, 1.0) + list(point)) for point in points]
        lines.append(row(model, parameters(model, 1e-9) + list(POINTS[0])))
    path = pathlib.Path(__file__).with_suffix(".txt")
    path.write_text("\n".join(lines) + "\n")


main()
