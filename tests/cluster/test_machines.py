"""Machines see neither the outside's folders nor its network, and go with who has made them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cluster.machines import ROOT, SPARK, Machine, Network, await_end
from tests.cluster.standalone import can_make_machines

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not can_make_machines(), reason="making machines takes root on Linux"),
]
HOLDER = """
import signal
from tests.cluster.machines import Network
with Network() as network:
    network.machine("one").start(["sleep", "600"])
    print(network.bridge, network.folder, network.sweeper.pid, flush=True)
    signal.pause()
"""


def said(machine: Machine, *words: str, bare: bool = False) -> str:
    started = machine.start(words, bare=bare, output=subprocess.PIPE)
    out, _ = started.communicate(timeout=60)
    return str(out.decode())


def is_left(mark: str) -> bool:
    lines = [
        subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout
        for words in (("netns", "list"), ("link",))
    ]
    return mark in "".join(lines)


def test_a_machine_has_an_address_and_folders_of_its_own() -> None:
    with Network() as network:
        one, other = network.machine("one"), network.machine("two")
        assert one.address != other.address
        assert said(one, "ls", str(ROOT)).split() == sorted(
            path.name for path in ROOT.iterdir() if path.name[0] != "."
        )
        assert said(one, "ls", str(ROOT), bare=True) == ""
        assert "jars" in said(one, "ls", SPARK, bare=True)
        assert f"inet {one.address}/24" in said(one, "ip", "addr") and other.address not in said(
            one, "ip", "addr"
        )
        assert said(one, "ip", "route").split()[0] == f"{one.address.rpartition('.')[0]}.0/24"
    assert not is_left(network.bridge) and not network.folder.exists()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_machines_go_with_a_process_that_is_ended(sign: signal.Signals) -> None:
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        assert holder.stdout is not None
        bridge, folder, sweeper = holder.stdout.readline().decode().split()
        sweeping = os.pidfd_open(int(sweeper))
        assert is_left(bridge)
        holder.send_signal(sign)
        holder.wait()
    await_end(sweeping, "what takes the machines away")
    assert not is_left(bridge) and not os.path.exists(folder)
