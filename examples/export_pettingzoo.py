"""Use PaxMen and AeroJAX in code written for PettingZoo's parallel interface.

python examples/export_pettingzoo.py
"""

from ratiosym.envs.exports.pettingzoo import parallel_env


def episode(task, max_steps=100):
    """Play randomly until all agents are done; return the steps and the first agent's return."""
    env = parallel_env(task)
    _, infos = env.reset(seed=0)
    first, steps, total = env.agents[0], 0, 0.0
    for agent in env.agents:
        env.action_space(agent).seed(0)
    while env.agents and steps < max_steps:
        actions = {
            agent: env.action_space(agent).sample(infos[agent].get("action_mask"))
            for agent in env.agents
        }
        _, rewards, _, _, infos = env.step(actions)
        total += rewards.get(first, 0.0)
        steps += 1
    return steps, float(total)


if __name__ == "__main__":
    for task in ("paxmen-4a", "aerojax-2v2"):
        steps, total = episode(task)
        print(f"{task}: {steps} steps, return {total:.3f}")
