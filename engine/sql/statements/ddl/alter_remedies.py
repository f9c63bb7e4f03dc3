"""What to do instead of forms of ALTER that are not offered, by the word after the name."""

from __future__ import annotations

_ANEW = "CREATE it under another name, DROP the old one, then ALTER … RENAME TO"
REMEDIES = {
    "AS": f"a view is always its query over all rows, so the old rows would have to go: {_ANEW}",
    "ADD": "the columns of a view are those of its query: " + _ANEW,
}
