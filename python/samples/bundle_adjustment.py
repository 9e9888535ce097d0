"""Bundle adjustment as a function of one vector, on a scene made here.

It is written like the one of SciPy's Cookbook, in operations on whole arrays; the Cookbook reads a
scene of Bundle Adjustment in the Large: https://scipy-cookbook.readthedocs.io/items/bundle_adjustment.html
"""

import numpy as np
from topograd import least_squares


def turned(vectors, axis_angles):
    """Vectors (n, 3) after rotations (n, 3) about axes, by the axes' lengths in radians."""
    angles = np.linalg.norm(axis_angles, axis=1)
    with np.errstate(invalid="ignore"):
        axes = np.nan_to_num(axis_angles / angles[:, None])
    along = axes * np.einsum("ij,ij->i", axes, vectors)[:, None]
    cosines, sines = np.cos(angles)[:, None], np.sin(angles)[:, None]
    return along + cosines * (vectors - along) + sines * np.cross(axes, vectors)


def pixels(cameras, points):
    """Images (n, 2) of points (n, 3) by cameras (n, 9): rotation, translation, focal length in
    pixels, and two radial distortions. Cameras look along their negative z axis."""
    seen = turned(points, cameras[:, :3])
    seen += cameras[:, 3:6]
    image = seen[:, :2] / -seen[:, 2:]
    focal, k1, k2 = cameras[:, 6:].T
    square = (image**2).sum(axis=1)
    image *= (focal * (1 + square * (k1 + k2 * square)))[:, None]
    return image


def reprojection_errors(x, n_cameras, camera_of, point_of, observed):
    """Distances in pixels between images and observations (m, 2), as one vector of 2 m."""
    cameras = x[:9 * n_cameras].reshape(-1, 9)
    points = x[9 * n_cameras:].reshape(-1, 3)
    errors = pixels(cameras[camera_of], points[point_of])
    errors -= observed
    return errors.ravel()


def scene(n_cameras, n_points):
    """A disturbed start, and the arguments of reprojection_errors(): each camera sees each point."""
    random = np.random.default_rng(3)
    cameras = np.zeros((n_cameras, 9))
    cameras[:, :5] = random.normal(0, 0.1, (n_cameras, 5))
    cameras[:, 5], cameras[:, 6] = -10, 500
    points = random.normal(0, 1, (n_points, 3))
    camera_of, point_of = np.divmod(np.arange(n_cameras * n_points), n_points)
    observed = pixels(cameras[camera_of], points[point_of])
    x = np.concatenate([cameras.ravel(), points.ravel()])
    x += random.normal(0, 0.01, x.size) * np.maximum(1, np.abs(x)) * (x != 0)
    return x, (n_cameras, camera_of, point_of, observed)


if __name__ == "__main__":
    x0, arguments = scene(8, 200)
    result = least_squares(reprojection_errors, x0, args=arguments, x_scale="jac", verbose=1)
    error = np.sqrt(np.mean(result.fun**2))
    print("root mean square error in pixels", error)
    assert error < 1e-3
