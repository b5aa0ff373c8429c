"""Where a study is kept: a journal file for one machine, PostgreSQL for many."""

import contextlib
import hashlib
import os
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import optuna
import sqlalchemy
from filelock import FileLock, Timeout
from optuna.trial import TrialState

from ratiosym.errors import InputError

# A database's workers show that they live every so many seconds; one silent for longer has lost its
# trial.
HEARTBEAT_SECONDS = 20
GRACE_SECONDS = 90


def trial_directory(out: Path, number: int) -> Path:
    """Where a trial's seeds are."""
    return out / "trials" / f"{number:04d}"


@runtime_checkable
class Home(Protocol):
    """A study's storage, one claim at a time, and whether the worker of a trial lives."""

    storage: Any

    def claiming(self) -> AbstractContextManager[Any]:
        """Held by one worker at a time; death ends it."""

    def hold(self, trial_id: int, number: int) -> AbstractContextManager[Any]:
        """While it lasts, the trial's worker lives."""

    def fail_dead(self, study: Any) -> None:
        """Fail running trials whose worker has died."""


class Journal:
    """A file, for the processes of one machine. Locks are the system's: a process's go with it,
    however it dies.
    """

    def __init__(self, out: Path) -> None:
        path = out / "journal.log"
        lock = FileLock(out / "journal.lock")
        with lock:
            mend(path)
        self.out = out
        self.storage = optuna.storages.JournalStorage(
            optuna.storages.journal.JournalFileBackend(str(path), lock_obj=lock)
        )

    def claiming(self) -> AbstractContextManager[Any]:
        """One at a time."""
        return FileLock(self.out / "claims.lock")

    def hold(self, trial_id: int, number: int) -> AbstractContextManager[Any]:
        """The lock on a trial's directory."""
        directory = trial_directory(self.out, number)
        directory.mkdir(parents=True, exist_ok=True)
        return FileLock(directory / "lock", timeout=0)

    def fail_dead(self, study: Any) -> None:
        """Those whose lock is free."""
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            try:
                with self.hold(trial._trial_id, trial.user_attrs["place"]):
                    self.storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
            except Timeout:
                continue  # its worker lives


def mend(path: Path) -> None:
    """Cut off a line that its writer did not live to finish."""
    if path.exists():
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            os.truncate(path, content.rfind(b"\n") + 1)


class Database:
    """A PostgreSQL server, for workers on many machines: they live while their heart beats."""

    def __init__(self, address: str, study_name: str) -> None:
        url = database_url(address)
        # A connection lasts for one question: workers wait for hours between two.
        options = {"connect_args": {"connect_timeout": 10}, "poolclass": sqlalchemy.pool.NullPool}
        digest = hashlib.sha256(f"ratiosym {study_name}".encode()).digest()
        self._key = int.from_bytes(digest[:8], signed=True)
        self._engine = sqlalchemy.create_engine(url, **options)
        with (
            self.claiming(),
            quietly(),
        ):  # two workers that make the tables at once would trip over each other
            self.storage = optuna.storages.RDBStorage(
                url,
                engine_kwargs=options,
                heartbeat_interval=HEARTBEAT_SECONDS,
                grace_period=GRACE_SECONDS,
            )

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """A lock of the server's; it ends with the transaction, and that with its connection."""
        with self._engine.begin() as connection:
            connection.execute(
                sqlalchemy.text("SELECT pg_advisory_xact_lock(:key)"), {"key": self._key}
            )
            yield

    @contextmanager
    def hold(self, trial_id: int, number: int) -> Iterator[None]:
        """Heartbeats, the first one before the trial is called running: without any it would never
        be found dead.
        """
        self.storage.record_heartbeat(trial_id)
        is_over = threading.Event()
        thread = threading.Thread(target=self._beat, args=(trial_id, is_over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _beat(self, trial_id: int, is_over: threading.Event) -> None:
        while not is_over.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(Exception):  # the server may be away for a moment
                self.storage.record_heartbeat(trial_id)

    def fail_dead(self, study: Any) -> None:
        """Those that have been silent for too long."""
        with quietly():
            optuna.storages.fail_stale_trials(study)


@contextmanager
def quietly() -> Iterator[None]:
    """Without Optuna's remarks on what is experimental or on few trials."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def hide_password(address: str) -> str:
    """A storage's address without its secret."""
    scheme, sign, rest = address.partition("://")
    user, at, place = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    hidden = f"{scheme}{sign}{name}{colon}{'***' if colon else ''}{at}{place}"
    return re.sub(r"(password=)[^&\s]*", r"\1***", hidden)


def database_url(address: str) -> str:
    """The address as SQLAlchemy wants it, or InputError."""
    advice = (
        "It must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE; without --storage a journal "
        "file is used."
    )
    if address.partition("://")[0] not in ("postgresql", "postgresql+psycopg"):
        raise InputError(f"--storage is '{hide_password(address)}'. {advice}")
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise InputError(
            "--storage needs the library psycopg. Install it with: pip install 'ratiosym[cluster]'"
        ) from None
    try:
        url = sqlalchemy.make_url(address).set(drivername="postgresql+psycopg")
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise InputError(
            f"--storage is '{hide_password(address)}', which is no address. {advice}"
        ) from None
    if not url.database:
        raise InputError(
            f"--storage is '{hide_password(address)}', which names no database. {advice}"
        )
    return url.render_as_string(hide_password=False)


@contextmanager
def database_errors(address: str | None) -> Iterator[None]:
    """What goes wrong with a database, in one sentence and without the password."""
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        cause = getattr(error.__cause__ or error, "orig", None) or error
        line = str(cause).strip().splitlines()[0]
        if address is None:
            raise
        secret = sqlalchemy.make_url(database_url(address)).password
        line = line.replace(secret, "***") if secret else line
        raise InputError(
            f"The database '{hide_password(address)}' does not answer as it should: {line}. "
            f"Nothing that has finished "
            f"is lost: the same command goes on when it does."
        ) from None
