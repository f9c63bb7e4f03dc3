"""Work on many files at the same time, within a bound of memory: copies, and checks of copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from engine.errors import CorruptObject
from engine.hummock.backups.backup_format import BackupFile
from engine.hummock.object_store import ObjectStore

THREADS = 16
MOST_BYTES = 256 << 20
"""So many bytes of files are under way at a time, or one larger file."""
LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class CopyProgress:
    """How far a copy is: files that are done and their bytes, of how many."""

    done: int
    files: int
    done_bytes: int
    bytes: int


Tell = Callable[[CopyProgress], None]
"""What is told of progress, again and again while files are copied; an error that it raises ends the work."""


def work_on_files(files: Sequence[BackupFile], work: Callable[[BackupFile], None], tell: Tell) -> None:
    """Do some work for each file, several at a time; the first error ends it, when what is under way is done."""
    waiting = list(reversed(files))
    total = sum(file.size for file in files)
    running: dict[Future[None], BackupFile] = {}
    under_way = done = done_bytes = 0
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < 2 * THREADS:
                    if running and under_way + waiting[-1].size > MOST_BYTES:
                        break
                    file = waiting.pop()
                    running[pool.submit(work, file)] = file
                    under_way += file.size
                finished, _ = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
                for future in finished:
                    file = running.pop(future)
                    under_way -= file.size
                    future.result()
                    done, done_bytes = done + 1, done_bytes + file.size
                tell(CopyProgress(done, len(files), done_bytes, total))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def read_whole(objects: ObjectStore, path: str, file: BackupFile, what: str) -> bytes:
    """Return the bytes of a file from `path`; raises CorruptObject if they are not those that the version names."""
    data = objects.get(path)
    if data is None:
        raise CorruptObject(f"{path} is missing from the {what}; {_say_what_now(what)}")
    damage = file.find_damage(data)
    if damage is not None:
        raise CorruptObject(f"{path} of the {what} is damaged: {damage}; {_say_what_now(what)}")
    return data


def _say_what_now(what: str) -> str:
    if what == "backup":
        return "use another backup, or repair this one from its store by a backup with --verify"
    return "restore the store from an older backup, or drop the table that needs the file"
