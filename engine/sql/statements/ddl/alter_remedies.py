"""What to do instead of forms of ALTER that are not offered, by the word after the name."""

from __future__ import annotations

_ANEW = "CREATE it under another name, DROP the old one, then ALTER … RENAME TO"
REMEDIES = {
    "ADD": "the columns of a view are those of its query: " + _ANEW,
}
