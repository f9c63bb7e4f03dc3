"""Where the files of a sink go, and whether they may: a project's sinks write in its home, unless a setting says more."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from engine.connectors.confinement import allowed_bucket, allowed_path, defined_home, is_address


def check_reachable(url: str) -> None:
    """Raise PathNotAllowed if an address leads out of the project's home; where nobody has defined one any place will do."""
    if is_address(url):
        allowed_bucket(url)
        return
    home = defined_home()
    if home is not None and url.startswith("file:"):
        allowed_path(Path(unquote(urlsplit(url).path)), home)
