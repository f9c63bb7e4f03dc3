"""For tests, also those of users: stores in memory, that fail by a plan, or are far away, and a clock that is moved by hand.

Nothing of the product imports it.

>>> clock = ManualClock()
>>> store = Hummock.open("memory://orders", object_store=MemoryObjectStore(clock), clock=clock)
"""

from engine.hummock.object_store.delayed import DelayedObjectStore
from engine.testing.faulty import Crashed, FaultPlan, FaultyObjectStore, RequestFault
from engine.testing.manual_clock import ManualClock
from engine.testing.memory import MemoryObjectStore

__all__ = [
    "Crashed",
    "DelayedObjectStore",
    "FaultPlan",
    "FaultyObjectStore",
    "ManualClock",
    "MemoryObjectStore",
    "RequestFault",
]
