"""A demonstration: a mesh is bent as rigidly as possible, and drawn."""

from __future__ import annotations

import pathlib
import tempfile

import numpy as np

from ._problem import Problem
from ._summary import Summary


def read_mesh(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (n, 3) and triangles (m, 3) of an OBJ file."""
    lines = [line.split() for line in path.read_text().splitlines()]
    vertices = np.array([line[1:4] for line in lines if line[:1] == ["v"]], dtype=float)
    faces = [[int(c.split("/")[0]) - 1 for c in line[1:4]] for line in lines if line[:1] == ["f"]]
    return vertices, np.array(faces)


def rotated(axis_angle: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Vectors (n, 3) turned about axes by angles in radians: Rodrigues' formula."""
    square = np.sum(axis_angle**2, axis=1)[:, np.newaxis]
    small = square < 1e-8
    angle = np.sqrt(np.where(small, 1.0, square))
    a = np.where(small, 1 - square / 6, np.sin(angle) / angle)
    b = np.where(small, 0.5 - square / 24, (1 - np.cos(angle)) / angle**2)
    turned = np.cross(axis_angle, v)
    return v + a * turned + b * np.cross(axis_angle, turned)


def bent(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, Summary]:
    """The mesh with its top pulled sideways, by as-rigid-as-possible deformation, and the summary."""
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    edges = np.unique(np.concatenate([edges, edges[:, ::-1]]), axis=0)
    i, j = edges.T
    height = np.ptp(vertices[:, 1])
    low = np.flatnonzero(vertices[:, 1] <= vertices[:, 1].min() + 0.05 * height)
    high = np.flatnonzero(vertices[:, 1] >= vertices[:, 1].max() - 0.05 * height)
    handles = np.concatenate([low, high])
    targets = vertices[handles].copy()
    targets[low.size:, 2] += height / 2

    positions, turns = vertices.copy(), np.zeros_like(vertices)
    p = Problem()
    x, a = p.parameters(positions, name="positions"), p.parameters(turns, name="turns")
    p.residuals(lambda pi, pj, ai, rest: pi - pj - rotated(ai, rest),
                x[i], x[j], a[i], vertices[i] - vertices[j], label="edges")
    p.residuals(lambda pi, to: 10.0 * (pi - to), x[handles], targets, label="handles")
    return positions, p.solve(max_iterations=100)


def picture(vertices: np.ndarray, faces: np.ndarray, size: int = 640) -> str:
    """The mesh as an SVG picture, nearest triangles last."""
    side = np.array([[-0.6, 0.0, 0.8], [0.2, 0.97, 0.15]])  # right and up
    view = np.cross(side[0], side[1])
    points = vertices @ side.T
    low, extent = points.min(axis=0), np.ptp(points, axis=0).max()
    points = (points - low) / extent * (size - 40) + 20
    points[:, 1] = points[:, 1].max() + 20 - points[:, 1]
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True) + 1e-300
    light = np.clip(0.35 + 0.6 * (normals @ view), 0.1, 1.0)
    polygons = []
    for f in np.argsort(corners.mean(axis=1) @ view):
        if normals[f] @ view <= 0:
            continue
        at = " ".join(f"{u:.1f},{v:.1f}" for u, v in points[faces[f]])
        colour = "#" + "".join(f"{int(c * light[f]):02x}" for c in (230, 200, 150))
        polygons.append(f"<polygon points='{at}' fill='{colour}' stroke='{colour}'/>")
    width, height = points.max(axis=0) + 20
    return (f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}'>"
            f"<rect width='100%' height='100%' fill='white'/>{''.join(polygons)}</svg>")


def demo(path: str | None = None) -> str:
    """Bends a cow by its head, and writes a picture.

    Parameters
    ----------
    path : str, optional
        Of the picture (SVG); a file in the temporary folder if not given.

    Returns the path, which is printed, too.
    """
    vertices, faces = read_mesh(pathlib.Path(__file__).parent / "spot.obj")
    positions, summary = bent(vertices, faces)
    if path is None:
        path = str(pathlib.Path(tempfile.gettempdir()) / "topograd-spot.svg")
    pathlib.Path(path).write_text(picture(positions, faces))
    print(summary)
    print(f"{len(vertices)} vertices, cost {summary.final_cost:.6g}, {summary.seconds:.2f} s on the "
          f"{summary.backend}: {path}")
    return path
