# Sphinx configuration of the manual; scripts/docs builds it.
import pathlib
import re

root = pathlib.Path(__file__).parent.parent

project = "Topograd"
copyright = "the Topograd authors"
release = re.search(r"project\(topograd VERSION (\S+)", (root / "CMakeLists.txt").read_text()).group(1)
version = release

extensions = ["myst_parser", "breathe"]
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
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

pygments_style = "tango"
highlight_language = "text"
