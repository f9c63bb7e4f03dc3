"""The prompt of `tideline sql`: statements over several lines until `;`, backslash commands, history, completion, paging."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from engine.cli.layout import TextColumn, render_columns
from engine.cli.printing import Format, find_output_width, format_result, print_table
from engine.cli.statements import StatementRunner
from engine.errors import SqlError, TidelineError
from engine.sql.dialect import Dialect

if TYPE_CHECKING:
    import pyarrow as pa
    from prompt_toolkit import PromptSession

HELP = """\
\\d          tables, views and sinks
\\d NAME     the columns of one, and the statement that made it
\\timing     show how long each statement takes, or stop to
\\?          this
\\q          leave; so does Ctrl-D
A statement ends with ; and may go over several lines. Ctrl-C drops what is typed, or cancels the statement that runs."""


class Shell:
    """Takes lines and runs what they say; the same for a person and for a pipe."""

    def __init__(self, statements: StatementRunner, output: Format, *, page: bool) -> None:
        self.statements, self.output, self.page = statements, output, page
        self.timing = False
        self.ended = False

    def run(self, text: str) -> None:
        """Run a backslash command, or one or more statements; raises TidelineError for what is wrong."""
        from engine.sql.statements.reader import split_statements

        if text.lstrip().startswith("\\"):
            self._run_command(text.strip().rstrip(";").rstrip())
            return
        for statement in split_statements(text, self.statements.dialect):
            began = time.monotonic()
            result = self.statements.run(statement)
            if result is not None:
                self._print(result)
            if self.timing:
                typer.echo(f"{time.monotonic() - began:.3f} s")

    def _run_command(self, text: str) -> None:
        word, _, name = text.partition(" ")
        match word, name.strip():
            case ("\\q", ""):
                self.ended = True
            case ("\\?", ""):
                typer.echo(HELP)
            case ("\\timing", ""):
                self.timing = not self.timing
                typer.echo(f"timing is {'on' if self.timing else 'off'}")
            case ("\\d", ""):
                for line in self._list_relations():
                    typer.echo(line)
            case ("\\d", relation):
                self._describe(relation)
            case _:
                raise SqlError(f"there is no command {text}", hint="\\? lists them")

    def _list_relations(self) -> Iterator[str]:
        found = self.statements.stored.catalog.relations
        visible = [
            (n, r.kind) for n, r in sorted(found.items()) if not n.startswith("_") and r.kind != "index"
        ]
        if not visible:
            return iter(["the store is empty"])
        names, kinds = [n for n, _ in visible], [k for _, k in visible]
        return render_columns((TextColumn("name", names), TextColumn("kind", kinds)), find_output_width())

    def _describe(self, name: str) -> None:
        described = self.statements.run(f"DESCRIBE {name}")
        if described is not None:
            self._print(described)
        relation = self.statements.stored.catalog.relations.get(name.strip('`"'))
        relation = relation or self.statements.stored.catalog.relations.get(name.lower())
        if relation is not None and relation.sql:
            typer.echo(f"\n{relation.sql}")

    def _print(self, result: pa.Table) -> None:
        if self.output is not Format.table:
            print_table(result, self.output)
            return
        lines = [*format_result(result, find_output_width())]
        if self.page:
            lines += [f"({result.num_rows:,} {'row' if result.num_rows == 1 else 'rows'})"]
            if len(lines) >= os.get_terminal_size().lines:
                # what fits stays on the screen, long lines are cut rather than broken, colours pass
                os.environ.setdefault("LESS", "-FRSX")
                typer.echo_via_pager("\n".join(lines) + "\n")
                return
        for line in lines:
            typer.echo(line)


def is_complete(text: str, dialect: Dialect) -> bool:
    """Tell whether what was typed is to be run: it ends with a semicolon outside of quotes, or is a backslash command."""
    from sqlglot import TokenType
    from sqlglot.errors import TokenError

    from engine.sql.parsing.tokens import tokenize

    if not text.strip() or text.lstrip().startswith("\\"):
        return True
    try:
        tokens = tokenize(text, dialect)
    except TokenError:
        return False
    return bool(tokens) and tokens[-1].token_type == TokenType.SEMICOLON


def run_lines(shell: Shell, lines: Iterable[str]) -> None:
    """Run what comes by a pipe; the first error ends it. A last statement needs no semicolon."""
    text = ""
    for line in lines:
        text += line
        if is_complete(text, shell.statements.dialect):
            shell.run(text)
            text = ""
        if shell.ended:
            return
    if text.strip():
        shell.run(text)


def run_prompt(shell: Shell, read: Callable[[], str] | None = None) -> None:
    """Ask for statements until `\\q` or Ctrl-D; errors are reported and the prompt goes on."""
    ask = read or _make_reader(shell.statements)
    typer.echo(f"{shell.statements.url}   \\? for help", err=True)
    while not shell.ended:
        try:
            shell.run(ask())
        except KeyboardInterrupt:
            typer.echo("cancelled", err=True)
        except EOFError:
            return
        except TidelineError as error:
            typer.echo(f"error: {error}", err=True)


def prepare_history_file() -> Path:
    """Return the file of what was typed, made for this user alone: statements may name passwords."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = state / "tideline" / "sql_history"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)
    return path


def _make_reader(statements: StatementRunner) -> Callable[[], str]:
    session = _build_prompt_session(statements)
    return lambda: session.prompt(f"{statements.dialect}> ")


def _build_prompt_session(statements: StatementRunner) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    from engine.cli.completion import NameCompleter

    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text, statements.dialect):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    history: History
    try:
        history = FileHistory(prepare_history_file())
    except OSError as error:
        print(f"note: what is typed is not kept: {error}", file=sys.stderr)
        history = InMemoryHistory()
    return PromptSession(
        history=history,
        completer=NameCompleter(lambda: statements.stored.catalog),
        complete_while_typing=False,
        key_bindings=keys,
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        prompt_continuation=lambda width, *_: "." * (width - 1) + " ",
        enable_history_search=True,
    )
