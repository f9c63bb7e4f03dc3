"""Every claim by which work is left out: what it says, who makes it, and how `TIDELINE_VERIFY=1` has it checked.

The checks stand with what relies on them: `hummock/sorted_files/assumption_checks.py` for the storage engine,
`runtime/epoch/assumption_checks.py` for epochs of views. A claim is about what is stored, not about what came in: what passes
a filter on the way may meet its other half in the table.
"""

from __future__ import annotations

from engine.verification import Assumption

NEW_KEYS = Assumption(
    "new keys",
    "none of the keys of this file stood in the table when it was committed, so its change has no old rows",
    "who writes the file: `Put(new_keys=True)`, `with_new_keys`",
    "looking up its keys in the version that the commit follows",
)
REPLACED = Assumption(
    "replaced",
    "the rows whose fingerprint a file names as replaced are those that stood in the table under its keys when it was committed, "
    "so the table's fingerprint moves without reading them",
    "who writes the file: `Reader.write_run(old=)`, `Hummock.ingest_batch(replaced=)`",
    "looking up its keys in the version that the commit follows, and adding up the fingerprints of the rows there",
)
SORTED = Assumption(
    "sorted",
    "these rows are in the order of hash and key, each key once",
    "`sorted_rows`, and compactions, which merge what is sorted",
    "sorting them before the object is written",
)
DESCRIBED = Assumption(
    "described",
    "the file holds no hash outside its range, and as many rows and deletions, as old, as the manifest says; by "
    "that lookups, scans and compactions leave files out",
    "`sst_info` when the file is written, `_measured` when it is compacted",
    "measuring the decoded file when a process opens it",
)
CACHED = Assumption(
    "cached",
    "a decoded file of the local cache holds what the object holds, so the object is not read",
    "`ArrowCache.store`, under a checksum",
    "decoding the object and comparing, when a process opens the cached file",
)
ROW_GROUPS = Assumption(
    "row groups left out",
    "no row group that was left out holds a row that is looked for",
    "the statistics in the file's footer",
    "decoding the whole file and counting the rows that are looked for",
)
UNCHANGED = Assumption(
    "unchanged",
    "a table without log entries in (a, b] has the same rows at a and at b, so who reads it has nothing to do",
    "`TableVersion.changes` and `first_change`",
    "comparing the rows at both epochs, where they are read from different files",
)
MOVED = Assumption(
    "moved only",
    "the files of these runs lie in different ranges of hashes, so they are one run as they stand",
    "the picker `TrivialMove`",
    "comparing the ranges of the decoded files before the compaction is committed",
)
COMPACTED = Assumption(
    "compacted",
    "these runs hold what those that they replace held: versions, deletions and hidden rows that were dropped hid nothing below",
    "`run_task`",
    "comparing the rows of the table before and after, before the compaction is committed",
)
ROWS_AT_MOST = Assumption(
    "rows at most",
    "a table has no more rows than its files have puts; tasks are cut, and reads kept on one machine, by that",
    "`TableVersion.row_count`",
    "counting the rows of whole scans",
)
FIRST_ROWS = Assumption(
    "first rows",
    "beyond the rows that were read from the ends of the files none comes before the one that was found",
    "`first_rows`",
    "looking up all rows of the keys",
)
KNOWN_PLACES = Assumption(
    "known places",
    "the old rows of a change stand where another reader of the same change has found them, so nobody searches them again",
    "`OldRowSearch`, by the files of the change and of the runs before it",
    "searching them again, and comparing keys, files and hashes",
)
CHECKPOINT = Assumption(
    "checkpoint",
    "the whole version in a manifest is the one that all deltas lead to, so older manifests are not read",
    "`checkpoint_of`, in every 64th manifest",
    "decoding the manifest and comparing before it is created",
)
APPEND_ONLY = Assumption(
    "append-only",
    "a view whose inputs are only added to, by operators that keep that, or that shows what is closed, never changes or takes "
    "back a row",
    "`append_only` of each node of a plan; APPEND ONLY of the source tables; EMIT ON WINDOW CLOSE (`closes`)",
    "counting the changed and deleted rows of each epoch, in production as well",
)
OLD_ROWS = Assumption(
    "old rows",
    "a change puts rows whose keys stand in the table as updates, others as insertions, and deletes only keys that stand there",
    "the incremental rules, of epochs that leave no partition out",
    "looking the keys of each change up in the table before it is committed",
)
NOT_NULL = Assumption(
    "not null",
    "a column that the catalog says so of holds no null, so that no plan looks for one",
    "`Column.nullable` of tables and views",
    "counting the nulls of what an epoch writes, before it is committed; what plans derive for columns inside (`never_null`), by "
    "its own tests alone",
)
KEPT_FRAME = Assumption(
    "a kept frame fits",
    "a prepared frame, also one for all inputs, computes an epoch as a frame that is planned for it would",
    "`PreparedFrame.fits` and `can_rerun`",
    "computing the epoch by a new frame as well, and comparing what both have written",
)
COMPUTED_AHEAD = Assumption(
    "computed ahead",
    "a fragment that was computed before its domain's turn has read the same rows as it would read then",
    "`identify_reads`, which compares the files of logs, and epochs where rows hide",
    "computing the epoch by a new frame as well, and comparing what both have written",
)
EMPTY = Assumption(
    "empty over nothing",
    "a plan of certain operators gives no row while its tables hold none, so its first content needs no run",
    "`is_empty_over_nothing`",
    "the random worlds, which compare views over empty tables with other engines",
)
NO_CHANGE = Assumption(
    "no change",
    "a table none of whose inputs has changed in an epoch needs no run: its content at the label before is that at the new one",
    "`pending`, and `Content` for reads",
    "the crash programs, which compare views at epochs between their labels with their queries over the sources",
)

