"""The package with a NumPy that lacks what NumPy 2 has removed, in a process of its own.

The real NumPy is loaded with SciPy. Then its C API and its removed names go, and the package is
imported: what it needs of either is an error.
"""

import os
import subprocess
import sys
import unittest

import numpy

#: Members that NumPy 2 has removed, also those that later versions of it have.
REMOVED = (
    "DataSource NAN NINF NZERO NaN PINF PZERO Inf Infinity alltrue add_docstring add_newdoc "
    "add_newdoc_ufunc asfarray byte_bounds cast cfloat clongfloat compare_chararrays compat complex_ "
    "cumproduct deprecate deprecate_with_doc disp fastCopyAndTranspose find_common_type float_ geterrobj "
    "in1d infty issctype issubclass_ issubsctype longcomplex longfloat lookfor mat maximum_sctype msort "
    "nbytes obj2sctype product recfromcsv recfromtxt round_ row_stack safe_eval sctype2char sctypeDict "
    "sctypes seterrobj set_numeric_ops set_string_function singlecomplex sometrue source string_ "
    "tracemalloc_domain trapz typeDict unicode_ who").split()

PROGRAM = f"""
import os, sys, warnings
import numpy as np
import scipy.interpolate, scipy.optimize, scipy.sparse, scipy.spatial.transform, scipy.special
import scipy.signal, scipy.stats
import json, html, unittest, runpy, numpy.testing, numpy.random, numpy.polynomial
warnings.simplefilter("ignore")

for name in ("numpy.core.multiarray", "numpy.compat"):
    sys.modules[name] = None              # an import of it fails
for name in {REMOVED!r}:
    np.__dict__.pop(name, None)


def gone(name):
    raise AttributeError("NumPy 2 has no " + name)


np.__getattr__ = gone
sys.path.insert(0, os.path.dirname(sys.argv[1]))
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


@unittest.skipIf(numpy.__version__ >= "2", "this NumPy is without them")
class NumPy2(unittest.TestCase):
    def run_file(self, name):
        file = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
        found = subprocess.run([sys.executable, "-B", "-c", PROGRAM, file], capture_output=True,
                               text=True, timeout=600)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
        self.assertIn("OK", found.stderr)

    def test_without_the_c_api(self):
        self.run_file("test_reuse.py")
        self.run_file("test_sensitivity.py")
        self.run_file("test_fits.py")

    def test_no_file_names_the_old_modules(self):
        import topograd

        folder = os.path.dirname(topograd.__file__)
        for name in os.listdir(folder):
            if name.endswith((".py", ".so")):
                with open(os.path.join(folder, name), "rb") as file:
                    text = file.read()
                for word in (b"multiarray", b"numpy.core", b"np.core", b"numpy.compat"):
                    self.assertNotIn(word, text, name)


if __name__ == "__main__":
    unittest.main()
