"""The stub of the module has its names, mypy finds no fault, and the source archive is whole."""

import ast
import graphlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import topograd
from topograd import _core

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "topograd"
ROOT = PACKAGE.parents[1]


def names(thing):
    return {name for name in vars(thing) if not name.startswith("_")}


def declared(body):
    """Names of functions, classes and annotated variables."""
    named = {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    named.update({node.target.id: node for node in body if isinstance(node, ast.AnnAssign)})
    return {name: node for name, node in named.items() if not name.startswith("_")}


class Stubs(unittest.TestCase):
    def test_names(self):
        stub = declared(ast.parse((PACKAGE / "_core.pyi").read_text()).body)
        self.assertEqual(names(_core), set(stub))
        for name, node in stub.items():
            if isinstance(node, ast.ClassDef) and not issubclass(getattr(_core, name), Exception):
                self.assertEqual(names(getattr(_core, name)), set(declared(node.body)), name)

    @unittest.skipUnless(shutil.which("mypy"), "no mypy")
    def test_mypy(self):
        found = subprocess.run(
            ["mypy", "--cache-dir=/dev/null", "--ignore-missing-imports", "--follow-imports=silent",
             "-p", "topograd"], capture_output=True, text=True, cwd=PACKAGE.parent)
        self.assertEqual(found.returncode, 0, found.stdout)

    def test_docstrings(self):
        for name in topograd.__all__:
            if name == "__version__":
                continue
            self.assertTrue(getattr(topograd, name).__doc__, name)
            for member, value in vars(getattr(topograd, name)).items():
                if callable(value) and not member.startswith("_"):
                    self.assertTrue(value.__doc__, f"{name}.{member}")


def imported(file):
    """Modules of the package that a module imports, also within functions."""
    modules = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            modules |= {node.module} if node.module else {name.name for name in node.names}
    return {name for name in modules if (PACKAGE / f"{name}.py").exists()}


class Package(unittest.TestCase):
    def test_imports_form_no_circle(self):
        graph = {file.stem: imported(file) for file in PACKAGE.glob("*.py")}
        self.assertIn("_trace", graph["_shim"] | graph["_buffer"])
        graphlib.TopologicalSorter(graph).prepare()  # raises CycleError

    def test_source_archive(self):
        sys.path.insert(0, str(ROOT / "python" / "wheel"))
        self.addCleanup(sys.path.pop, 0)
        import backend

        with tempfile.TemporaryDirectory() as folder:
            name = backend.build_sdist(folder)
            with tarfile.open(os.path.join(folder, name)) as archive:
                files = set(archive.getnames())
                about = archive.extractfile(name[:-7] + "/PKG-INFO").read().decode()
        self.assertEqual(name, f"topograd-{topograd.__version__}.tar.gz")
        for file in ("pyproject.toml", "CMakeLists.txt", "LICENSE", "NOTICE", "scripts/build-python",
                     "python/src/module.cpp", "python/topograd/__init__.py"):
            self.assertIn(f"{name[:-7]}/{file}", files)
        self.assertIn(f"Version: {topograd.__version__}\n", about)
        self.assertIn("Requires-Python: ==%d.%d.*\n" % sys.version_info[:2], about)
        self.assertNotIn("@", about.split("\n\n")[0])


if __name__ == "__main__":
    unittest.main()
