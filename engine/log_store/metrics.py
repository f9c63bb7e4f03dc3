"""What went through a log store, in rows and bytes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Amount:
    """Rows and bytes."""

    rows: int = 0
    bytes: int = 0

    def add(self, rows: int, size: int) -> None:
        """Count more."""
        self.rows += rows
        self.bytes += size


@dataclass
class LogStoreMetrics:
    """Counters since the log store was opened; `buffered` and `peak_buffered_bytes` are its memory now and at most.

    `put`: taken from upstream. `flushed`: written because the buffer was full. `persisted`: made durable by a checkpoint because
    it still waited. `read`: handed downstream. `truncated`: handed downstream before a checkpoint, which has let go of it.
    """

    put: Amount = field(default_factory=Amount)
    buffered: Amount = field(default_factory=Amount)
    flushed: Amount = field(default_factory=Amount)
    persisted: Amount = field(default_factory=Amount)
    read: Amount = field(default_factory=Amount)
    truncated: Amount = field(default_factory=Amount)
    barriers: int = 0
    peak_buffered_bytes: int = 0
