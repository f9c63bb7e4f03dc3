"""The verdict on a driver that runs for long: what has grown is named, and a little is let pass."""

from dataclasses import replace

from benchmarks.long_driver import Reading

SETTLED = Reading(1_000, 0.2, 200.0, 900.0, 1_000.0, 180.0, 12, 14)


def test_a_driver_that_stays_as_it_is_has_not_grown() -> None:
    later = replace(SETTLED, epochs=10_000, seconds=0.22, workers_mib=1_090.0, files=20)
    assert later.find_growth(SETTLED) == []


def test_what_has_grown_is_named() -> None:
    later = replace(SETTLED, epochs=10_000, seconds=0.5, workers_mib=1_300.0, java_used_mib=400.0, files=90)
    assert later.find_growth(SETTLED) == [
        "workers_mib: 1000 to 1300 MiB",
        "java_used_mib: 180 to 400 MiB",
        "seconds an epoch: 0.200 to 0.500",
        "threads 12 to 12, files 14 to 90",
    ]
