"""Single-file PPO in PyTorch, with the clipped surrogate replaced by any of the seven objectives.

    python examples/ppo_torch.py --objective mars --set b_upper=2.0

The two lines that differ from PPO are marked with "objective:". The task needs no download: points
on a line chase targets that jump.

Which targets to start with: the defaults, 0.5 and 2. Narrow ones (0.8 and 1.2) are slower and hold
the policy closer; also try 0.3 and 4.

Which diagnostic to watch: ``ratio min``. Below the clipping interval, the clipped surrogate has no
gradient for samples with a negative advantage, so nothing keeps their ratios away from 0; MARS's
penalty is unbounded there. If ``beyond target`` stays at 0, the policy moves less than the targets
allow: try more epochs or a larger learning rate.
"""

import argparse
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributions import Categorical

from ratiosym.objectives import get_objective, ratio_diagnostics


class Chase:
    """Points on a line follow their targets (left, stay, right); the reward is -distance."""

    num_observations, num_actions, length = 2, 3, 32

    def __init__(self, num_envs: int):
        self.num_envs = num_envs
        self.clock = 0

    def observe(self):
        """Return the target's position relative to the point, and the point's position."""
        return torch.stack([self.target - self.point, self.point], -1)

    def reset(self):
        """Start an episode in all environments."""
        self.clock = 0
        self.point = torch.zeros(self.num_envs)
        self.target = 2 * torch.rand(self.num_envs) - 1
        return self.observe()

    def step(self, action):
        """Return observation, reward and whether the episode is over; a new one starts then."""
        self.point = (self.point + 0.2 * (action - 1)).clamp(-1, 1)
        reward = -(self.target - self.point).abs()
        jumps = torch.rand(self.num_envs) < 0.1
        self.target = torch.where(jumps, 2 * torch.rand(self.num_envs) - 1, self.target)
        self.clock += 1
        is_over = self.clock == self.length
        return self.reset() if is_over else self.observe(), reward, is_over


@dataclass
class Settings:
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
    seed: int = 0


def mlp(outputs: int, gain: float) -> nn.Module:
    """Make a two-layer MLP; ``gain`` scales the last layer (small for the policy)."""
    net = nn.Sequential(nn.Linear(Chase.num_observations, 64), nn.Tanh(), nn.Linear(64, outputs))
    nn.init.orthogonal_(net[-1].weight, gain)
    return net


def collect(env, observation, actor, critic, settings):
    """Collect one rollout, [steps, environments], with the observation and value that follow."""
    rows = []
    for _ in range(settings.rollout):
        policy = Categorical(logits=actor(observation))
        action = policy.sample()
        value = critic(observation)[..., 0]
        following, reward, is_over = env.step(action)
        over = torch.full_like(reward, float(is_over))
        rows.append((observation, action, policy.log_prob(action), value, reward, over))
        observation = following
    return [torch.stack(column) for column in zip(*rows, strict=True)], observation


def advantages(value, reward, over, last_value, settings):
    """Compute generalised advantage estimates."""
    found, ahead, following = [], torch.zeros_like(last_value), last_value
    for step in reversed(range(len(reward))):
        goes_on = 1 - over[step]
        delta = reward[step] + settings.gamma * goes_on * following - value[step]
        ahead = delta + settings.gamma * settings.lmbda * goes_on * ahead
        following = value[step]
        found.append(ahead)
    return torch.stack(found[::-1])


def train(objective="mars", settings=None, report=print, **parameters):
    """Train; return the mean reward per step of each rollout and the last diagnostics."""
    settings = settings or Settings()
    chosen = get_objective(objective)
    bounds = chosen.bounds(**parameters)  # objective: the two target ratios
    torch.manual_seed(settings.seed)
    env = Chase(settings.num_envs)
    actor, critic = mlp(Chase.num_actions, 0.01), mlp(1, 1.0)
    learned = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(learned, settings.learning_rate, eps=1e-5)
    observation, rewards = env.reset(), []
    for update in range(settings.updates):
        with torch.no_grad():
            columns, observation = collect(env, observation, actor, critic, settings)
            obs, action, old_log_prob, value, reward, over = columns
            last_value = critic(observation)[..., 0]
            advantage = advantages(value, reward, over, last_value, settings)
        rewards.append(reward.mean().item())
        batch = [x.flatten(0, 1) for x in (obs, action, old_log_prob, advantage, advantage + value)]
        for _ in range(settings.epochs):
            order = torch.randperm(len(batch[0])).chunk(settings.minibatches)
            for obs, action, old_log_prob, advantage, target in (
                [x[rows] for x in batch] for rows in order
            ):
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                policy = Categorical(logits=actor(obs))
                log_ratio = policy.log_prob(action) - old_log_prob
                # objective: in place of min(r A, clip(r) A)
                gain = chosen.surrogate(log_ratio, advantage, bounds).mean()
                value_loss = (critic(obs)[..., 0] - target).square().mean()
                loss = -gain - settings.entropy * policy.entropy().mean() + 0.5 * value_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(learned, 0.5)
                optimizer.step()
                found = ratio_diagnostics(log_ratio, advantage, bounds)
        report(
            f"update {update + 1:3d}  reward {rewards[-1]:7.3f}  ratio min {found.minimum:.3f}  "
            f"max {found.maximum:.3f}  beyond target {found.beyond_target:.2f}"
        )
    return rewards, found


def main() -> None:
    """Train with options from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objective", default="mars")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="its parameters")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    parameters = {name: float(value) for name, value in (word.split("=") for word in given.set)}
    train(given.objective, Settings(seed=given.seed), **parameters)


if __name__ == "__main__":
    main()
