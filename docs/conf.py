"""How Sphinx builds the documentation: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

import tonframes

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "tonframes"
author = "the tonframes developers"
project_copyright = f"2026 {author}"
version = release = tonframes.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    # those in docs/extensions
    "docstrings",
    "names",
    "columns",
    "gallery",
    "outputs",
]
root_doc = "index"
exclude_patterns = ["**/.ipynb_checkpoints", "guide/measured/*.md"]  # those are parts of pages
templates_path = ["templates"]
default_role = "literal"
nitpicky = True

# ── pages and notebooks ──────────────────────────────────────────────────────────────────────────

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# Every build executes the pages, as their text is about the outputs. They leave their files in a
# temporary folder.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_show_tb = True  # a page that fails is a warning, and so an error of the build
nb_execution_timeout = 300
nb_merge_streams = True

# ── the reference ────────────────────────────────────────────────────────────────────────────────

autosummary_generate = True
autodoc_typehints = "none"  # the types are in the lists of parameters
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_use_plots = False

# ── the theme; the pages need no other host ──────────────────────────────────────────────────────

html_theme = "pydata_sphinx_theme"
html_title = "tonframes"
html_static_path = ["static"]
html_css_files = ["custom.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "github_url": "https://github.com/tonframes/tonframes",
    "logo": {"text": "tonframes"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": ["page-toc"],
}
html_context = {"default_mode": "auto"}
html_sidebars = {page: [] for page in ("index", "start", "checks")}
