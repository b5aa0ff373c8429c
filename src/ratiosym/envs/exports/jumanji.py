"""Our environments as Jumanji environments. Importing this module registers the ``IDS``."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8
from PIL import Image

from ratiosym.envs.exports import environment, require
from ratiosym.envs.protocol import Action, Env
from ratiosym.envs.tasks import TASKS, VARIANTS
from ratiosym.types import Discrete, Key, Observation, State

require("jumanji")
import jumanji  # noqa: E402
from jumanji import specs  # noqa: E402
from jumanji.types import StepType, TimeStep, restart  # noqa: E402

OWN_SUITES = ("paxmen", "aerojax")  # the others come from Jumanji and JaxMARL
IDS = {  # for jumanji.make: PaxMen-4a-v0
    f"{task.suite.title}-{task.name.removeprefix(task.suite.name + '-')}-v0": task.name
    for task in (TASKS | VARIANTS).values()
    if task.suite.name in OWN_SUITES
}

Picture = UInt8[np.ndarray, "H W 3"]


class JumanjiObservation(NamedTuple):
    """Fields of Jumanji's multi-agent environments, and the critic's ``global_state``.

    The latter is not in the extras, which after an automatic reset are still the last episode's.
    """

    agents_view: Float[Array, "A F"]
    action_mask: Bool[Array, "A actions"]  # width 0 for continuous actions
    step_count: Int[Array, ""]
    global_state: Float[Array, "S"]


class JumanjiState(NamedTuple):
    """An environment's state, and the key of the next step."""

    key: Key
    env_state: State
    step_count: Int[Array, ""]


class JumanjiEnv(jumanji.Environment):  # type: ignore[misc]
    """One of our environments as a Jumanji environment.

    Create it with ``jumanji.make("PaxMen-4a-v0")`` or ``JumanjiEnv("paxmen-4a")``.

    - Observation: ``JumanjiObservation``.
    - Action: int32 ``[A]``, or float32 ``[A, size]`` in [-1, 1].
    - Reward and discount: ``[A]``.
    - End: the discount is 0 for all agents if the task ended, and 1 at the time limit. Agents that
      no longer act have the team's discount, as the team's reward still reaches them.
    - Extras: the metrics, 0 at the start.
    """

    def __init__(self, env: str | Env) -> None:
        self.env = environment(env)
        self.num_agents = self.env.spec.num_agents
        self.time_limit = self.env.spec.time_limit
        super().__init__()

    def __repr__(self) -> str:
        return f"JumanjiEnv({self.env.spec})"

    def reset(self, key: Key) -> tuple[JumanjiState, TimeStep]:
        """Start an episode."""
        key, reset_key = jax.random.split(key)
        env_state, observation = self.env.reset(reset_key)
        state = JumanjiState(key, env_state, step_count=jnp.zeros((), jnp.int32))
        extras = {name: jnp.zeros(()) for name in self.env.spec.metrics}
        return state, restart(
            _seen(observation, state.step_count), extras, self.num_agents, jnp.float32
        )

    def step(self, state: JumanjiState, action: Action) -> tuple[JumanjiState, TimeStep]:
        """Take one step."""
        key, step_key = jax.random.split(state.key)
        env_state, step = self.env.step(step_key, state.env_state, action)
        state = JumanjiState(key, env_state, state.step_count + 1)
        timestep = TimeStep(
            step_type=jnp.where(step.terminated | step.truncated, StepType.LAST, StepType.MID),
            reward=step.reward,
            discount=jnp.full(self.num_agents, 1.0 - step.terminated, jnp.float32),
            observation=_seen(step.observation, state.step_count),
            extras=step.metrics,
        )
        return state, timestep

    @cached_property
    def observation_spec(self) -> specs.Spec:
        """Return the shapes and ranges of ``JumanjiObservation``."""
        spec = self.env.spec
        return specs.Spec(
            JumanjiObservation,
            "ObservationSpec",
            agents_view=specs.Array(
                (spec.num_agents, spec.observation_size), jnp.float32, "agents_view"
            ),
            action_mask=specs.BoundedArray(
                (spec.num_agents, spec.num_actions),
                bool,
                minimum=False,
                maximum=True,
                name="action_mask",
            ),
            step_count=specs.BoundedArray(
                (), jnp.int32, minimum=0, maximum=spec.time_limit, name="step_count"
            ),
            global_state=specs.Array((spec.state_size,), jnp.float32, "global_state"),
        )

    @cached_property
    def action_spec(self) -> specs.BoundedArray:
        """Return the spec of one action per agent."""
        action = self.env.spec.action
        if isinstance(action, Discrete):
            return specs.MultiDiscreteArray(
                jnp.full(self.num_agents, action.num_actions), jnp.int32, "action"
            )
        return specs.BoundedArray(
            (self.num_agents, action.size), jnp.float32, minimum=-1.0, maximum=1.0, name="action"
        )

    @cached_property
    def reward_spec(self) -> specs.Array:
        """Return the spec of one reward per agent."""
        return specs.Array((self.num_agents,), jnp.float32, "reward")

    @cached_property
    def discount_spec(self) -> specs.BoundedArray:
        """Return the spec of one discount per agent."""
        return specs.BoundedArray(
            (self.num_agents,), jnp.float32, minimum=0.0, maximum=1.0, name="discount"
        )

    def render(self, state: JumanjiState) -> Picture:
        """Draw a state, if the environment has ``draw``."""
        if not hasattr(self.env, "draw"):
            raise NotImplementedError(
                f"{self.env.spec.name!r} cannot be rendered: it has no method 'draw'."
            )
        return np.asarray(self.env.draw(state.env_state))

    def animate(
        self, states: Sequence[JumanjiState], interval: int = 200, save_path: str | None = None
    ) -> list[Picture]:
        """Draw the states of an episode; with ``save_path``, also save them as a GIF.

        Each frame is shown for ``interval`` milliseconds.
        """
        pictures = [self.render(state) for state in states]
        if save_path is not None:
            first, *rest = map(Image.fromarray, pictures)
            first.save(save_path, save_all=True, append_images=rest, duration=interval, loop=0)
        return pictures


def _seen(observation: Observation, step_count: Int[Array, ""]) -> JumanjiObservation:
    return JumanjiObservation(observation.local, observation.legal, step_count, observation.state)


for _id, _task in IDS.items():
    if _id not in jumanji.registered_environments():  # this module may be reloaded in a notebook
        jumanji.register(id=_id, entry_point=f"{__name__}:JumanjiEnv", kwargs={"env": _task})
