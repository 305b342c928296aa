"""Settings of the site that ``scripts/docs`` builds with Sphinx.

Everything that a page needs comes with the site: it can be read from a disk, without a network.
Sphinx and not MkDocs, because docstrings are reStructuredText, and because MkDocs 1 and its theme
Material are at the end of their life. The pages are Markdown all the same (MyST).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from relay_int8 import __version__

project = "relay-int8"
author = "the relay-int8 authors"
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "cli_reference"]
myst_heading_anchors = 3  # links such as models.md#pytorch, as in the files on a code host
exclude_patterns = ["_extensions"]
highlight_language = "none"  # of indented blocks: commands, files, formulas
default_role = "code"
smartquotes = False  # options begin with two hyphens
nitpicky = False  # types of NumPy and TVM have no page here

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"relay-int8 {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
