"""Those who run trials: this process, local processes pinned to a core each, or a Ray cluster."""

import contextlib
import dataclasses
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import mean
from typing import Any

import optuna
from optuna.trial import TrialState

from ratiosym.errors import InputError
from ratiosym.experiments.executors import check_resources, connect, import_ray
from ratiosym.experiments.tuning.ledger import POLL_SECONDS, Ledger
from ratiosym.experiments.tuning.search import FINISHED, Search, TrialRow
from ratiosym.experiments.tuning.seeds import Diverged, RunSeed, reason, seed_value, train_seed
from ratiosym.experiments.tuning.storage import database_errors, quietly, trial_directory
from ratiosym.learning.devices import num_cores, start_jax
from ratiosym.learning.train import NonFiniteLoss

OnProgress = Callable[[list[TrialRow]], None]


def nobody_asks(rows: list[TrialRow]) -> None:
    """Progress without a display."""


def work(
    search: Search, run_seed: RunSeed = train_seed, on_progress: OnProgress = nobody_asks
) -> None:
    """Run trials until all are finished, whoever else works on them."""
    with database_errors(search.storage):
        ledger = Ledger(search)
        on_progress(ledger.rows())
        while True:
            with ExitStack() as held:
                trial = ledger.claim(held)
                if trial is None:
                    break
                run_trial(ledger, trial, run_seed, lambda: on_progress(ledger.rows()))
            on_progress(ledger.rows())


def run_trial(
    ledger: Ledger, trial: Any, run_seed: RunSeed, on_progress: Callable[[], None]
) -> None:
    """A trial to its end: complete, pruned or diverged."""
    with contextlib.suppress(
        optuna.exceptions.UpdateFinishedTrialError
    ):  # silent for too long: another has it now
        try:
            ledger.finish(trial, *run_seeds(ledger, trial, run_seed, on_progress))
        except (NonFiniteLoss, Diverged) as error:
            trial.set_user_attr("failure", reason(error))
            ledger.finish(trial, TrialState.PRUNED)  # Decision 70


def run_seeds(
    ledger: Ledger, trial: Any, run_seed: RunSeed, on_progress: Callable[[], None]
) -> tuple[Any, float]:
    """Seeds one after another, with a pruning check after each but the last: the trial's end and
    its value.
    """
    search, directory = ledger.search, trial_directory(ledger.search.out, trial.user_attrs["place"])
    known = ledger.known_seeds(trial.params)
    values = dict(trial.user_attrs["seeds"])  # finished before an interruption
    for step, seed in enumerate(search.seeds):
        on_progress()
        if str(seed) not in values:
            config = search.trial_config(trial.params, seed)
            is_known = str(seed) in known
            value = (
                known[str(seed)]
                if is_known
                else seed_value(directory / f"seed-{seed}", config, run_seed)
            )
            values[str(seed)] = value
            trial.set_user_attr("seeds", values)
        so_far = mean(values[str(s)] for s in search.seeds[: step + 1])
        trial.report(so_far, step)
        if step + 1 < len(search.seeds) and trial.should_prune():
            return TrialState.PRUNED, so_far
    return TrialState.COMPLETE, so_far


def default_workers() -> int:
    """One for each core; one in all where there is an accelerator."""
    import jax

    return num_cores() if jax.default_backend() == "cpu" else 1


def run_processes(
    search: Search, num_workers: int, run_seed: RunSeed, on_progress: OnProgress
) -> None:
    """Workers on this machine, pinned to a core each."""
    ledger = Ledger(search)
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=work_as_child, args=(search, run_seed)) for _ in range(num_workers)
    ]
    try:
        for number, process in enumerate(processes):
            with pinned(number):
                process.start()
        while alive := [process.sentinel for process in processes if process.is_alive()]:
            on_progress(ledger.rows())
            multiprocessing.connection.wait(alive, POLL_SECONDS)
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
        for process in processes:
            if process.pid is not None:
                process.join()
    on_progress(ledger.rows())
    check_finished(
        ledger, [f"exit code {process.exitcode}" for process in processes if process.exitcode]
    )


def run_on_ray(
    search: Search, num_cpus: float, num_gpus: float, run_seed: RunSeed, on_progress: OnProgress
) -> None:
    """Workers on a Ray cluster, as many as fit. Without a database ``out`` must be on a disk that
    all share.
    """
    ledger, ray = Ledger(search), import_ray()
    left: list[Any] = []
    is_own = not ray.is_initialized()
    if is_own:
        with quietly():  # JAX warns of forks; Ray only starts other programs
            connect(ray)
    try:
        needed = {"CPU": num_cpus, "GPU": num_gpus}
        check_resources(ray.nodes(), needed)
        total = ray.cluster_resources()
        fits = min(int(total.get(name, 0) / amount) for name, amount in needed.items() if amount)
        options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_retries": 0, "max_calls": 1}
        remote = ray.remote(**options)(work_remotely)
        absolute = dataclasses.replace(search, out=search.out.absolute())
        tasks = [
            remote.remote(absolute, run_seed, num_cpus)
            for _ in range(min(max(1, fits), search.num_trials))
        ]
        left.extend(tasks)
        while left:
            _, left = ray.wait(left, timeout=POLL_SECONDS)
            on_progress(ledger.rows())
        check_finished(ledger, [how for how in map(partial(how_it_ended, ray), tasks) if how])
    finally:
        if is_own:
            ray.shutdown()
        else:
            for task in left:
                ray.cancel(task, force=True)


def how_it_ended(ray: Any, task: Any) -> str:
    """How a task of Ray died; nothing if it did not."""
    try:
        ray.get(task)
    except ray.exceptions.RayError as error:
        return str(error).strip().splitlines()[-1]
    return ""


def check_finished(ledger: Ledger, deaths: list[str]) -> None:
    """All workers have ended: so should have all trials."""
    rows = ledger.rows()
    num_missing = sum(row.state not in FINISHED for row in rows)
    if num_missing:
        raise InputError(
            f"All workers of '{ledger.search.out}' have ended ({'; '.join(deaths)}), but "
            f"{num_missing} of {len(rows)} "
            f"trials are not finished. What has finished is kept: the same command goes on."
        )


@contextmanager
def pinned(number: int) -> Iterator[None]:
    """Processes started meanwhile have one core."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(cores)[number % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def work_as_child(search: Search, run_seed: RunSeed) -> None:
    """A worker process: it ends with its parent, who also looks after the keyboard."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=end_with, args=(parent.sentinel,), daemon=True).start()
    start_jax()
    work(search, run_seed)


def end_with(sentinel: int) -> None:
    """Leave at once when another process has ended."""
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def work_remotely(search: Search, run_seed: RunSeed, num_cpus: float) -> None:
    """A worker in a process of a cluster, which does not bind processes to cores."""
    import jax

    jax.config.update("jax_num_cpu_devices", max(1, int(num_cpus)))
    start_jax()
    work(search, run_seed)
