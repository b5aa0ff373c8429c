"""Single-file PPO in JAX, fully compiled, with any of the seven objectives.

    python examples/ppo_jax.py --objective mars --set b_upper=2.0

``make_train`` returns a function from a key to the trained parameters, which can be jitted and
vmapped over seeds. The two lines that differ from PPO are marked with "objective:". The task needs
no download: points on a line chase targets that jump.

Which targets to start with: the defaults, 0.5 and 2. Narrow ones (0.8 and 1.2) are slower and hold
the policy closer; also try 0.3 and 4.

Which diagnostic to watch: ``ratio min``. Below the clipping interval, the clipped surrogate has no
gradient for samples with a negative advantage, so nothing keeps their ratios away from 0; MARS's
penalty is unbounded there. If ``beyond target`` stays at 0, the policy moves less than the targets
allow: try more epochs or a larger learning rate.
"""

import argparse
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from ratiosym.objectives import get_objective, ratio_diagnostics

NUM_OBSERVATIONS, NUM_ACTIONS, LENGTH = 2, 3, 32


class Settings(NamedTuple):
    """PPO's hyperparameters, at usual values."""

    num_envs: int = 32
    rollout: int = 64
    updates: int = 30
    epochs: int = 4
    minibatches: int = 4
    learning_rate: float = 3e-3
    gamma: float = 0.95
    lmbda: float = 0.95
    entropy: float = 0.01


class State(NamedTuple):
    """State of one environment: a point on a line follows its target."""

    point: jax.Array
    target: jax.Array
    clock: jax.Array


def reset(key):
    """Start with the point in the middle and the target anywhere."""
    return State(jnp.float32(0), jax.random.uniform(key, minval=-1, maxval=1), jnp.int32(0))


def observe(state):
    """Return the target's position relative to the point, and the point's position."""
    return jnp.stack([state.target - state.point, state.point])


def step(state, action, key):
    """Return state, reward and whether the episode is over; a new one starts automatically."""
    jump, place, start = jax.random.split(key, 3)
    point = jnp.clip(state.point + 0.2 * (action - 1), -1, 1)
    reward = -jnp.abs(state.target - point)
    elsewhere = jax.random.uniform(place, minval=-1, maxval=1)
    target = jnp.where(jax.random.uniform(jump) < 0.1, elsewhere, state.target)
    moved = State(point, target, state.clock + 1)
    is_over = moved.clock == LENGTH
    following = jax.tree.map(lambda a, b: jnp.where(is_over, a, b), reset(start), moved)
    return following, reward, is_over.astype(jnp.float32)


def init_mlp(key, outputs, gain):
    """Initialise a two-layer MLP; ``gain`` scales the last layer (small for the policy)."""
    first, second = jax.random.split(key)
    return {
        "w1": jax.random.normal(first, (NUM_OBSERVATIONS, 64)) / NUM_OBSERVATIONS**0.5,
        "b1": jnp.zeros(64),
        "w2": gain * jax.random.normal(second, (64, outputs)) / 8,
        "b2": jnp.zeros(outputs),
    }


