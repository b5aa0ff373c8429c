"""Output of a run in progress, and when it ends early."""

import pytest

from ratiosym.cli.display import show_progress
from ratiosym.errors import InputError, NonFiniteLoss


def interrupt(directory, error):
    with show_progress(directory):
        raise error


def test_after_an_interruption_there_is_the_command_that_resumes(here, capsys):
    (here / "a run").mkdir()
    (here / "a run" / "config.json").touch()
    with pytest.raises(KeyboardInterrupt):
        interrupt(here / "a run", KeyboardInterrupt())
    again = f"ratiosym train --resume '{here / 'a run'}'"
    assert capsys.readouterr().out == f"Interrupted. Resume with: {again}\n"


def test_an_interruption_before_the_run_has_started(here, capsys):
    with pytest.raises(KeyboardInterrupt):
        interrupt(here / "run", KeyboardInterrupt())
    said = "Interrupted before the run had started; nothing was written.\n"
    assert capsys.readouterr().out == said


def test_a_loss_that_is_not_finite_says_where_the_last_good_checkpoint_is(here):
    with pytest.raises(InputError, match=r"The loss of seed 1 .* checkpoint is in 'run'\.$"):
        interrupt("run", NonFiniteLoss(3, 1))


def test_a_disk_that_is_full_is_one_sentence_with_the_way_out(here):
    said = (
        r"^'x/y' cannot be read or written \(No space left\)\..* resume with: ratiosym train --re"
    )
    with pytest.raises(InputError, match=said):
        interrupt(here, OSError(28, "No space left", "x/y"))
