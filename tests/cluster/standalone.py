"""A standalone Spark cluster on machines of its own: a master, workers with one executor each, S3, and a driver."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from engine.jars import find_pyspark_folder
from tests.cluster.machines import SPARK, Machine, Network

MASTER_PORT, PAGE_PORT, S3_PORT, CONNECT_PORT = 7077, 8080, 5000, 15002
CORES, MEMORY = 1, "2g"
DEFAULTS = """\
spark.authenticate true
spark.authenticate.secret {secret}
spark.executor.memory 1g
spark.executor.cores 1
spark.network.timeout 60s
"""


class Cluster:
    """A running cluster; `master` is its address for `Session`."""

    def __init__(self, workers: int = 2) -> None:
        self.network = Network()
        self._count = workers
        self.workers: dict[str, Machine] = {}

    def __enter__(self) -> Cluster:
        self.network.__enter__()
        try:
            self._start()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.network.__exit__(kind, error, trace)

    def _start(self) -> None:
        conf = self.network.folder / "conf"
        conf.mkdir()
        self._secret = os.urandom(16).hex()
        self._defaults = DEFAULTS.format(secret=self._secret)
        (conf / "spark-defaults.conf").write_text(self._defaults)
        self.s3 = self.network.machine("s3")
        self.head = self.network.machine("master")
        self.driver = self.network.machine("driver")
        self.s3.start([sys.executable, "-m", "tests.s3_server", self.s3.address, str(S3_PORT)])
        own = self._environment(self.head)
        own["SPARK_MASTER_OPTS"] = f"-Dspark.authenticate=true -Dspark.authenticate.secret={self._secret}"
        words = [f"{SPARK}/bin/spark-class", "org.apache.spark.deploy.master.Master"]
        words += ["--host", self.head.address, "--port", str(MASTER_PORT), "--webui-port", str(PAGE_PORT)]
        self.head.start(words, own, bare=True)
        for number in range(self._count):
            name = f"worker{number}"
            self.workers[name] = self.network.machine(name)
            self.start_worker(name)
        self.s3.await_line("http://", "the S3 server does not answer")
        for name in self.workers:
            self.workers[name].await_line("Successfully registered with master", f"{name} does not register")

    @property
    def master(self) -> str:
        """The master's address."""
        return f"spark://{self.head.address}:{MASTER_PORT}"

    def start_worker(self, name: str) -> None:
        """Start a worker, also in the place of one that is gone."""
        machine = self.workers[name]
        own = self._environment(machine)
        own["SPARK_WORKER_OPTS"] = f"-Dspark.authenticate=true -Dspark.authenticate.secret={self._secret}"
        words = [
            f"{SPARK}/bin/spark-class",
            "org.apache.spark.deploy.worker.Worker",
            "--host",
            machine.address,
        ]
        words += [
            "--cores",
            str(CORES),
            "--memory",
            MEMORY,
            "--work-dir",
            str(self.network.work / name),
            self.master,
        ]
        machine.start(words, own, bare=True)

    def bucket(self) -> dict[str, str]:
        """Return the environment in which the S3 server is found."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.s3.address}:{S3_PORT}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def settings(self, packed: Path | None) -> dict[str, str]:
        """Return the environment of a driver: what a user sets for this cluster, and nothing that its machine has."""
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AWS_", "SPARK_", "PYSPARK_"))
        }
        own |= self.bucket() | {
            "SPARK_REMOTE": self.master,
            "TIDELINE_DRIVER_HOST": self.driver.address,
            "SPARK_CONF_DIR": str(self.network.folder / "conf"),
            "TIDELINE_DRIVER_MEMORY": "2g",
            "TIDELINE_CACHE_DIR": str(self.network.folder / "cache"),
        }
        return own | ({"TIDELINE_PACKED": str(packed)} if packed is not None else {})

    def drive(
        self,
        module: str,
        *arguments: str,
        packed: Path | None,
        more: Mapping[str, str] | None = None,
        machine: Machine | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a Python module as the driver, on its machine or another one; its output can be read."""
        words = [sys.executable, "-W", "ignore", "-m", module, *arguments]
        own = {**self.settings(packed), **(more or {})}
        return (machine or self.driver).start(words, own, output=subprocess.PIPE)

    @contextmanager
    def defaults(self, settings: Mapping[str, str]) -> Iterator[Path]:
        """Give a folder of Spark's own settings for a driver, with some more than the cluster's."""
        with tempfile.TemporaryDirectory(dir=self.network.folder) as folder:
            lines = "".join(f"{key} {value}\n" for key, value in settings.items())
            (Path(folder) / "spark-defaults.conf").write_text(self._defaults + lines)
            yield Path(folder)

    @contextmanager
    def connect_server(self, packed: Path) -> Iterator[str]:
        """Run a server of Spark Connect on the driver's machine, as docs/cluster.md says; yields its address."""
        own = self.settings(packed) | {"PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1"}
        del own["SPARK_REMOTE"]
        words = [sys.executable, "-m", "engine.cli", "cluster", "settings", self.master]
        output = subprocess.run(words, env=own, capture_output=True, text=True, check=True).stdout
        properties = self.network.folder / "connect.conf"
        properties.write_text(self._defaults + output)
        words = [str(find_pyspark_folder() / "bin" / "spark-class"), "org.apache.spark.deploy.SparkSubmit"]
        words += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        words += ["--properties-file", str(properties)]
        words += ["--conf", f"spark.connect.grpc.binding.address={self.driver.address}"]
        words += ["--conf", f"spark.connect.grpc.binding.port={CONNECT_PORT}", "spark-internal"]
        server = self.driver.start(words, own)
        try:
            self.driver.await_line("Spark Connect server started", "the Connect server does not start")
            yield f"sc://{self.driver.address}:{CONNECT_PORT}"
        finally:
            server.terminate()
            server.wait()

    def _environment(self, machine: Machine) -> dict[str, str]:
        """Return what a machine of the cluster has in its environment: Spark and the bucket, nothing of the project."""
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "JAVA_HOME")}
        return (
            kept
            | self.bucket()
            | {
                "SPARK_HOME": SPARK,
                "SPARK_NO_DAEMONIZE": "1",
                "SPARK_LOCAL_IP": machine.address,
                "SPARK_LOCAL_HOSTNAME": machine.address,
                "SPARK_DAEMON_MEMORY": "512m",
            }
        )


def can_make_machines() -> bool:
    """Tell whether this user may make network namespaces here."""
    return sys.platform == "linux" and os.geteuid() == 0 and hasattr(socket, "AF_PACKET")
