"""Run some or all benchmarks.

python -m benchmarks [learner] [gradient] [environments] [paxmen] [aerojax] [memory] [seeds]
                     [result] [scaling]
python -m benchmarks preset   # hours: which sizes preset cpu should have
python -m benchmarks torch    # needs PyTorch and TorchRL instead of JAX (.venv-torch)
"""

import importlib
import sys

PARTS = (
    "gradient",
    "learner",
    "environments",
    "paxmen",
    "aerojax",
    "memory",
    "seeds",
    "result",
    "scaling",
)


def main(names: list[str]) -> None:
    if {"-h", "--help"} & set(names):
        print(__doc__)
        return
    known = (*PARTS, "preset", "torch")
    unknown = [n for n in names if n not in known]
    if unknown:
        raise SystemExit(
            f"Unknown benchmark {', '.join(unknown)}. Choose from: {', '.join(known)}."
        )
    if set(names) != {"torch"}:
        from ratiosym.learning.devices import start_jax

        start_jax()  # before anything else imports JAX
    if "torch" in names:
        _check_torch()
    for name in names or PARTS:
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


def _check_torch() -> None:
    try:
        importlib.import_module("ratiosym.torch")
    except ImportError as error:
        raise SystemExit(str(error)) from None


main(sys.argv[1:])
