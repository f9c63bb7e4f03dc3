"""What a run tells while it works: the engine's warnings, and that it was ended early."""

import logging

import dagster as dg
import pytest

from dagster_tideline.runs.run_log import CANCELLED_TEXT, forward_run_log


@pytest.mark.parametrize("error", [KeyboardInterrupt, None])
def test_warnings_of_the_engine_and_an_early_end_are_told_in_the_log_of_the_run(
    error: type[BaseException] | None,
) -> None:
    @dg.op
    def work(context: dg.OpExecutionContext) -> None:
        with forward_run_log(context):
            logging.getLogger("engine.hummock").warning("no answer from %s", "the bucket")
            logging.getLogger("engine.hummock").info("nothing to speak of")
            logging.getLogger("engine.runtime.spark.ui").info("Spark shows what it does at %s", "its page")
            if error is not None:
                raise error

    @dg.job
    def job() -> None:
        work()

    with dg.DagsterInstance.ephemeral() as instance:
        if error is None:
            job.execute_in_process(instance=instance)
        else:
            with pytest.raises(error):
                job.execute_in_process(instance=instance)
        (run,) = instance.get_runs()
        messages = [
            record.event_log_entry.user_message
            for record in instance.get_records_for_run(run.run_id).records
            if not record.event_log_entry.is_dagster_event
        ]
    page = "Spark shows what it does at its page"
    assert messages == ["no answer from the bucket", page, *([CANCELLED_TEXT] if error is not None else [])]
    assert not logging.getLogger("engine").handlers
