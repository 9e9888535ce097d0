"""The stub of the extension module has its names, and mypy finds no fault with the package."""

import ast
import pathlib
import shutil
import subprocess
import unittest

import topograd
from topograd import _core

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "topograd"


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


if __name__ == "__main__":
    unittest.main()
