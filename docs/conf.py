# Sphinx configuration of the manual; scripts/docs builds it.
import json
import pathlib
import re
import sys

from myst_parser.parsers.sphinx_ import MystParser
from pygments.lexer import RegexLexer
from pygments.token import Comment, Name, String, Text

root = pathlib.Path(__file__).parent.parent

project = "Topograd"
copyright = "the Topograd authors"
release = re.search(r"project\(topograd VERSION (\S+)", (root / "CMakeLists.txt").read_text()).group(1)
version = release

extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# The package's docstrings are read without its extension module.
sys.path.insert(0, str(root / "python"))
autodoc_mock_imports = ["scipy", "topograd._core"]
autodoc_typehints = "none"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

# scripts/docs runs Doxygen first and says where its XML is.
breathe_projects = {"topograd": str(root / "build" / "docs" / "doxygen" / "xml")}
breathe_default_project = "topograd"
breathe_default_members = ("members",)
breathe_show_include = False

html_theme = "furo"
html_title = f"Topograd {release}"
html_static_path = ["_static"]
html_css_files = ["topograd.css"]
html_js_files = ["versions.js", "switch.js"]
templates_path = ["_templates"]
html_sidebars = {"**": ["sidebar/brand.html", "versions.html", "sidebar/search.html", "sidebar/scroll-start.html",
                        "sidebar/navigation.html", "sidebar/scroll-end.html"]}
html_copy_source = False
html_show_sphinx = False
# Debian's furo has the colours of code for dark screens and lacks the others.
dark = {
    "color-foreground-primary": "#d6d8db", "color-foreground-secondary": "#9ca0a5", "color-foreground-muted": "#81868d",
    "color-foreground-border": "#666666", "color-background-primary": "#131416", "color-background-secondary": "#1a1c1e",
    "color-background-hover": "#1e2124", "color-background-hover--transparent": "#1e212400",
    "color-background-border": "#303335", "color-background-item": "#444444", "color-brand-primary": "#6cb2ff",
    "color-brand-content": "#6cb2ff", "color-highlighted-background": "#083563", "color-highlight-on-target": "#333300",
    "color-admonition-background": "#18181a", "color-api-background": "#1a1c1e", "color-api-overall": "#9ca0a5",
    "color-api-name": "#d6d8db", "color-api-pre-name": "#d6d8db", "color-api-paren": "#9ca0a5", "color-api-keyword": "#9ca0a5",
}
html_theme_options = {"navigation_with_keys": True, "dark_css_variables": dark}

pygments_style = "tango"
smartquotes_action = "q"  # options keep their two dashes
highlight_language = "text"


class CommandLexer(RegexLexer):
    """Commands: options are tokens, so that they are not broken at their dashes (topograd.css)."""

    name = "commands"
    tokens = {
        "root": [
            (r"(?:(?<=\s)|^)#.*", Comment),
            (r"'[^'\n]*'", String),
            (r"(?<![\w-])--?[A-Za-z][\w-]*", Name.Attribute),
            (r".|\n", Text),
        ]
    }


class NotebookParser(MystParser):
    """Notebooks as pages: their cells, what these printed, and their figures (scripts/notebooks runs them)."""

    supported = ("notebook",)

    def parse(self, inputstring, document):
        parts = []
        for cell in json.loads(inputstring)["cells"]:
            source = "".join(cell["source"])
            parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
            figure = re.match(r"# Figure: (.*)", source)
            for output in cell.get("outputs", []):
                if output["output_type"] == "stream":
                    parts.append("```text\n" + "".join(output["text"]) + "```")
                else:
                    parts.append(f"![{figure[1]}](data:image/png;base64,{output['data']['image/png'].strip()})")
        super().parse("\n\n".join(parts), document)


def join_scripts(app, _):
    """Debian's furo imports one script from another, which browsers refuse in scripts that are no modules."""
    furo = pathlib.Path(app.outdir) / "_static" / "scripts" / "furo.js"
    line = 'import Gumshoe from "./gumshoe-patched.js";'
    if furo.exists() and line in furo.read_text():
        furo.write_text((furo.parent / "gumshoe-patched.js").read_text() + furo.read_text().replace(line, ""))


def setup(app):
    app.connect("build-finished", join_scripts)
    app.add_lexer("sh", CommandLexer)
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