def mlp(params, x):
    """Its outputs."""
    return jnp.tanh(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


class Sample(NamedTuple):
    """Data of one step for the update."""

    observation: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    over: jax.Array


def log_prob_of(logits, action):
    """Return the action's log-probability."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], -1)[..., 0]


def make_train(objective="mars", settings=None, **parameters):
    """Return a function from a key to parameters, and rewards and diagnostics per update."""
    settings = settings or Settings()
    chosen = get_objective(objective)
    bounds = chosen.bounds(**parameters)  # objective: the two target ratios
    optimizer = optax.chain(
        optax.clip_by_global_norm(0.5), optax.adam(settings.learning_rate, eps=1e-5)
    )

    def loss(params, batch):
        sample, advantage, target = batch
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        logits = mlp(params["actor"], sample.observation)
        log_ratio = log_prob_of(logits, sample.action) - sample.log_prob
        # objective: in place of min(r A, clip(r) A)
        gain = chosen.surrogate(log_ratio, advantage, bounds).mean()
        entropy = -(jax.nn.softmax(logits) * jax.nn.log_softmax(logits)).sum(-1).mean()
        value_loss = jnp.square(mlp(params["critic"], sample.observation)[..., 0] - target).mean()
        found = ratio_diagnostics(log_ratio, advantage, bounds)
        return -gain - settings.entropy * entropy + 0.5 * value_loss, found

    def act(params, carry, key):
        states = carry
        choose, move = jax.random.split(key)
        observation = jax.vmap(observe)(states)
        logits = mlp(params["actor"], observation)
        action = jax.random.categorical(choose, logits)
        value = mlp(params["critic"], observation)[..., 0]
        keys = jax.random.split(move, settings.num_envs)
        states, reward, over = jax.vmap(step)(states, action, keys)
        sample = Sample(observation, action, log_prob_of(logits, action), value, reward, over)
        return states, sample

    def advantages(samples, last_value):
        def back(carry, sample):
            ahead, following = carry
            goes_on = 1 - sample.over
            delta = sample.reward + settings.gamma * goes_on * following - sample.value
            ahead = delta + settings.gamma * settings.lmbda * goes_on * ahead
            return (ahead, sample.value), ahead

        start = (jnp.zeros_like(last_value), last_value)
        return jax.lax.scan(back, start, samples, reverse=True)[1]

    def minibatch(carry, batch):
        params, optimizer_state = carry
        gradient, found = jax.grad(loss, has_aux=True)(params, batch)
        change, optimizer_state = optimizer.update(gradient, optimizer_state)
        return (optax.apply_updates(params, change), optimizer_state), found

    def update(carry, key):
        params, optimizer_state, states = carry
        acting, shuffling = jax.random.split(key)
        states, samples = jax.lax.scan(
            lambda states, key: act(params, states, key),
            states,
            jax.random.split(acting, settings.rollout),
        )
        last_value = mlp(params["critic"], jax.vmap(observe)(states))[..., 0]
        advantage = advantages(samples, last_value)
        whole = (samples, advantage, advantage + samples.value)
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), whole)

        def epoch(carry, key):
            order = jax.random.permutation(key, settings.rollout * settings.num_envs)
            cut = order.reshape(settings.minibatches, -1)
            return jax.lax.scan(minibatch, carry, jax.tree.map(lambda x: x[cut], flat))

        keys = jax.random.split(shuffling, settings.epochs)
        (params, optimizer_state), found = jax.lax.scan(epoch, (params, optimizer_state), keys)
        last = jax.tree.map(lambda x: x[-1, -1], found)
        return (params, optimizer_state, states), (samples.reward.mean(), last)

    def train(key):
        actor, critic, start, running = jax.random.split(key, 4)
        params = {"actor": init_mlp(actor, NUM_ACTIONS, 0.01), "critic": init_mlp(critic, 1, 1.0)}
        states = jax.vmap(reset)(jax.random.split(start, settings.num_envs))
        carry = (params, optimizer.init(params), states)
        carry, (rewards, found) = jax.lax.scan(
            update, carry, jax.random.split(running, settings.updates)
        )
        return carry[0], rewards, found

    return train


def main() -> None:
    """Train with options from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objective", default="mars")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="its parameters")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    parameters = {name: float(value) for name, value in (word.split("=") for word in given.set)}
    train = jax.jit(make_train(given.objective, **parameters))
    _, rewards, found = train(jax.random.key(given.seed))
    for update, reward in enumerate(rewards):
        print(
            f"update {update + 1:3d}  reward {reward:7.3f}  ratio min {found.minimum[update]:.3f}  "
            f"max {found.maximum[update]:.3f}  beyond target {found.beyond_target[update]:.2f}"
        )


if __name__ == "__main__":
    main()
