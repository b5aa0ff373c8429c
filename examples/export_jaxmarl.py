"""Use PaxMen and AeroJAX in code written for JaxMARL: episodes in one compiled scan.

python examples/export_jaxmarl.py
"""

import jax
from jaxmarl.wrappers.baselines import LogWrapper

from ratiosym.envs.exports.jaxmarl import JaxMarlEnv


def mean_reward(task, num_envs=8, num_steps=20):
    """Play randomly in a batch of environments, stepped as in JaxMARL's training scripts."""
    env = LogWrapper(JaxMarlEnv(task))

    def step(carry, key):
        state, _ = carry
        action_key, step_key = jax.random.split(key)
        actions = {
            agent: jax.vmap(env.action_space(agent).sample)(jax.random.split(k, num_envs))
            for agent, k in zip(
                env.agents, jax.random.split(action_key, env.num_agents), strict=True
            )
        }
        keys = jax.random.split(step_key, num_envs)
        observations, state, rewards, _, _ = jax.vmap(env.step)(keys, state, actions)
        return (state, observations), rewards[env.agents[0]].mean()

    reset_key, key = jax.random.split(jax.random.key(0))
    observations, state = jax.vmap(env.reset)(jax.random.split(reset_key, num_envs))
    scan = jax.jit(lambda carry, keys: jax.lax.scan(step, carry, keys))
    (_, observations), rewards = scan((state, observations), jax.random.split(key, num_steps))
    return observations["world_state"].shape, float(rewards.mean())


if __name__ == "__main__":
    for task in ("paxmen-4a", "aerojax-2v2"):
        shape, reward = mean_reward(task)
        print(f"{task}: world state {shape}, mean reward {reward:.3f}")
