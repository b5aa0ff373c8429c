"""Load a trained policy, act with it step by step, and render an episode.

python examples/load_act_render.py                # trains a tiny policy first
python examples/load_act_render.py runs/spread    # uses one of your own
"""

import sys
import tempfile
from pathlib import Path

import jax

import ratiosym


def play(policy, env, key, greedy=False):
    """Play one episode and return its return: the mean reward of the agents, summed over steps."""
    step_env, is_over, total = jax.jit(env.step), False, 0.0
    state, observation = env.reset(key)
    carry = policy.initial_carry()  # recurrent state of each agent
    while not is_over:
        key, act_key, env_key = jax.random.split(key, 3)
        action, carry = policy.act(observation, carry, act_key, greedy)
        state, step = step_env(env_key, state, action)
        observation, is_over = step.observation, bool(step.terminated | step.truncated)
        total += float(step.reward.mean())
    return total


def main(run: Path, film: Path, task: str) -> None:
    """Play and render an episode of a policy."""
    policy = ratiosym.load_policy(run)  # the best parameters; which="last" for the last ones
    print(policy)
    print(f"return {play(policy, ratiosym.make(task), jax.random.key(0)):.2f}")
    print(f"film: {ratiosym.render(run, film)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        task = ratiosym.load_policy(sys.argv[1]).spec.name
        main(Path(sys.argv[1]), Path("episode.gif"), task)
    else:
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            ratiosym.train("paxmen-4a", preset="smoke", out=place / "run")
            main(place / "run", place / "episode.gif", "paxmen-4a")
