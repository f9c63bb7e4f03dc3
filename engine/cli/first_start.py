"""`python -m engine.cli.first_start`: what a first start would leave behind, made ahead, so that later ones are fast.

The classes of what most sessions run (`local_java`), and the compiled modules of a checkout: pip compiles what it installs, and a
process of which PYTHONDONTWRITEBYTECODE is set compiles five hundred modules anew each time.
"""

from __future__ import annotations

import compileall
import sys
import tempfile
from pathlib import Path

from engine.errors import EnvironmentNotReady
from engine.runtime.spark.local_java import record_archive

PROJECT = Path(__file__).resolve().parents[2]
STATEMENTS = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR, amount DECIMAL(12, 2), at TIMESTAMP, note VARCHAR);
CREATE TABLE visits (customer VARCHAR, day DATE, pages INT);
INSERT INTO orders VALUES (1, 'ann', 10.50, TIMESTAMP '2024-01-01 10:00:00', 'a'), (2, 'bob', 3, NULL, NULL);
INSERT INTO visits VALUES ('ann', DATE '2024-01-01', 3), ('ann', DATE '2024-01-01', 3), ('cid', NULL, 1);
CREATE MATERIALIZED VIEW by_customer AS
  SELECT customer, count(*) AS orders, sum(amount) AS spent, max(at) AS latest, count(DISTINCT note) AS notes
  FROM orders WHERE id > 0 GROUP BY customer;
CREATE MATERIALIZED VIEW paired AS
  SELECT o.id, o.customer, v.pages + 1 AS pages, CASE WHEN v.day IS NULL THEN upper(o.note) ELSE 'x' END AS told
  FROM orders o LEFT JOIN visits v ON o.customer = v.customer;
CREATE MATERIALIZED VIEW ranked AS
  SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY customer ORDER BY amount DESC) AS r FROM orders) t WHERE r <= 2;
CREATE MATERIALIZED VIEW known AS SELECT DISTINCT customer FROM orders WHERE customer IN (SELECT customer FROM visits);
INSERT INTO orders VALUES (3, 'cid', 1, TIMESTAMP '2024-01-02 10:00:00', 'b');
INSERT INTO visits SELECT customer, at::date, 1 FROM orders;
UPDATE orders SET amount = amount + 1 WHERE customer = 'ann';
DELETE FROM orders WHERE id = 2;
SELECT * FROM by_customer ORDER BY spent DESC LIMIT 2;
SELECT p.told, b.spent, avg(p.pages) FROM paired p JOIN by_customer b ON p.customer = b.customer GROUP BY 1, 2;
SELECT k.customer, row_number() OVER (ORDER BY k.customer) FROM known k UNION ALL SELECT customer, pages FROM visits
"""


def run_statements() -> None:
    """Run STATEMENTS in a store that nobody sees."""
    from engine.session import Session

    with (
        tempfile.TemporaryDirectory(prefix="tideline-first-start-") as folder,
        Session(Path(folder).as_uri(), "local[*]", dialect="postgres") as session,
    ):
        session.sql("SET implicit_flush = true")
        for statement in STATEMENTS.split(";"):
            session.sql(statement)


def compile_modules(project: Path = PROJECT) -> None:
    """Compile the modules of a checkout that are not compiled yet, or have changed; what can't be written is left."""
    for package in sorted(folder.parent for folder in project.glob("*/__init__.py")):
        compileall.compile_dir(package, quiet=2)


def write_archive() -> None:
    """Write the archive of a first start, or tell in one sentence why there is none, which is no error."""
    try:
        why = "" if record_archive(("-m", "engine.cli.first_start", "--run")) else "Java wrote none"
    except (EnvironmentNotReady, OSError) as error:
        why = str(error)
    if why:
        print(f"note: Spark will start without an archive of its classes: {why}", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:] == ["--run"]:
        run_statements()
    else:
        compile_modules()
        write_archive()
