"""Use PaxMen and AeroJAX in code written for Jumanji: by id, with its automatic reset.

python examples/export_jumanji.py
"""

import jax
import jumanji
from jumanji.wrappers import AutoResetWrapper

import ratiosym.envs.exports.jumanji  # noqa: F401  registers the environments


def rewards_of(name, num_steps=20):
    """Return the rewards when all agents take the first action, or zeros."""
    env = AutoResetWrapper(jumanji.make(name))
    action = env.action_spec.generate_value()
    state, timestep = jax.jit(env.reset)(jax.random.key(0))

    def step(state, _):
        state, timestep = env.step(state, action)
        return state, timestep.reward.mean()

    _, rewards = jax.jit(lambda state: jax.lax.scan(step, state, length=num_steps))(state)
    return timestep.observation.agents_view.shape, float(rewards.mean())


if __name__ == "__main__":
    for name in ("PaxMen-4a-v0", "AeroJAX-2v2-v0"):
        shape, reward = rewards_of(name)
        print(f"{name}: agents' view {shape}, mean reward {reward:.3f}")
