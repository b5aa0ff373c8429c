"""A PostgreSQL server on loopback that tests start and stop themselves."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

PASSWORD = "very-secret-word"


def find_program(name):
    """Debian keeps the server's programs out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


@contextmanager
def postgres_server():
    """The address of an empty database, password and all."""
    if find_program("initdb") is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    directory = Path(
        tempfile.mkdtemp(prefix="postgres-")
    )  # not pytest's, which only its owner may enter
    is_root = os.geteuid() == 0  # as whom the server refuses to run
    if is_root:
        shutil.chown(directory, "postgres", "postgres")

    def run(*words, **options):
        words = (*(("runuser", "-u", "postgres", "--") if is_root else ()), *words)
        return subprocess.run(
            words, cwd=directory, check=True, capture_output=True, text=True, timeout=60, **options
        )

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    secret = directory / "password"
    secret.write_text(PASSWORD)
    data, control = directory / "data", find_program("pg_ctl")
    options = f"-c listen_addresses=127.0.0.1 -c unix_socket_directories='' -p {port} -c fsync=off"
    try:
        if is_root:
            shutil.chown(secret, "postgres")
        run(
            find_program("initdb"),
            "-D",
            data,
            "-U",
            "tuner",
            "-A",
            "scram-sha-256",
            f"--pwfile={secret}",
            "--no-sync",
        )
        run(control, "start", "-w", "-D", data, "-o", options, "-l", directory / "log")
        yield f"postgresql://tuner:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        if (data / "postmaster.pid").exists():
            run(control, "stop", "-w", "-m", "immediate", "-D", data)
        shutil.rmtree(directory)
