"""`python -m tools.reference` writes docs/reference.md: all options, settings and variables, from the code's own tables.

`--check` writes nothing and ends with 1 where the page is not what would be written.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from engine.connectors.registry import OWN
from engine.connectors.sinks import options as sinks
from engine.connectors.sinks.registry import OWN as SINKS
from engine.connectors.table_options import WATERMARK_OPTIONS
from engine.runtime.reads.datasource import SOURCE_OPTIONS
from engine.sql.statements.options.delta_options import COPY_OPTIONS
from engine.sql.statements.options.view_options import CHANGEABLE, VIEW_OPTIONS, ViewOption
from engine.sql.statements.session.settings import ALIASES, SETTINGS, Setting
from tools.variables import GROUPS, EnvironmentVariable

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference.md"
WIDTH = 110
MANY = 8

HEAD = """\
<!-- written by `make pages` (python -m tools.reference); edit the tables in the code instead -->
# Reference

Every option of a WITH clause, every setting of a session and every environment variable that is read. A
statement that names another option or setting is refused, with what was perhaps meant.

- [Options of materialized views](#options-of-materialized-views)
- [Options of tables and sources](#options-of-tables-and-sources)
- [Options of sinks](#options-of-sinks)
- [Options of the Spark source](#options-of-the-spark-source)
- [Settings of a session](#settings-of-a-session)
- [Environment variables](#environment-variables)
"""


def render_page() -> str:
    """Return the page's text."""
    lines = [
        HEAD,
        *_render_views(),
        *_render_tables(),
        *_render_sinks(),
        *_render_source(),
        *_render_settings(),
        *_render_variables(),
    ]
    return "\n".join(lines) + "\n"


def _render_views() -> Iterator[str]:
    changed = [f"`{name}`" for name in CHANGEABLE]
    yield "## Options of materialized views\n"
    yield "`CREATE MATERIALIZED VIEW v WITH (option = 'value', …) AS SELECT …`; see [sql.md](sql.md).\n"
    yield from _wrap_text(
        f"{', '.join(changed[:-1])} and {changed[-1]} can be changed by `ALTER MATERIALIZED VIEW v SET (…)`; "
        "the others stay as the view was made."
    )
    yield ""
    for name, option in VIEW_OPTIONS.items():
        yield from _render_entry(name, _render_view_option(option))
    yield ""
    yield "### Of a view's own Delta table\n"
    yield "`… WITH (connector = 'delta', path = 'folder')`; see [sinks.md](sinks.md#delta-tables).\n"
    yield from _render_entries(COPY_OPTIONS)
    yield ""


def _render_view_option(option: ViewOption) -> str:
    without = f" Default: {option.default}." if option.default else ""
    return f"{option.meaning}. Values: {option.form}.{without}"


def _render_tables() -> Iterator[str]:
    yield "## Options of tables and sources\n"
    yield "A table without a connector has options only if it has a watermark; see [sql.md](sql.md#watermarks).\n"
    yield "### Of tables with a watermark\n"
    yield "`CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY WITH (late_rows = 'keep')`.\n"
    for name, option in WATERMARK_OPTIONS.items():
        yield from _render_entry(name, f"{option.meaning}. Values: {option.form}.")
    yield ""
    yield from _wrap_text("Installed packages may offer more; see [connectors.md](connectors.md).")
    for kind in OWN:
        page = f"; see [{kind.page}]({kind.page})" if kind.page else ""
        yield f"\n### `connector = '{kind.name}'`\n"
        yield f"`{kind.statement}`{page}.\n"
        yield from _render_entries(kind.options)
    yield ""


def _render_sinks() -> Iterator[str]:
    yield "## Options of sinks\n"
    yield "`CREATE SINK s FROM v WITH (…)`, `CREATE SINK s INTO t FROM v WITH (…)`; see [sinks.md](sinks.md).\n"
    yield from _render_entries(sinks.COMMON_OPTIONS)
    for kind in SINKS:
        yield f"\n### {kind.title}\n"
        yield from _render_entries(kind.options)
    yield ""


def _render_source() -> Iterator[str]:
    yield "## Options of the Spark source\n"
    yield '`spark.read.format("tideline").option("store", url).load("table")`; see [reads.md](reads.md).\n'
    yield from _render_entries(SOURCE_OPTIONS)
    yield ""


def _render_settings() -> Iterator[str]:
    own = {name: setting for name, setting in SETTINGS.items() if setting.meaning}
    read_only = {name: setting for name, setting in SETTINGS.items() if setting.read_only}
    by_notice: dict[str, list[str]] = {}
    for name, setting in SETTINGS.items():
        if setting.notice:
            by_notice.setdefault(setting.notice, []).append(name)
    yield "## Settings of a session\n"
    yield "`SET name = value`, `SET LOCAL`, `RESET name`, `SHOW name`, `SHOW VARIABLES`.\n"
    for name, setting in own.items():
        yield from _render_entry(name, _render_setting(name, setting))
    yield "\n### Told, and fixed\n"
    yield from _wrap_text(
        ", ".join(f"`{name}` ({setting.default})" for name, setting in read_only.items()) + "."
    )
    yield "\n### Taken, without a meaning here\n"
    yield "Clients of RisingWave and PostgreSQL send them. A value that asks for something is answered by a notice.\n"
    for notice, names in by_notice.items():
        yield from _render_notice(notice, names)
    yield ""


def _render_notice(notice: str, names: list[str]) -> list[str]:
    """Return the lines of settings that are answered by one notice; many stand in a block of their own."""
    if len(names) <= MANY:
        return _wrap_text(f"- {notice}: {', '.join(f'`{name}`' for name in names)}.", "  ")
    return [
        *_wrap_text(f"- {notice}:", "  "),
        "",
        "  ```text",
        *_wrap_text("  " + " ".join(names), "  "),
        "  ```",
        "",
    ]


def _render_setting(name: str, setting: Setting) -> str:
    others = [f"`{alias}`" for alias, target in ALIASES.items() if target == name]
    also = f" Also {', '.join(others)}." if others else ""
    return f"{setting.meaning}. Values: {setting.form_text}. Default: `{setting.default}`.{also}"


def _render_variables() -> Iterator[str]:
    yield "## Environment variables\n"
    for group, variables in GROUPS.items():
        yield f"### {group}\n"
        for name, variable in variables.items():
            yield from _render_entry(name, _render_variable(variable))
        yield ""
    yield "Buckets are found and opened as boto3 does it: `AWS_ENDPOINT_URL`, `AWS_PROFILE` and the like."


def _render_variable(variable: EnvironmentVariable) -> str:
    return f"{variable.meaning}. Default: {variable.default}."


def _render_entries(table: Mapping[str, str]) -> Iterator[str]:
    for name, meaning in table.items():
        yield from _render_entry(name, f"{meaning}.")


def _render_entry(name: str, text: str) -> Iterable[str]:
    return _wrap_text(f"- `{name}`: {text}", "  ")


def _wrap_text(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def main() -> None:
    """Write the page, or with `--check` tell whether it is as the code has it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; end with 1 where the page is stale"
    )
    text = render_page()
    if parser.parse_args().check:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == text else f"{PAGE} is stale: run make pages")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
