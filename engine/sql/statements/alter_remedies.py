"""What to do instead of forms of ALTER that are not offered, by the word after the name."""

from __future__ import annotations

_ANEW = "CREATE it under another name, DROP the old one, then ALTER … RENAME TO"
REMEDIES = {
    "AS": f"a view is always its query over all rows, so the old rows would have to go: {_ANEW}",
    "SWAP": "ALTER … RENAME TO three times, by a third name; what reads one of the two has to be created again",
    "ADD": "the columns of a view are those of its query: " + _ANEW,
}
