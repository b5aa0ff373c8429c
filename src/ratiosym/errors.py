"""Errors that users can act on. Imports nothing, so that every module can raise them."""


class InputError(ValueError):
    """Invalid input. The message says what was given, what is allowed and what to do."""


class MissingLibraryError(InputError, ImportError):
    """A missing optional dependency. The message says how to install it."""


# The extra of this package that installs a library, by the name it is imported under.
EXTRAS = {
    **dict.fromkeys(("PIL", "filelock", "jax", "jaxlib", "optax", "orbax", "rich"), "train"),
    "matplotlib": "report",
    "optuna": "tune",
    "tensorboardX": "tensorboard",
}


def missing_library(error: ModuleNotFoundError) -> MissingLibraryError | None:
    """Return the error to show if the missing library belongs to one of the extras, else None."""
    library = (error.name or "").partition(".")[0]
    if library not in EXTRAS:
        return None
    return MissingLibraryError(
        f"This needs the library {library}, which is not installed. Install it with: pip install "
        f"'ratiosym[{EXTRAS[library]}]', or everything with: pip install 'ratiosym[all]'"
    )


class LostProcessError(InputError):
    """Another process of the same run has stopped."""

    def __init__(self) -> None:
        super().__init__(
            "Another process of this run has stopped or cannot be reached, so this one stops too. "
            "Everything up to the last checkpoint is kept: start all processes again, with "
            "--resume and the directory of the run."
        )


class NonFiniteLoss(ArithmeticError):  # noqa: N818  (what happened, not a mistake of the caller's)
    """A loss or gradient became NaN or infinite. ``reason`` replaces the usual advice."""

    ADVICE = "Lower the learning rates or narrow the trust region; training.csv shows what grew."

    def __init__(self, update: int, seed: int, reason: str = ADVICE) -> None:
        what = f"The loss of seed {seed} is not a finite number after update {update}."
        super().__init__(f"{what} {reason}")
        self.update, self.seed = update, seed
