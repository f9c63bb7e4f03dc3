"""What is offered by name: the project's own classes, those of installed packages, and what a process has registered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from typing import Generic, Protocol, TypeVar

from engine.errors import TidelineError


class Plugin(Protocol):
    """What has a name by which statements call it."""

    name: str


Offered = TypeVar("Offered", bound=Plugin)


class PluginRegistry(Generic[Offered]):
    """Connectors of one direction by name; `group` is that of the entry points by which packages offer classes."""

    def __init__(self, group: str, own: Iterable[Callable[[], Offered]], error: type[TidelineError]) -> None:
        self.group, self._own, self._error = group, tuple(own), error
        self._known: dict[str, Offered] | None = None

    def list_plugins(self) -> Mapping[str, Offered]:
        """Return all that is offered; packages are asked once a process."""
        if self._known is None:
            known: dict[str, Offered] = {}
            for kind in (*self._own, *(found.load() for found in entry_points(group=self.group))):
                self._add(known, kind())
            self._known = known
        return self._known

    def register(self, offered: Offered) -> None:
        """Offer something in this process; raises an error where its name is taken by another kind."""
        known = dict(self.list_plugins())
        self._add(known, offered)
        self._known = known

    def _add(self, known: dict[str, Offered], offered: Offered) -> None:
        other = known.get(offered.name)
        if other is not None and type(other) is not type(offered):
            raise self._error(f"the connector '{offered.name}' is {type(other).__module__}'s already")
        known[offered.name] = offered

    def find(self, name: str) -> Offered:
        """Return what has a name; raises an error for one that nothing has."""
        known = self.list_plugins()
        if name not in known:
            raise self._error(
                f"there is no connector '{name}' in this process: install the package that offers it, or register it; connectors "
                f"are {', '.join(known)}"
            )
        return known[name]
