"""What tests of commands share."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line, in this process."""
    return CommandLine(capsys)
