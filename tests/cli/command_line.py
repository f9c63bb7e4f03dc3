"""The command line in this process: what a command prints, and with which status it ends."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from engine.cli.commands import main


@dataclass(frozen=True)
class CommandLine:
    """Runs commands of `tideline`; `capsys` is the test's."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str, status: int = 0) -> str:
        """Run one, hold its status against that, and return what it printed, on stderr as well."""
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = self.capsys.readouterr()
        assert ended.value.code == status, printed
        return printed.out + printed.err
