"""A function in Python as the catalog has it, and the name by which plans and Spark call it: that of its content.

A plan names the function with a digest of its text, so that another text is another plan, and a view that still answers by the
old text calls the old function. Which text a name stands for never changes, so a process keeps what it has seen.
"""

from __future__ import annotations

import hashlib
import re
from functools import cached_property

import msgspec

PREFIX = "tideline_python_"
RESULT, PROBLEM = "result", "problem"
"""The fields of what a call gives: the value, and what is wrong where there is none."""
ARGUMENT = "a"
"""Before the number of an argument: the fields of the rows that an aggregate is given."""
FUNCTION, FAILED, NOT_LOADED = "function", "failed on", "cannot be loaded"
"""What a problem of a row says before and behind the function's name."""
NOT_DECLARED = "which is not declared DETERMINISTIC"
DECLARE = (
    "declare it DETERMINISTIC if it gives the same value for the same arguments each time: "
    "a row that leaves a view is computed again, and must be the one that came"
)
_NOT_PLAIN = re.compile(r"[^a-z0-9_]")
_known: dict[str, PythonFunction] = {}


class PythonFunction(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """A function: names and types (Spark type strings) of its parameters, the type of its value, its text.

    With `strict` it is not called where an argument is null. An `aggregate` is called with all rows of a group.
    """

    name: str
    parameters: tuple[tuple[str, str], ...]
    returns: str
    body: str
    strict: bool = False
    deterministic: bool = False
    aggregate: bool = False

    @cached_property
    def call_name(self) -> str:
        """The name by which it is called in plans."""
        digest = hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]
        return f"{PREFIX}{_NOT_PLAIN.sub('_', self.name.lower())}_{digest}"

    @property
    def entry(self) -> str:
        """The name that the text defines: that of the function, without its schema."""
        return self.name.rsplit(".", 1)[-1]

    @property
    def signature(self) -> str:
        """The function's name with its parameters, as a message says it."""
        return f"{self.name}({', '.join(f'{name} {kind}' for name, kind in self.parameters)})"


def remember(function: PythonFunction) -> PythonFunction:
    """Keep which function a name in plans stands for, for as long as this process lives; return the function."""
    return _known.setdefault(function.call_name, function)


def find_known(call_name: str) -> PythonFunction | None:
    """Return the function that a name in plans stands for, None for any other name."""
    return _known.get(call_name)


def list_known() -> tuple[PythonFunction, ...]:
    """Return all functions that this process has seen, in the order in which it has."""
    return tuple(_known.values())


def is_problem(message: str) -> bool:
    """Tell whether a message is a problem of a row that a call has given."""
    return message.startswith(f"{FUNCTION} ") and (f" {FAILED} (" in message or f" {NOT_LOADED}: " in message)
