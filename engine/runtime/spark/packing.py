"""An archive of what tasks on other machines need of Python: the engine and the packages that its operators import.

Executors unpack it beside them (`spark.archives`) and run its `bin/python`, a link to the interpreter of their own machine.
"""

from __future__ import annotations

import io
import re
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from engine.errors import EnvironmentNotReady

NEEDED = ("boto3", "cronsim", "msgspec", "numpy", "pandas", "pyarrow", "sqlglot", "sqlglotc", "xxhash")
"""Distributions that tasks import; pyspark itself is that of the executor's own Spark."""
LEFT_OUT = frozenset({"__pycache__", "tests", "include"})
SUFFIX = ".tar.gz"
_QUICK = 3
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def pack_archive(path: Path, python: str | None = None) -> int:
    """Write the archive and return its bytes; `python` is where workers have this Python, by default where it is here.

    Raises EnvironmentNotReady for another kind of archive, or if a package is not installed.
    """
    if not path.name.endswith(SUFFIX):
        raise EnvironmentNotReady(f"{path} is no name that Spark would unpack by: end it with {SUFFIX}")
    interpreter = Path(python or Path(sys.executable).resolve())
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = f"lib/{version}/site-packages"
    partial = path.with_name(f".{path.name}.part")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=_QUICK) as archive:
            for name in ("python", "python3", version):
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, str(interpreter)
                archive.addfile(link)
            config = f"home = {interpreter.parent}\ninclude-system-site-packages = false\n".encode()
            file = tarfile.TarInfo("pyvenv.cfg")
            file.size = len(config)
            archive.addfile(file, io.BytesIO(config))
            for source, name in _list_files():
                archive.add(source, f"{packages}/{name}", recursive=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path.stat().st_size


def _list_files() -> Iterator[tuple[Path, str]]:
    """Yield the files of the engine and of what it needs, each with its name below site-packages."""
    engine = Path(__file__).resolve().parents[2]
    for path in sorted(engine.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path, path.relative_to(engine.parent).as_posix()
    for found in _collect_distributions():
        for file in found.files or ():
            if ".." not in file.parts and not LEFT_OUT.intersection(file.parts):
                yield Path(str(found.locate_file(file))), file.as_posix()


def _collect_distributions() -> list[Distribution]:
    """Return the distributions that are needed, and those that they require, as far as they are installed."""
    found: dict[str, Distribution] = {}
    pending = list(NEEDED)
    while pending:
        name = re.sub(r"[-_.]+", "-", pending.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            if name in NEEDED:
                raise EnvironmentNotReady(
                    f"{name} is not installed here, and tasks need it: run `make setup`"
                ) from None
            continue
        for requirement in found[name].requires or ():
            if "extra ==" not in requirement and (match := _NAME.match(requirement)):
                pending.append(match[0])
    return [found[name] for name in sorted(found)]
