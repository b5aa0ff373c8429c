"""Trackers: TensorBoard and Weights & Biases."""

import secrets
from pathlib import Path
from typing import Any

import numpy as np

from ratiosym.errors import InputError
from ratiosym.runs.files import write_whole
from ratiosym.runs.tables import Row


class Trackers:
    """TensorBoard events beside the files, and Weights & Biases if asked for."""

    def __init__(
        self,
        directory: Path,
        config: dict[str, Any],
        past: dict[str, list[Row]],
        wandb_project: str | None,
    ) -> None:
        """``past`` is what a resumed run has behind it: {group: rows}."""
        from tensorboardX import SummaryWriter

        self._run = start_wandb(directory, config, wandb_project) if wandb_project else None
        # A killed run took its last events with it and wrote others after its checkpoint: all are
        # drawn anew.
        events = directory / "tensorboard"
        self._board = SummaryWriter(str(events), purge_step=0 if events.exists() else None)
        for group, rows in past.items():
            for row in rows:
                self._draw(group, row)

    def add(self, group: str, row: Row) -> None:
        """One row of a table, at its number of environment steps."""
        values = self._draw(group, row)
        if self._run is not None:
            self._run.log({**values, "steps": row["steps"]})

    def _draw(self, group: str, row: Row) -> Row:
        values = {
            f"{group}/{k}": v
            for k, v in row.items()
            if k not in ("update", "steps") and np.isfinite(v)
        }
        for name, value in values.items():
            self._board.add_scalar(name, value, int(row["steps"]))
        return values

    def close(self) -> None:
        """Write what is still in memory."""
        self._board.close()
        if self._run is not None:
            self._run.finish()


def start_wandb(directory: Path, config: dict[str, Any], project: str) -> Any:
    """A run on Weights & Biases; the same one again after a resume."""
    wandb = import_wandb()
    identity = directory / "wandb.id"
    if not identity.exists():
        write_whole(identity, secrets.token_hex(4))
    settings = wandb.Settings(silent=True, console="off")
    return wandb.init(
        project=project,
        id=identity.read_text(),
        resume="allow",
        dir=directory,
        config=config,
        settings=settings,
        reinit="create_new",  # seeds side by side have a run each
    )


def import_wandb() -> Any:
    """The library, or how to get it."""
    try:
        import wandb
    except ImportError:
        raise InputError(
            "--wandb needs the library wandb. Install it with: pip install 'ratiosym[wandb]'"
        ) from None
    return wandb
