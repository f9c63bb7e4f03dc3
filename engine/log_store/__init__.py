"""Log stores: what stands between a fast producer and a slow consumer, so that neither waits for the other."""

from engine.log_store.log_table import LogTable
from engine.log_store.messages import Chunk, Message, Offset, WatermarkMessage
from engine.log_store.metrics import Amount, LogStoreMetrics
from engine.log_store.sync import LogCheckpoint, SyncLogStore
from engine.meta.epochs.barrier import Barrier

__all__ = [
    "Amount",
    "Barrier",
    "Chunk",
    "LogCheckpoint",
    "LogStoreMetrics",
    "LogTable",
    "Message",
    "Offset",
    "SyncLogStore",
    "WatermarkMessage",
]
