"""Independent parts of a study for job arrays: ``--shard I/N``."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from ratiosym.errors import InputError

Part = TypeVar("Part")


@dataclass(frozen=True)
class Shard:
    """Part ``index`` of ``number``, counted from 1."""

    index: int
    number: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Parse I/N, as in 3/16."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise InputError(
                f"`shard` is '{text}'; it must be I/N with I from 1 to N, as in 1/16. In a Slurm "
                f"job: sbatch --array=1-16, and $SLURM_ARRAY_TASK_ID/16."
            )
        return cls(int(match[1]), int(match[2]))

    def part(self, things: Sequence[Part]) -> list[Part]:
        """Return every N-th thing, so that parts are alike."""
        return list(things[self.index - 1 :: self.number])
