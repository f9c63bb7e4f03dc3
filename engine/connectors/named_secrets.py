"""Secrets by their names: a statement names one, and this process finds it in its environment or in a mounted folder."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.connectors.contract.connector import StatementProblem
from engine.errors import SourceError

FOLDER = "TIDELINE_SECRETS"
"""The variable of the folder whose files are secrets, each under its name."""
MOST_BYTES = 1 << 16
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class NamedSecret:
    """The name of a secret, and the option that gives it."""

    name: str
    option: str

    def read(self) -> str:
        """Return the secret, from the environment or else from its file; raises SourceError if neither has it."""
        found = os.environ.get(self.name)
        if found:
            return found
        folder = os.environ.get(FOLDER)
        if not folder:
            raise SourceError(
                f"the variable {self.name}, which {self.option} names, is not set: set it where this process runs, or name in "
                f"{FOLDER} the folder that holds a file {self.name}"
            )
        return self._read_file(Path(folder) / self.name)

    def _read_file(self, path: Path) -> str:
        asked = f"the secret {self.name}, which {self.option} names"
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
            text = data.decode()
        except FileNotFoundError as error:
            raise SourceError(
                f"{asked}, is no variable that is set, and there is no file {path}: set one where this process runs"
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise SourceError(f"{asked}, can't be read from {path}: {reason}: correct the file") from error
        secret = text.removesuffix("\n").removesuffix("\r")
        if not secret or len(data) > MOST_BYTES:
            what = "is empty" if not secret else f"has more than {MOST_BYTES:,} bytes"
            raise SourceError(f"{asked}, can't be read from {path}: the file {what}: correct it")
        return secret


def validate_name(options: Mapping[str, str], option: str) -> StatementProblem | None:
    """Return why an option, if it is given, names no secret, None if it does."""
    if option not in options or _NAME.fullmatch(options[option]):
        return None
    message = f"{option} is the name of a variable, and no password"
    return StatementProblem(option, message, f"write {option} = 'SHOP_PASSWORD', and set that")
