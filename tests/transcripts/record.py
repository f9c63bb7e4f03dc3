"""Write what a judge answers into a session's file: `python -m tests.transcripts.record FILE… --postgres` or `--spark`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.transcripts.postgres import Answer
from tests.transcripts.script import Step, read


def main() -> None:
    """Ask the judge about each file, and say where it and the file do not agree on what is an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    judge = parser.add_mutually_exclusive_group(required=True)
    judge.add_argument("--postgres", action="store_true")
    judge.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    if given.postgres:
        from tests.transcripts.postgres import answers
    else:
        from tests.transcripts.spark_judge import answers
    for path in given.files:
        script = read(path)
        for step, answer in zip(script.steps, answers(script.steps), strict=True):
            if answer is not None and not {"only", "differs"} & set(step.marks):
                take(step, answer, path)
        path.write_text(script.written())


def take(step: Step, answer: Answer, path: Path) -> None:
    """Take an answer as what is expected; an error's fragment is the author's to write."""
    if answer.error is not None:
        if step.error is None:
            print(f"{path}:{step.place}: the judge says: {answer.error}\n{step.text}\n")
        step.types, step.rows, step.error = None, [], step.error if step.error is not None else "?"
        return
    if step.error is not None:
        print(f"{path}:{step.place}: no error of the judge's\n{step.text}\n")
    step.types, step.rows, step.error = answer.types, answer.rows, None


if __name__ == "__main__":
    main()
