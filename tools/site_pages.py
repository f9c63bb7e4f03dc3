"""Hooks of MkDocs: README, CONTRIBUTING and CHANGELOG are pages of the site, links lead there, drawings are pictures.

`mkdocs.yml` names this file. The pages are read as they are for GitHub; nothing is written into `docs`.
"""

from __future__ import annotations

import hashlib
import logging
import posixpath
import re
from pathlib import Path
from typing import Any

import mermaidx
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_SOURCES = {uri: name for name, uri in ROOT_PAGES.items()}
_LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(\s*([^)\s]+)\s*\)")
_CODE = re.compile(r"^( *)```.*?^\1```$|`[^`]+`", re.MULTILINE | re.DOTALL)
_DRAWING = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LOG = logging.getLogger("mkdocs.hooks.site_pages")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that stand outside of `docs`."""
    for name, uri in ROOT_PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return a page's text with links as the site has them and drawings as pictures."""
    uri = page.file.src_uri
    if uri.startswith("decisions/"):
        page.meta.setdefault("search", {"boost": 0.3})  # what holds today comes before how it came about

    def draw(found: re.Match[str]) -> str:
        return _draw(found[1], uri, config, files)

    return _DRAWING.sub(draw, resolve_links(markdown, uri))


def _draw(text: str, uri: str, config: Any, files: Any) -> str:
    name = f"images/drawing-{hashlib.sha256(text.encode()).hexdigest()[:12]}.svg"
    if files.get_file_from_path(name) is None:
        files.append(File.generated(config, name, content=mermaidx.render(text).svg()))
    return f"![drawing]({posixpath.relpath(name, posixpath.dirname(uri) or '.')})"


def resolve_links(markdown: str, uri: str) -> str:
    """Return the text with each link as the page `uri` of the site needs it; code stays as it is."""
    done, at = [], 0
    for code in _CODE.finditer(markdown):
        done += [_resolve_prose(markdown[at : code.start()], uri), code[0]]
        at = code.end()
    return "".join([*done, _resolve_prose(markdown[at:], uri)])


def _resolve_prose(text: str, uri: str) -> str:
    return _LINK.sub(lambda found: _resolve_link(found, uri), text)


def _resolve_link(found: re.Match[str], uri: str) -> str:
    mark, text, target = found.groups()
    path, sign, anchor = target.partition("#")
    if not path or re.match(r"\w+:", target):
        return found[0]
    source = _SOURCES.get(uri, f"docs/{uri}")
    named = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if not (ROOT / named).exists():
        _LOG.warning("%s links to %s, which is not there", source, target)
    if (ROOT / named).is_dir():
        named = f"{named}/README.md"
    if named in ROOT_PAGES:
        to = ROOT_PAGES[named]
    elif named.startswith("docs/"):
        to = named.removeprefix("docs/")
    else:
        return text  # a file of the repository, which the site does not have
    return f"{mark}[{text}]({posixpath.relpath(to, posixpath.dirname(uri) or '.')}{sign}{anchor})"
