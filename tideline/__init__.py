"""The face of Tideline: sessions with SQL in and Arrow out, the storage engine, and the errors that both raise."""

from engine.errors import TidelineError
from engine.hummock import Delete, Hummock, Put
from engine.session import Session

__all__ = ["Delete", "Hummock", "Put", "Session", "TidelineError", "__version__"]

__version__ = "0.1.0"
