"""Bounds of the key column that follows those a row is looked up by: of the rows of a key only those within them are found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.arrow import Column
from engine.hummock.rows.ordering import bisect_keys, normalize_key, one_chunk


@dataclass(frozen=True)
class KeyRange:
    """Of each key the rows whose `column` is within its bounds; a null bound, and one that is not given, holds nothing back.

    `includes` says whether a row is found that is equal to (the low bound, the high bound).
    """

    column: str
    low: Column | None = None
    high: Column | None = None
    includes: tuple[bool, bool] = (True, True)

    def narrow(
        self, rows: pa.Table, key: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the first place and the one after the last, narrowed to the bounds of each key, in sorted `rows`."""
        stored = rows.select([self.column])
        if self.low is not None:
            low = _locate_bounds(
                stored, self.low, key, (low, high), right=not self.includes[0], otherwise=low
            )
        if self.high is not None:
            high = _locate_bounds(stored, self.high, key, (low, high), right=self.includes[1], otherwise=high)
        return low, np.maximum(low, high)


def _locate_bounds(
    stored: pa.Table,
    bounds: Column,
    key: np.ndarray,
    within: tuple[np.ndarray, np.ndarray],
    *,
    right: bool,
    otherwise: np.ndarray,
) -> np.ndarray:
    """Return where the bound of each key would stand, `otherwise` where it is null."""
    kind = stored.schema.field(0).type
    bound_values = one_chunk(normalize_key(bounds.cast(kind))).take(pa.array(key))
    sought = pa.table([bound_values], names=stored.column_names)
    low, high = within
    places = bisect_keys(stored, sought, low, np.maximum(low, high), right=right)
    return np.where(bound_values.is_null().to_numpy(zero_copy_only=False), otherwise, places)
