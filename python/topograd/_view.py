"""view: a page on which a problem is pulled at while it is solved."""

from __future__ import annotations

import atexit
import html
from typing import Any

import numpy as np

from . import _core
from ._problem import Parameters, Problem

# Pages serve until they are closed, whether or not the program keeps the View.
_open: set["View"] = set()


class View:
    """An open page. In Jupyter the last value of a cell shows it; `url` is for browsers. ::

        view = topograd.view(problem, (x, faces))
        view                 # the page in the notebook
        view.close()         # x.value has the positions of the last frame

    Until it is closed, the problem belongs to the page: its other methods raise RuntimeError.
    """

    def __init__(self, problem: Problem, page: Any, height: int) -> None:
        self._problem = problem
        self._page = page
        self._height = height

    @property
    def url(self) -> str:
        """The address of the page, with its random token."""
        return self._page.url

    @property
    def closed(self) -> bool:
        return not self._page.is_open

    @property
    def positions(self) -> np.ndarray:
        """The points in the newest frame, shape (n, 3). A copy."""
        return self._page.positions().reshape(-1, 3)

    @property
    def cost(self) -> float:
        """The cost in the newest frame, with that of the handles; NaN before the first one."""
        return self._page.cost

    @property
    def message(self) -> str:
        """The last error of a solve or a command; '' if there is none."""
        return self._page.message

    def wait(self, seconds: float = float("inf")) -> bool:
        """Serves until Ctrl-C, for this time, or until another thread closes the page; True if it
        is closed."""
        piece = 0.1  # Ctrl-C is looked at between pieces
        while seconds > piece:
            if self._page.wait(piece):
                return True
            seconds -= piece
        return self._page.wait(max(seconds, 0.0))

    def close(self) -> None:
        """Ends the page; arrays of the problem have the positions of the last frame."""
        if self not in _open:
            return
        _open.discard(self)
        try:
            self._page.close()
        finally:
            self._problem._end_view()

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _repr_html_(self) -> str:
        if self.closed:
            return "<p>This view is closed.</p>"
        return (f'<iframe src="{html.escape(self.url)}" width="100%" height="{self._height}" '
                f'style="border: 0"></iframe>')

    def __repr__(self) -> str:
        return "<View: closed>" if self.closed else f"<View: {self.url}>"


def _points_of(problem: Problem, points: Any) -> Parameters:
    """The array of unknowns that `points` means."""
    arrays = problem._parameters
    if not arrays:
        raise ValueError("view: expected a problem with parameters")
    if points is None:
        for width in (3, 2):
            for x in arrays:
                if x.ndim == 2 and x.shape[1] == width:
                    return x
        return max(arrays, key=lambda x: x.shape[0])
    for x in arrays:
        if points is x or points is x.value:
            return x
    if isinstance(points, Parameters):
        raise ValueError("view: expected parameters of this problem, got those of another one")
    given = np.asarray(points)
    same = [x for x in arrays if np.shares_memory(given, np.asarray(x.value))]
    if not same:
        same = [x for x in arrays if tuple(x.shape) == given.shape]
    if len(same) == 1:
        return same[0]
    shapes = ", ".join(str(tuple(x.shape)) for x in arrays)
    raise ValueError(f"view: expected the points to be one of the problem's arrays of parameters, "
                     f"with shapes {shapes}, got shape {given.shape}")


def _shapes(numbers: Any, corners: int, points: int) -> np.ndarray:
    array = np.asarray([] if numbers is None else numbers)
    if array.size == 0:
        return np.zeros((0, corners), np.uint32)
    if array.ndim != 2 or array.shape[1] != corners or array.dtype.kind not in "iu":
        raise ValueError(f"view: expected an array of whole numbers of shape (m, {corners}), got "
                         f"{array.dtype} of shape {array.shape}")
    if array.min() < 0 or array.max() >= points:
        raise ValueError(f"view: expected points in 0 .. {points} - 1, got {array.min()} .. "
                         f"{array.max()}")
    return np.ascontiguousarray(array, np.uint32)


def _triangles(faces: np.ndarray) -> np.ndarray:
    """Faces with more corners as fans of triangles."""
    if faces.ndim != 2 or faces.shape[1] < 4:
        return faces
    corners = range(1, faces.shape[1] - 1)
    return np.concatenate([faces[:, [0, k, k + 1]] for k in corners])


def view(problem: Problem, mesh: Any = None, *, lines: Any = None, name: str = "problem",
         steps: int = 8, linear_iterations: int = 60, budget_ms: float = 16,
         handle_weight: float = 10, height: int = 600, host: str = "127.0.0.1", port: int = 0,
         allow_remote: bool = False, **options: Any) -> View:
    """Opens a page on which the problem is pulled at while it is solved, on threads of its own.

    Parameters
    ----------
    mesh : (vertices, faces), or points
        vertices, or points, are unknowns of the problem: what `Problem.parameters` returned, or the
        array that it was given. An array of another memory stands for the parameters of its shape.
        The first three numbers of a block are shown; blocks of two are points in the plane, blocks
        of one are heights along a line. faces has shape (m, k), k >= 3. If not given: the first
        parameters with blocks of three, else of two.
    lines : array of shape (m, 2), optional
        Lines between the points.
    name : str
        Title of the page.
    steps, linear_iterations : int
        A solve between two frames has at most this many steps, and a step this many iterations of
        conjugate gradients: the next frames make up for the rest.
    budget_ms : float
        Milliseconds after which a solve between two frames ends with its first accepted step.
    handle_weight : float
        Of the residuals w (p − target) of pulled points.
    height : int
        Of the frame in a notebook, in pixels.
    host, port, allow_remote
        The address that is listened on; port 0 is a free one. An address that other machines reach
        needs allow_remote=True, and nothing is encrypted then.
    **options
        Those of `Problem.solve`, without its bounds of iterations.

    Returns
    -------
    View, with `url`, `close()`, and the page as its display in Jupyter.
    """
    points, faces = mesh, None
    if isinstance(mesh, tuple) or (
            isinstance(mesh, list) and len(mesh) == 2 and np.ndim(mesh[1]) == 2):
        if len(mesh) != 2:
            raise ValueError(f"view: expected (vertices, faces), got a tuple of {len(mesh)}")
        points, faces = mesh
    x = _points_of(problem, points)
    count = x.shape[0]
    corners = np.asarray([] if faces is None else faces)
    triangles = _triangles(_shapes(faces, corners.shape[1] if corners.ndim == 2 else 3, count))
    for bound, otherwise in (("max_iterations", "steps"),
                             ("max_linear_iterations", "linear_iterations")):
        if bound in options:
            raise ValueError(f"view: expected {otherwise} instead of {bound}")
    page = _core.View(problem._begin_view(), x._number, _shapes(triangles, 3, count),
                      _shapes(lines, 2, count), options, name, steps, linear_iterations, budget_ms,
                      handle_weight, host, port, allow_remote)
    opened = View(problem, page, height)
    problem._viewed = True
    _open.add(opened)
    return opened


@atexit.register
def _close_all() -> None:
    for opened in list(_open):
        opened.close()
