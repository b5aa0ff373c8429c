"""Storage of the Optuna study of a search: a journal file (one machine) or PostgreSQL."""

import contextlib
import hashlib
import json
import os
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import optuna
from filelock import FileLock, Timeout
from optuna.trial import TrialState

from ratiosym.errors import InputError, MissingLibraryError

# Optuna's own trial numbers include failed trials. Ours is this attribute.
NUMBER = "place"
# Workers of a database send heartbeats at this interval in seconds; one that has been silent for
# longer than the grace period loses its trial.
HEARTBEAT_SECONDS = 20
GRACE_SECONDS = 90


def trial_directory(out: Path, number: int) -> Path:
    """Return the directory of a trial's seeds."""
    return out / "trials" / f"{number:04d}"


@runtime_checkable
class StudyStorage(Protocol):
    """Optuna's storage, with a lock for all workers and a way to detect dead ones."""

    storage: Any

    def exclusive(self) -> AbstractContextManager[Any]:
        """Lock that is held by one worker at a time, and released if it dies."""

    def hold(self, trial_id: int, number: int) -> AbstractContextManager[Any]:
        """Signal, while it is open, that the trial's worker is alive."""

    def fail_abandoned(self, study: Any) -> None:
        """Fail running trials whose worker has died."""


class JournalFile:
    """A file for the processes of one machine.

    The operating system releases its locks however a process dies.
    """

    def __init__(self, out: Path) -> None:
        path = out / "journal.log"
        lock = FileLock(out / "journal.lock")
        with lock:
            truncate_unfinished_line(path)
            check_journal(path)
        self.out = out
        with damaged_journal(path):
            self.storage = optuna.storages.JournalStorage(
                optuna.storages.journal.JournalFileBackend(str(path), lock_obj=lock)
            )

    def exclusive(self) -> AbstractContextManager[Any]:
        """Lock for one worker at a time."""
        return FileLock(self.out / "claims.lock")

    def hold(self, trial_id: int, number: int) -> AbstractContextManager[Any]:
        """Lock a trial's directory."""
        directory = trial_directory(self.out, number)
        directory.mkdir(parents=True, exist_ok=True)
        return FileLock(directory / "lock", timeout=0)

    def fail_abandoned(self, study: Any) -> None:
        """Fail running trials whose lock is free."""
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            try:
                with self.hold(trial._trial_id, trial.user_attrs[NUMBER]):
                    self.storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
            except Timeout:
                continue  # its worker is alive


def truncate_unfinished_line(path: Path) -> None:
    """Remove a last line whose writer was killed halfway."""
    if path.exists():
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            os.truncate(path, content.rfind(b"\n") + 1)


def check_journal(path: Path) -> None:
    """Raise ``InputError`` if a line is not JSON; Optuna would ignore it if it is the last."""
    if path.exists():
        with damaged_journal(path):
            for line in path.read_text().splitlines():
                json.loads(line)


@contextmanager
def damaged_journal(path: Path) -> Iterator[None]:
    """Turn whatever a damaged journal leads to into a message."""
    try:
        yield
    except OSError:
        raise
    except Exception:  # Optuna does not check what it reads
        raise InputError(
            f"'{path}' is damaged. Delete it and run the same command again: finished seeds are "
            f"not trained again."
        ) from None


class PostgresDatabase:
    """A PostgreSQL server for workers on several machines, which send heartbeats."""

    def __init__(self, address: str, study_name: str) -> None:
        url = database_url(address)
        import sqlalchemy

        # Use a connection per query, as hours may pass between two of them.
        options = {"connect_args": {"connect_timeout": 10}, "poolclass": sqlalchemy.pool.NullPool}
        digest = hashlib.sha256(f"ratiosym {study_name}".encode()).digest()
        self._key = int.from_bytes(digest[:8], signed=True)
        self._lock = sqlalchemy.text("SELECT pg_advisory_xact_lock(:key)")
        self._engine = sqlalchemy.create_engine(url, **options)
        # Exclusive, as two workers that create the tables simultaneously would get errors.
        with self.exclusive(), quietly():
            self.storage = optuna.storages.RDBStorage(
                url,
                engine_kwargs=options,
                heartbeat_interval=HEARTBEAT_SECONDS,
                grace_period=GRACE_SECONDS,
            )

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Server-side lock, which ends with the transaction or its connection."""
        with self._engine.begin() as connection:
            connection.execute(self._lock, {"key": self._key})
            yield

    @contextmanager
    def hold(self, trial_id: int, number: int) -> Iterator[None]:
        """Send heartbeats, the first one before the trial is marked as running.

        A running trial without heartbeats would never be recognised as abandoned.
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
            with contextlib.suppress(Exception):  # the server may be briefly unavailable
                self.storage.record_heartbeat(trial_id)

    def fail_abandoned(self, study: Any) -> None:
        """Fail trials without a recent heartbeat."""
        with quietly():
            optuna.storages.fail_stale_trials(study)


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress Optuna's warnings about experimental features and few trials."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# ---------------------------------------------------------------------------------------- addresses

_ADVICE = (
    "It must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE; without `storage`, a journal file "
    "is used."
)


def hide_password(address: str) -> str:
    """Return the address of a storage without its password.

    An address of unusual form is hidden completely, as it may contain a password anywhere.
    """
    if not re.match(r"[A-Za-z][A-Za-z0-9+]*://", address):
        return "(hidden: it may contain a password)"
    scheme, sign, rest = address.partition("://")
    user, at, place = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    hidden = f"{scheme}{sign}{name}{colon}{'***' if colon else ''}{at}{place}"
    return re.sub(r"(password\s*=\s*)[^&\s]*", r"\1***", hidden, flags=re.IGNORECASE)


def database_url(address: str) -> str:
    """Convert an address to SQLAlchemy's form; raise ``InputError`` if it is invalid."""
    shown = hide_password(address)
    if not address.startswith(("postgresql://", "postgresql+psycopg://")):
        raise InputError(f"`storage` is {_quote(shown)}. {_ADVICE}")
    try:
        import psycopg  # noqa: F401
        import sqlalchemy
    except ImportError:
        raise MissingLibraryError(
            "`storage` needs the libraries psycopg and SQLAlchemy. Install them with: pip install "
            "'ratiosym[cluster]'"
        ) from None
    try:
        url = sqlalchemy.make_url(address).set(drivername="postgresql+psycopg")
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise InputError(
            f"`storage` is {_quote(shown)}, which is not a valid address. {_ADVICE}"
        ) from None
    if not url.database:
        raise InputError(f"`storage` is {_quote(shown)}, which names no database. {_ADVICE}")
    return url.render_as_string(hide_password=False)


def _quote(shown: str) -> str:
    return shown if shown.startswith("(") else f"'{shown}'"


def check_storage(address: str | None) -> None:
    """Raise unless the database, if there is one, can be used."""
    if address is not None:
        with database_errors(address):
            PostgresDatabase(address, "check")


@contextmanager
def database_errors(address: str | None) -> Iterator[None]:
    """Turn database errors into a short message without the password."""
    if address is None:
        yield
        return
    url = database_url(address)
    import sqlalchemy

    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        cause = getattr(error.__cause__ or error, "orig", None) or error
        line = str(cause).strip().splitlines()[0]
        parsed = sqlalchemy.make_url(url)
        for secret in (parsed.password, parsed.query.get("password")):
            line = line.replace(str(secret), "***") if secret else line
        raise InputError(
            f"The database '{hide_password(address)}' reports an error: {line}. Finished trials "
            f"are kept; resume the search with the same command."
        ) from None
