"""What tests of the sink share: the statement of one, its options, and an audit of what was written to its table."""

from __future__ import annotations

from tests.connectors.postgres.server import PASSWORD_VARIABLE, Database

GIVEN = {
    "connector": "postgres",
    "hostname": "127.0.0.1",
    "port": "1",
    "database": "shop",
    "username": "writer",
    "table": "public.orders",
}
AUDIT = (
    "CREATE TABLE audit (number bigserial, what text, id bigint, v text)",
    "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.audit (what, id, v) VALUES "
    "(TG_OP, coalesce(NEW.id, OLD.id), CASE TG_OP WHEN 'DELETE' THEN NULL ELSE NEW.v END); RETURN NULL; END $$",
    "CREATE TABLE t (id bigint PRIMARY KEY, v text)",
    "CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note()",
)
"""Statements that make a table t (id, v) of which each change is noted in the table audit."""


def write(name: str = "s", source: str = "t", **options: str) -> str:
    """Return a CREATE SINK; an option that is empty is left out."""
    texts = {name: value for name, value in {**GIVEN, **options}.items() if value}
    return f"CREATE SINK {name} FROM {source} WITH ({', '.join(f'{n} = {v!r}' for n, v in texts.items())})"


def place(database: Database, table: str = "t", **more: str) -> dict[str, str]:
    """Return the options that name a table of a database."""
    return {
        "port": str(database.port),
        "database": database.name,
        "username": "tideline",
        "password_variable": PASSWORD_VARIABLE,
        "table": table,
        **more,
    }
