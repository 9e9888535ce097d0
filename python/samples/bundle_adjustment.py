"""Bundle adjustment with the residuals of SciPy's cookbook, on a scene made here.

https://scipy-cookbook.readthedocs.io/items/bundle_adjustment.html reads a scene from a file instead.
"""

import numpy as np
from topograd import least_squares


def rotate(points, rot_vecs):
    theta = np.linalg.norm(rot_vecs, axis=1)[:, np.newaxis]
    with np.errstate(invalid='ignore'):
        v = rot_vecs / theta
        v = np.nan_to_num(v)
    dot = np.sum(points * v, axis=1)[:, np.newaxis]
    cos_theta = np.cos(theta)
    sin_theta = np.sin(theta)
    return cos_theta * points + sin_theta * np.cross(v, points) + dot * (1 - cos_theta) * v


def project(points, camera_params):
    points_proj = rotate(points, camera_params[:, :3])
    points_proj += camera_params[:, 3:6]
    points_proj = -points_proj[:, :2] / points_proj[:, 2, np.newaxis]
    f = camera_params[:, 6]
    k1 = camera_params[:, 7]
    k2 = camera_params[:, 8]
    n = np.sum(points_proj**2, axis=1)
    r = 1 + k1 * n + k2 * n**2
    points_proj *= (r * f)[:, np.newaxis]
    return points_proj


def fun(params, n_cameras, n_points, camera_indices, point_indices, points_2d):
    camera_params = params[:n_cameras * 9].reshape((n_cameras, 9))
    points_3d = params[n_cameras * 9:].reshape((n_points, 3))
    points_proj = project(points_3d[point_indices], camera_params[camera_indices])
    return (points_proj - points_2d).ravel()


random = np.random.default_rng(3)
n_cameras, n_points = 8, 200
cameras = np.concatenate([random.normal(0, 0.1, (n_cameras, 5)), np.full((n_cameras, 1), -10.0),
                          np.full((n_cameras, 1), 500.0), np.zeros((n_cameras, 2))], axis=1)
points = random.normal(0, 1, (n_points, 3))
camera_indices = np.repeat(np.arange(n_cameras), n_points)
point_indices = np.tile(np.arange(n_points), n_cameras)
points_2d = project(points[point_indices], cameras[camera_indices])
x0 = np.concatenate([cameras.ravel(), points.ravel()])
x0 += random.normal(0, 0.01, x0.size) * np.maximum(1, np.abs(x0)) * (x0 != 0)

result = least_squares(fun, x0, verbose=1, x_scale='jac', ftol=1e-10, method='trf',
                       args=(n_cameras, n_points, camera_indices, point_indices, points_2d))
print("root mean square error in pixels", np.sqrt(np.mean(result.fun**2)))

assert np.sqrt(np.mean(result.fun**2)) < 1e-3
