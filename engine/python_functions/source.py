"""The text of a function: compiled and looked at when it is created, and run where it is called, once in a process."""

from __future__ import annotations

import ast
import contextvars
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from engine.python_functions.definition import PythonFunction

_REQUIRED, _OPTIONAL = ("create_state", "accumulate"), ("retract", "finish")
_NO_RESULT = (ast.Yield, ast.YieldFrom)


class WrongSource(ValueError):
    """The text is none of such a function; `line` is that of the text, 0 where it is of none."""

    def __init__(self, message: str, line: int, hint: str) -> None:
        super().__init__(message)
        self.line, self.hint = line, hint


def tidy_source(text: str) -> str:
    """Return a text without the indentation that all of its lines share, and without blank lines around it."""
    return textwrap.dedent(text).strip("\n").rstrip()


def name_file(function: PythonFunction) -> str:
    """Return what tracebacks call the text of a function."""
    return f"<function {function.name}>"


def check_source(function: PythonFunction) -> None:
    """Raise WrongSource for a text that does not define what the function is called by. Nothing of it is run."""
    try:
        tree = ast.parse(function.body, name_file(function))
        compile(tree, name_file(function), "exec")
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        line = getattr(error, "lineno", None) or 0
        reason = getattr(error, "msg", None) or str(error)
        raise WrongSource(
            f"it is no Python: {reason}", line, "write the body as a module is written"
        ) from error
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    asynchronous = {node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)}
    count = len(function.parameters)
    if not function.aggregate:
        _check_defined(defined, asynchronous, {function.entry: count})
        return
    wanted = {"create_state": 0, "accumulate": 1 + count}
    wanted |= {"finish": 1} if "finish" in defined or "finish" in asynchronous else {}
    _check_defined(defined, asynchronous, wanted)


def _check_defined(
    defined: Mapping[str, ast.FunctionDef], asynchronous: set[str], wanted: Mapping[str, int]
) -> None:
    for name, count in wanted.items():
        takes = ", ".join(f"a{n}" for n in range(1, count + 1))
        hint = f"write def {name}({takes}): … at the beginning of a line"
        if name in asynchronous:
            raise WrongSource(f"{name} is asynchronous, and nothing awaits it", 0, "leave async out")
        node = defined.get(name)
        if node is None and (other := next((one for one in defined if one.lower() == name.lower()), None)):
            hint = f"write def {name}(…): names of SQL that are not in quotes are in lower case"
            raise WrongSource(f"it defines {other}, and not {name}", defined[other].lineno, hint)
        if node is None:
            raise WrongSource(f"it does not define {name}", 0, hint)
        if any(isinstance(part, _NO_RESULT) for part in _walk_own(node)):
            raise WrongSource(f"{name} yields rows, and a value is wanted", node.lineno, "return one value")
        given = node.args
        positional = [*given.posonlyargs, *given.args]
        least = len(positional) - len(given.defaults)
        needs_names = any(default is None for default in given.kw_defaults)
        fits = least <= count and (count <= len(positional) or given.vararg is not None)
        if not fits or needs_names:
            raise WrongSource(f"{name} does not take {count} values by position", node.lineno, hint)


def _walk_own(node: ast.AST) -> list[ast.AST]:
    """Return what stands in a function, and in none inside it."""
    found: list[ast.AST] = []
    queue = list(ast.iter_child_nodes(node))
    while queue:
        part = queue.pop()
        found.append(part)
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            queue += ast.iter_child_nodes(part)
    return found


@dataclass(frozen=True)
class Loaded:
    """A function whose text has been run; of an aggregate `finish` gives the value of a state.

    Its `context` is what the text has set of variables of a thread, as the precision of decimals: no other function sees it.
    """

    context: contextvars.Context
    call: Callable[..., Any]
    create_state: Callable[[], Any] | None = None
    finish: Callable[[Any], Any] | None = None


@lru_cache(maxsize=256)
def load_function(function: PythonFunction) -> Loaded:
    """Run the text of a function, once in this process, and return what it defines; raises whatever the text does."""
    names: dict[str, Any] = {"__name__": f"tideline_function_{function.name}"}
    context = contextvars.Context()
    # a user's code is what this is for
    context.run(exec, compile(function.body, name_file(function), "exec"), names)
    if not function.aggregate:
        return Loaded(context, names[function.entry])
    return Loaded(context, names["accumulate"], names["create_state"], names.get("finish"))
