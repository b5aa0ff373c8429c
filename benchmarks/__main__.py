"""``python -m benchmarks [learner] [gradient] [environments] [paxmen] [aerojax] [memory]``: all, or
some.
"""

import sys

from ratiosym.learning.devices import start_jax

start_jax()

from benchmarks import aerojax, environments, gradient, learner, memory, paxmen  # noqa: E402

PARTS = {
    "gradient": gradient.main,
    "learner": learner.main,
    "environments": environments.main,
    "paxmen": paxmen.main,
    "aerojax": aerojax.main,
    "memory": memory.main,
}


def main(names: list[str]) -> None:
    unknown = [n for n in names if n not in PARTS]
    if unknown:
        raise SystemExit(
            f"Unknown benchmark {', '.join(unknown)}. Choose from: {', '.join(PARTS)}."
        )
    for name in names or PARTS:
        print(f"\n== {name}", flush=True)
        PARTS[name]()


main(sys.argv[1:])
