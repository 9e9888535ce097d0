"""topograd.view: the page of a problem, read and pulled at as a browser does it."""

import base64
import json
import os
import socket
import struct
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import numpy as np

import topograd

FACES = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]])
CPU = {"backend": "cpu"}


def tetrahedron(array):
    """Four points, one apart from each other at the solution; the first is fixed."""
    problem = topograd.Problem()
    x = problem.parameters(array, name="x")
    a, b = np.triu_indices(4, 1)
    problem.residuals(lambda p, q: np.sqrt(np.sum((p - q) ** 2, axis=1)) - 1.0, x[a], x[b])
    problem.fix(x[0])
    return problem, x


def start():
    return np.array([[0, 0, 0], [1.1, 0, 0], [0.4, 0.9, 0], [0.5, 0.3, 0.7]], float)


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


class Page:
    """A WebSocket that sends text."""

    def __init__(self, url):
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=10)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {parts.path}ws HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nOrigin: http://{parts.netloc}\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.socket.recv(1)
        assert b" 101 " in answer.splitlines()[0], answer

    def send(self, **message):
        text = json.dumps(message).encode()
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[k % 4] for k, byte in enumerate(text))
        size = bytes([128 + len(text)]) if len(text) < 126 else b"\xfe" + struct.pack(">H", len(text))
        self.socket.sendall(b"\x81" + size + mask + masked)

    def pull(self, vertex, position):
        self.send(do="grab", handle=1, vertex=vertex, radius=0)
        self.send(do="drag", handle=1, position=position, serial=1, begins=True)

    def close(self):
        self.socket.close()


def eventually(holds):
    end = time.monotonic() + 30
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class View(unittest.TestCase):
    def test_serves_the_page_of_the_mesh(self):
        problem, x = tetrahedron(start())
        with topograd.view(problem, (x, FACES), name="pyramid", **CPU) as view:
            self.assertRegex(view.url, r"^http://127\.0\.0\.1:\d+/[0-9a-f]{32}/$")
            self.assertIn("<!doctype html>", get(view.url))
            scene = json.loads(get(view.url + "scene.json"))
            self.assertEqual([scene[k] for k in ("name", "points", "triangles", "lines")],
                             ["pyramid", 4, 4, 0])
            frame = view._repr_html_()
            self.assertTrue(frame.startswith("<iframe ") and f'src="{view.url}"' in frame, frame)
            with self.assertRaises(urllib.error.HTTPError) as wrong:
                get(view.url[:-4] + "0000/" if not view.url.endswith("0000/") else view.url[:-5] + "1/")
            self.assertEqual(wrong.exception.code, 404)
        self.assertTrue(view.closed)
        with self.assertRaises(OSError):
            get(view.url)
        self.assertNotIn("iframe", view._repr_html_())

    def test_drags_reach_the_arrays(self):
        for make in (np.array, np.asfortranarray):  # in place, and a copy that is written back
            array = make(start())
            problem, x = tetrahedron(array)
            view = topograd.view(problem, (array, FACES), handle_weight=1000, **CPU)
            page = Page(view.url)
            page.pull(3, [2, 0, 0])
            self.assertTrue(eventually(lambda: np.abs(view.positions[3] - [2, 0, 0]).max() < 1e-3),
                            view.positions)
            page.close()
            view.close()
            np.testing.assert_allclose(array[3], [2, 0, 0], atol=1e-3)
            np.testing.assert_array_equal(array[0], [0, 0, 0])
            # The handle is gone: the edges have their lengths again.
            self.assertEqual(problem.sizes["rows"], 6)
            self.assertLess(problem.solve(**CPU).final_cost, 1e-12)

    def test_rests_at_the_solution(self):
        problem, x = tetrahedron(start())
        with topograd.view(problem, x, **CPU) as view:
            self.assertTrue(eventually(lambda: view.cost < 1e-15), view.cost)
            edges = [np.linalg.norm(view.positions[a] - view.positions[b])
                     for a, b in zip(*np.triu_indices(4, 1))]
            np.testing.assert_allclose(edges, 1, atol=1e-6)

    def test_points_that_stand_for_parameters(self):
        flat = np.arange(10.0).reshape(5, 2)
        problem = topograd.Problem()
        scale = problem.parameters([1.0])
        x = problem.parameters(flat)
        problem.residuals(lambda p: p - 1.0, x)
        problem.residuals(lambda s: s - 2.0, scale)
        for points in (None, x, flat, flat[1:3], flat.copy(), flat.tolist()):
            with topograd.view(problem, points, lines=[[0, 1]], **CPU) as view:
                scene = json.loads(get(view.url + "scene.json"))
                self.assertEqual((scene["points"], scene["lines"]), (5, 1))

    def test_quadrangles_are_cut(self):
        problem, x = tetrahedron(start())
        with topograd.view(problem, (x, [[0, 1, 2, 3]]), **CPU) as view:
            self.assertEqual(json.loads(get(view.url + "scene.json"))["triangles"], 2)

    def test_the_problem_belongs_to_the_page(self):
        problem, x = tetrahedron(start())
        with topograd.view(problem, x, **CPU):
            for call in (problem.solve, problem.cost, problem.gradient, lambda: problem.fix(x[1]),
                         lambda: problem.parameters([1.0]), lambda: topograd.view(problem, x)):
                with self.assertRaisesRegex(RuntimeError, "open in a view"):
                    call()
            self.assertIn("Problem", repr(problem))
        self.assertGreaterEqual(problem.cost(), 0)

    def test_mistakes(self):
        problem, x = tetrahedron(start())
        other = tetrahedron(start())[1]
        for arguments, options, message in (
                (((x, [[0, 1, 9]]),), {}, "expected points in 0 .. 4 - 1"),
                (((x, [[0, -1, 2]]),), {}, "expected points in 0 .. 4 - 1"),
                (((x, [[0.5, 1, 2]]),), {}, "whole numbers of shape"),
                (((x, FACES, x),), {}, "expected .vertices, faces."),
                ((np.zeros((7, 3)),), {}, r"with shapes \(4, 3\), got shape \(7, 3\)"),
                ((other,), {}, "got those of another one"),
                ((x,), {"lines": [[0, 1, 2]]}, r"of shape \(m, 2\)"),
                ((x,), {"host": "0.0.0.0"}, "allow-remote"),
                ((x,), {"port": 70000}, "port in 0 .. 65535"),
                ((x,), {"max_iterations": 3}, "expected steps instead of max_iterations"),
                ((x,), {"steps": -1}, "max_iterations"),
                ((x,), {"handle_weight": -1}, "handle_weight >= 0")):
            with self.assertRaisesRegex(ValueError, message):
                topograd.view(problem, *arguments, **options)
        with self.assertRaisesRegex(TypeError, "unknown option 'nonsense'"):
            topograd.view(problem, x, nonsense=1)
        with self.assertRaisesRegex(ValueError, "a problem with parameters"):
            topograd.view(topograd.Problem())
        self.assertLess(problem.solve(**CPU).final_cost, 1e-12)

    def test_programs_end_with_an_open_page(self):
        program = ("import numpy, topograd; p = topograd.Problem(); x = p.parameters(numpy.eye(3)); "
                   "p.residuals(lambda a: a - 1.0, x); topograd.view(p, x, backend='cpu'); "
                   "v = topograd.view; print('end')")
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                             timeout=60)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "end\n", ""))


if __name__ == "__main__":
    unittest.main()
