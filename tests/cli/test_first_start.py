"""What is made ahead of the first start: the compiled modules of a checkout, whatever processes may write themselves."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from engine.cli.first_start import compile_modules

TELLS = "import sys, pack.inner; print(pack.inner.__cached__, pack.inner.VALUE)"


def test_modules_are_compiled_again_when_they_have_changed_and_found_by_who_may_not_write_them(
    tmp_path: Path,
) -> None:
    module = tmp_path / "pack" / "inner.py"
    module.parent.mkdir()
    (module.parent / "__init__.py").write_text("")
    (tmp_path / "loose.py").write_text("")
    for value in (1, 22):
        module.write_text(f"VALUE = {value}\n")
        os.utime(
            module, (1_700_000_000 + value, 1_700_000_000 + value)
        )  # changes are told apart by the second
        compile_modules(tmp_path)
        compiled = Path(importlib.util.cache_from_source(str(module)))
        written = compiled.stat().st_mtime_ns
        compile_modules(tmp_path)
        assert compiled.stat().st_mtime_ns == written
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-v", "-c", TELLS]
        output = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        assert output.stdout.split() == [str(compiled), str(value)]
        assert f"code object from '{compiled}'" in output.stderr
    assert not (tmp_path / "__pycache__").exists()


def test_a_module_that_cannot_be_compiled_stops_nothing(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "broken.py").write_text("def (:\n")
    compile_modules(tmp_path)
    assert Path(importlib.util.cache_from_source(str(package / "__init__.py"))).is_file()