NOT_CROSSED = Assumption(
    "not crossed",
    "no row of a table with a filter on now() comes or goes before the epoch that its last commit noted, so none is looked for",
    "`crossing.noted`, by the first rows of each part of the filter's state",
    "reading the whole state when a crossing is noted, and comparing the least bound",
)
CLOSED = Assumption(
    "closed",
    "a change of a state that releases rows below a watermark is not below what that was before, so nobody looks there again",
    "`progress` of plans and `with_expiry`; the writers of tables with watermarks",
    "comparing the changed rows of each epoch with the watermark at the epoch before, before they are committed",
)
LET_GO = Assumption(
    "let go",
    "a row that a side of a join has released matches no later row of the other side, so none looks for it",
    "`going` of joins, by their conditions on times; the writers of tables with watermarks",
    "computing each epoch of such a join over the hidden rows as well, and comparing what both have written",
)
CHECK_UNCHANGED = Assumption(
    "check stands",
    "a check of a view whose hidden views an epoch has not touched comes out as it did before, so they are not read",
    "`check_views`, by the tables that the epoch has brought on",
    "asking it again before the epoch is committed, and comparing rows and keys",
)
TAKEN_OVER = Assumption(
    "taken over",
    "a view that was brought on as a copy of its successor holds the rows that the successor's plan computes, so it goes on with "
    "that plan and its states, and nothing is computed",
    "`_has_its_rows`, by the epochs of both",
    "comparing the rows of both, before the commit by which the view gets the plan",
)
UNREAD_COLUMNS = Assumption(
    "unread columns",
    "nobody reads the hidden columns of a view that shows the rows of a state, so they are null",
    "`fit_columns`, for a query whose rules keep other hidden columns",
    "looking through the plans of all that reads the view, in production as well",
)
SAME_PLAN = Assumption(
    "same plan",
    "plans that differ by nothing but what their queries call tables compute the same rows, so a view keeps its rows by either",
    "`is_same_plan`",
    "its own tests alone, which compare a view's rows with its new query once more has changed",
)
KNOWN_SCHEMA = Assumption(
    "known schema",
    "a frame over Spark Connect has the columns that the client says it has, so that the server is not asked",
    "`typed`, of frames whose schema is handed to Spark or is that of numbers",
    "asking the server, and comparing names, types and nullability",
)
PREPARED_SESSION = Assumption(
    "prepared session",
    "a session of a server that bears the mark of these settings and functions has them, so that they are not sent",
    "`connect`, whose processes alone know the session, by a mark that it sets last",
    "asking the server for the settings, and for the names of the functions",
)

ASSUMPTIONS = (
    NEW_KEYS,
    REPLACED,
    SORTED,
    DESCRIBED,
    CACHED,
    ROW_GROUPS,
    UNCHANGED,
    MOVED,
    COMPACTED,
    ROWS_AT_MOST,
    FIRST_ROWS,
    KNOWN_PLACES,
    CHECKPOINT,
    APPEND_ONLY,
    OLD_ROWS,
    NOT_NULL,
    KEPT_FRAME,
    COMPUTED_AHEAD,
    EMPTY,
    NO_CHANGE,
    NOT_CROSSED,
    CLOSED,
    LET_GO,
    CHECK_UNCHANGED,
    TAKEN_OVER,
    UNREAD_COLUMNS,
    SAME_PLAN,
    KNOWN_SCHEMA,
    PREPARED_SESSION,
)
