"""Many processes commit to one store at the same time: on disk, on moto's S3, and on a real Ceph gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hummock.ceph import KEYS, CephGateway, missing_programs
from tests.hummock.race import check, race

SLICE = (4, 10)
WHOLE = (16, 50)


@pytest.fixture(scope="module")
def ceph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a Ceph gateway that lives as long as this module's tests."""
    if missing := missing_programs():
        pytest.skip(f"{', '.join(missing)} not on PATH: install ceph-mon, ceph-osd, radosgw and ceph-common")
    with CephGateway(tmp_path_factory.mktemp("ceph") / "cluster") as gateway:
        yield gateway.url


@pytest.fixture
def ceph_url(ceph: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty store on Ceph."""
    given = {"ENDPOINT_URL": ceph, "ACCESS_KEY_ID": KEYS[0], "SECRET_ACCESS_KEY": KEYS[1]}
    for name, value in {**given, "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    return "s3://tideline/race"


@pytest.mark.parametrize("size", [SLICE, pytest.param(WHOLE, marks=pytest.mark.crash)], ids=str)
def test_racing_processes_on_a_directory_leave_contiguous_manifests(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    check(race((tmp_path / "store").as_uri(), tmp_path / "cache", *size), *size)


@pytest.mark.long
@pytest.mark.parametrize("size", [SLICE, pytest.param(WHOLE, marks=pytest.mark.crash)], ids=str)
def test_racing_processes_on_moto_leave_contiguous_manifests(
    tmp_path: Path, s3_url: str, size: tuple[int, int]
) -> None:
    check(race(s3_url, tmp_path / "cache", *size), *size)


@pytest.mark.crash
@pytest.mark.s3
def test_racing_processes_on_ceph_leave_contiguous_manifests(tmp_path: Path, ceph_url: str) -> None:
    check(race(ceph_url, tmp_path / "cache", *WHOLE), *WHOLE)
