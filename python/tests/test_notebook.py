"""A notebook that Jupyter executes shows summaries and the live view, and its page answers.

Skipped without jupyter-nbconvert and ipykernel, which nothing else needs.
"""

import importlib.util
import os
import pathlib
import tempfile
import unittest

CELLS = [
    """\
import urllib.error, urllib.parse, urllib.request
import numpy as np
import topograd

faces = np.array([[0, 1, 2], [0, 2, 3]])
rest = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
p = topograd.Problem()
x = p.parameters(rest + 0.1)
p.residuals(lambda v: v - rest, x);""",
    "p.solve(backend='cpu')",
    "topograd.least_squares(lambda x: x - np.arange(3.0), np.zeros(3)).summary",
    "view = topograd.view(p, (x, faces))\nview",
    """\
def status(url):
    try:
        return urllib.request.urlopen(url, timeout=30).status
    except urllib.error.HTTPError as error:
        return error.code

print(status(view.url), status(urllib.parse.urljoin(view.url, "/")))""",
    "view.close()\nview",
]


def missing():
    """Names of the packages that are not there."""
    return [n for n in ("nbconvert", "nbformat", "ipykernel") if importlib.util.find_spec(n) is None]


@unittest.skipIf(missing(), f"not installed: {', '.join(missing())}")
class Notebook(unittest.TestCase):
    def test_shows_summaries_and_the_page(self):
        import nbformat
        from nbconvert.preprocessors import ExecutePreprocessor

        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
        with tempfile.TemporaryDirectory() as home:
            for variable in ("HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
                os.environ[variable] = str(pathlib.Path(home) / variable)
            os.mkdir(os.environ["HOME"])
            ExecutePreprocessor(timeout=120, kernel_name="python3").preprocess(notebook)
        outputs = [cell.outputs[-1] if cell.outputs else None for cell in notebook.cells]
        for summary in outputs[1:3]:
            self.assertIn("Termination", summary.data["text/html"])
        self.assertIn("<svg", outputs[1].data["text/html"])
        self.assertRegex(outputs[3].data["text/html"],
                         r'^<iframe src="http://127\.0\.0\.1:\d+/[0-9a-f]{32}/" width="100%"')
        self.assertEqual(outputs[4].text.split(), ["200", "404"])
        self.assertEqual(outputs[5].data["text/html"], "<p>This view is closed.</p>")


if __name__ == "__main__":
    unittest.main()
