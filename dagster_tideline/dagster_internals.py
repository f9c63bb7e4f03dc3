"""All that is used of Dagster beyond its public names: each part with why, and with a test that it still means that.

Another release of Dagster may change any of it; tests/dagster/test_dagster_internals.py says then what is gone.
"""

from __future__ import annotations

from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    INPUT_DATA_VERSION_TAG_PREFIX,
    INPUT_EVENT_POINTER_TAG_PREFIX,
    NULL_EVENT_POINTER,
)
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.definitions.utils import is_valid_owner
from dagster._utils.schedules import is_valid_cron_string
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from dagster_shared.check import CheckError

__all__ = [
    "CODE_VERSION_TAG",
    "DATA_VERSION_TAG",
    "INITIAL_VERSION",
    "INPUT_POINTER",
    "INPUT_VERSION",
    "NULL_EVENT_POINTER",
    "CheckError",
    "TranslationFn",
    "TranslationFnResolver",
    "UnresolvedAssetJobDefinition",
    "is_valid_cron_string",
    "is_valid_owner",
]

# A driver's events are no results of assets: it writes the tags itself by which Dagster knows an asset's version and code
# (DATA_VERSION_TAG, CODE_VERSION_TAG), and those of all events are read back to compare them with the store.
INPUT_VERSION = f"{INPUT_DATA_VERSION_TAG_PREFIX}/"
"""Before an input's key: the version of the input that was read. Without it Dagster takes the input's newest event for it."""
INPUT_POINTER = f"{INPUT_EVENT_POINTER_TAG_PREFIX}/"
"""Before an input's key: its event; without it Dagster takes the input for a new dependency, and the asset for stale."""
INITIAL_VERSION = DEFAULT_DATA_VERSION.value
"""What Dagster takes for the version of an asset of which no event says one."""
# NULL_EVENT_POINTER says that an input was read at no event, so that the version alone counts.
# UnresolvedAssetJobDefinition is the type of what `define_asset_job` returns; nothing public names it.
# is_valid_owner tells which owners an asset may have; others are shown as text, for an asset with one of them is refused.
# is_valid_cron_string tells of a schedule in a header that it is none while there is a line and a column to show.
# CheckError is raised for what has the wrong type in an asset: it costs that asset and no other, as Dagster's own errors do.
# TranslationFn and its resolver read `translation` of a component's YAML, as the components of Dagster's integrations do.
