"""Small learners, and an environment in which everything varies.

Programs are compiled once for each learner (environment, shape, surrogate, mesh), and that is where
the time of these tests goes: tests that can share a learner do.
"""

import dataclasses
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ratiosym.learning.config import Hyperparameters, RunConfig, RunShape
from ratiosym.learning.learner import Learner, TrainState, init_state, train_step
from ratiosym.learning.mesh import make_mesh
from ratiosym.learning.model import Params, make_model
from ratiosym.objectives import Bounds, Surrogate, barrier
from ratiosym.types import Continuous, Discrete, EnvSpec, Key, Observation, Step

BOUNDS = Bounds(0.8, 1.2)


class DriftState(NamedTuple):
    time: Int[Array, ""]
    wind: Float[Array, ""]
    reach: Float[Array, ""]  # constant and weakly typed, as in some environments of other authors
    position: Float[Array, "A"]


@dataclass(frozen=True)
class Drift:
    """Agents are blown about: lengths, kinds of end, legal actions, active agents and rewards all
    vary.

    Episodes end by chance in about one step of six, else after ``time_limit`` steps by the clock.
    Agents are rewarded for being near the middle, each for itself.
    """

    is_continuous: bool = False
    num_agents: int = 2
    time_limit: int = 5

    @property
    def spec(self) -> EnvSpec:
        action = Continuous(2) if self.is_continuous else Discrete(3)
        return EnvSpec(
            "drift", self.num_agents, 2, self.num_agents + 2, action, self.time_limit, ("time",)
        )

    def reset(self, key: Key) -> tuple[DriftState, Observation]:
        position = jax.random.uniform(key, (self.num_agents,), minval=-1.0, maxval=1.0)
        state = DriftState(jnp.int32(0), jnp.float32(0.1), jnp.full((), 0.3), position)
        return state, self._observation(state)

    def step(self, key: Key, state: DriftState, action: Array) -> tuple[DriftState, Step]:
        gust, end, *drift = jax.random.normal(
            key, (self.num_agents + 2,)
        )  # in one draw, which compiles faster
        push = action.sum(-1) if self.is_continuous else action - 1.0
        wind = 0.5 * state.wind + 0.1 * gust
        position = jnp.clip(
            state.position + state.reach * push + 0.2 * jnp.stack(drift) + wind, -1.0, 1.0
        )
        state = DriftState(state.time + 1, wind, jnp.full((), 0.3), position)
        terminated = end > 1.0
        truncated = ~terminated & (state.time >= self.time_limit)
        metrics = {"time": state.time.astype(jnp.float32)}
        return state, Step(
            self._observation(state), -jnp.abs(position), terminated, truncated, metrics
        )

    def _observation(self, state: DriftState) -> Observation:
        elapsed = jnp.full(self.num_agents, state.time / self.time_limit)
        legal = jnp.ones((self.num_agents, self.spec.num_actions), bool)
        if not self.is_continuous:
            legal = legal.at[:, 0].set(state.position > -0.5)
        return Observation(
            local=jnp.stack([state.position, elapsed], axis=-1),
            legal=legal,
            active=state.position > -0.7,
            state=jnp.concatenate([state.position, elapsed[:1], state.wind[None]]),
        )


TINY = RunShape(
    num_envs=8,
    update_batch_size=2,
    rollout_length=6,
    num_epochs=2,
    num_minibatches=2,
    actor_hidden_size=8,
    critic_hidden_size=8,
    num_eval_episodes=6,
)


def make(
    env: Any = None,
    num_seeds: int = 1,
    num_devices: int = 2,
    surrogate: Surrogate = barrier,
    **shape: Any,
) -> Learner:
    """Make a tiny learner; ``shape`` changes its sizes."""
    shape = resize(TINY, **shape)
    shape.validate()
    mesh = make_mesh(num_seeds, shape.update_batch_size, jax.devices()[:num_devices])
    return Learner(env or Drift(), shape, make_model(shape), surrogate, mesh)


def resize(shape: RunShape, hidden_size: int | None = None, **changes: Any) -> RunShape:
    """Change a shape; ``hidden_size`` sets both networks."""
    if hidden_size is not None:
        changes |= {"actor_hidden_size": hidden_size, "critic_hidden_size": hidden_size}
    return dataclasses.replace(shape, **changes)


def start(learner: Learner, *seeds: int) -> TrainState:
    """Return a fresh state of these seeds, or of seed 0."""
    return init_state(learner, seeds or (0,))


def random_params(spec: EnvSpec, shape: RunShape, seed: int = 0) -> Params:
    """Return parameters without zeros or orthogonal kernels, without compiling anything."""
    rng = np.random.default_rng(seed)
    like = jax.eval_shape(lambda key: make_model(shape).init(key, spec), jax.random.key(0))
    return jax.tree.map(lambda x: jnp.array(rng.normal(scale=0.4, size=x.shape), x.dtype), like)


def traced(
    hyperparameters: Hyperparameters, bounds: Bounds = BOUNDS
) -> tuple[Hyperparameters, Bounds]:
    """Return the numbers in the form that compiled programs take."""
    return jax.tree.map(np.float32, (hyperparameters, bounds))


def advance(
    learner: Learner,
    state: TrainState,
    num_updates: int,
    bounds: Bounds = BOUNDS,
    **hyperparameters: float,
) -> tuple[TrainState, list[Any]]:
    """Perform updates; return the state and the (StepMetrics, EpisodeSums) of each."""
    numbers = traced(Hyperparameters(**hyperparameters), bounds)
    measured = []
    for _ in range(num_updates):
        state, metrics = train_step(learner, state, *numbers)
        measured.append(jax.device_get(metrics))
    return state, measured


def config_of(
    learner: Learner, num_updates: int, num_evaluations: int, **changes: Any
) -> RunConfig:
    """Return the configuration of a run of this learner."""
    steps = num_updates * learner.shape.steps_per_update
    config = RunConfig(
        "probe", steps=steps, num_evaluations=num_evaluations, shape=learner.shape, **changes
    )
    config.validate()
    return config


def plain(tree: Any) -> Any:
    """Return arrays on the host, with keys as numbers."""
    is_key = lambda x: jnp.issubdtype(x.dtype, jax.dtypes.prng_key)  # noqa: E731
    return jax.tree.map(lambda x: np.asarray(jax.random.key_data(x) if is_key(x) else x), tree)


def assert_equal(a: Any, b: Any) -> None:
    """Assert equality bit for bit."""
    jax.tree.map(np.testing.assert_array_equal, plain(a), plain(b))


def assert_close(a: Any, b: Any, rtol: float, atol: float = 0.0) -> None:
    """Assert equality up to rounding."""
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol, atol), plain(a), plain(b))


def differ(a: Any, b: Any) -> bool:
    """Whether any number differs."""
    pairs = zip(jax.tree.leaves(plain(a)), jax.tree.leaves(plain(b)), strict=True)
    return any(not np.array_equal(x, y) for x, y in pairs)


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Collect the names of the programs that are compiled in the meantime."""
    names: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            message = record.getMessage()
            if message.startswith("Finished XLA compilation of jit("):
                names.append(message.split("jit(")[1].split(")")[0])

    logger, listener = logging.getLogger("jax._src.dispatch"), Listener()
    logger.addHandler(listener)
    try:
        with jax.log_compiles():
            yield names
    finally:
        logger.removeHandler(listener)
