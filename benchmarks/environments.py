"""Environment steps per second: libraries with their own auto-reset against our adapters.

Actions are random and legal, episode starts are included, and all outputs are used. Both versions
alternate in one process, so that other load on the machine affects both equally.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.stepping import play, total
from benchmarks.timing import best_seconds
from ratiosym.envs.adapters.jumanji.connector import Connector
from ratiosym.envs.protocol import Env, random_action
from ratiosym.envs.registry import make
from ratiosym.types import EnvSpec, Key, Observation

NUM_STEPS = 128
NUM_ROUNDS = 3
GOALS = {  # minimum speedup over the library with 64 environments on two cores
    "rware-tiny-2ag": 2.2,
    "connector-5x5x3a": 3.0,
    "connector-10x10x10a": 6.0,
    "sar-100tg-2ag": 2.5,
    "mpe-spread-3ag": 1.15,
    "smax-2s3z": 1.6,
    "jaxnav-11x11x4a": 8.0,
}

Play = Callable[[Key], jax.Array]  # NUM_STEPS steps of all environments, reduced to one number


def ours(env: Env, num_envs: int) -> Play:
    return jax.jit(partial(play, env, partial(legal_actions, env.spec), num_envs, NUM_STEPS))


def jaxmarl_as_it_ships(library: Any, spec: EnvSpec, num_envs: int) -> Play:
    """Use jaxmarl's own ``step``, which resets, and ``get_avail_actions`` for the masks."""

    def act(key, state):
        legal = jnp.ones((num_envs, spec.num_agents, 0), bool)
        if spec.num_actions:
            masks = jax.vmap(library.get_avail_actions)(state)
            legal = (
                jnp.stack([masks[agent] for agent in library.agents], axis=1) > 0
            )  # [E, A, actions]
        action = legal_actions(spec, key, Observation(legal, legal, legal, legal))
        return {agent: action[:, index] for index, agent in enumerate(library.agents)}

    def step(state, key):
        action_key, env_key = jax.random.split(key)
        observation, state, reward, done, _ = jax.vmap(library.step)(
            jax.random.split(env_key, num_envs), state, act(action_key, state)
        )
        return state, total((observation, reward, done))

    def run(key):
        reset_key, steps_key = jax.random.split(key)
        _, state = jax.vmap(library.reset)(jax.random.split(reset_key, num_envs))
        return jax.lax.scan(step, state, jax.random.split(steps_key, NUM_STEPS))[1].sum()

    return jax.jit(run)


def jumanji_as_it_ships(library: Any, spec: EnvSpec, num_envs: int) -> Play:
    """Use jumanji's auto-reset wrapper under ``vmap``."""
    from jumanji.wrappers import AutoResetWrapper

    library = AutoResetWrapper(library)

    def act(key, timestep):
        legal = getattr(
            timestep.observation, "action_mask", jnp.ones((num_envs, spec.num_agents, 0), bool)
        )
        return legal_actions(spec, key, Observation(legal, legal, legal, legal))

    def step(before, key):
        state, timestep = jax.vmap(library.step)(before[0], act(key, before[1]))
        return (state, timestep), total(timestep)

    def run(key):
        reset_key, steps_key = jax.random.split(key)
        before = jax.vmap(library.reset)(jax.random.split(reset_key, num_envs))
        before = jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), before)  # no weak types
        return jax.lax.scan(step, before, jax.random.split(steps_key, NUM_STEPS))[1].sum()

    return jax.jit(run)


def as_it_ships(task: str, num_envs: int) -> Play:
    """Use the library that the task comes from."""
    env = make(task, agent_ids=False)
    library = _library_connector(env) if isinstance(env, Connector) else env.library
    is_jumanji = type(library).__module__.startswith("jumanji")
    return (jumanji_as_it_ships if is_jumanji else jaxmarl_as_it_ships)(library, env.spec, num_envs)


def _library_connector(env: Connector) -> Any:
    """Build the library's environment, which our adapter does without."""
    from jumanji.environments.routing.connector.env import Connector
    from jumanji.environments.routing.connector.generator import LegacyRandomWalkGenerator

    generator = LegacyRandomWalkGenerator(env.size, env.num_agents)
    return Connector(generator=generator, time_limit=env.spec.time_limit)


def legal_actions(spec: EnvSpec, key: Key, observation: Observation) -> jax.Array:
    num_envs = observation.legal.shape[0]
    return jax.vmap(partial(random_action, spec))(jax.random.split(key, num_envs), observation)


def seconds(*plays: Play) -> list[float]:
    """Return the best time of each, measured alternately."""
    rounds = []
    with jax.numpy_rank_promotion("allow"):
        for _ in range(NUM_ROUNDS):
            rounds.append(
                [best_seconds(partial(one, jax.random.key(0)), repetitions=2) for one in plays]
            )
    return [min(times) for times in zip(*rounds, strict=True)]


def main() -> None:
    print(f"{'task':20} {'envs':>5} {'library':>12} {'ours':>12} {'ratio':>7}   steps/s")
    for task, goal in GOALS.items():
        env = make(task, agent_ids=False)
        for num_envs in (64, 256):
            theirs, own = seconds(as_it_ships(task, num_envs), ours(env, num_envs))
            steps = num_envs * NUM_STEPS
            met = (
                ""
                if num_envs != 64
                else f"   goal {goal:.2f} {'met' if theirs / own >= goal else 'MISSED'}"
            )
            speeds = f"{steps / theirs:12,.0f} {steps / own:12,.0f}"
            print(f"{task:20} {num_envs:5} {speeds} {theirs / own:6.2f}x{met}", flush=True)
