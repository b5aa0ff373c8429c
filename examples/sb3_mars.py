"""Stable-Baselines3's PPO with the clipped surrogate replaced by any of the seven objectives.

    python examples/sb3_mars.py

``RatioPPO`` is a subclass of ``PPO`` that overrides ``train``, the method with the loss. The task
needs no download: a point on a line chases a target that jumps.

Which targets to start with: the defaults, 0.5 and 2. Narrow ones (0.8 and 1.2) are slower and hold
the policy closer; also try 0.3 and 4.

Which diagnostic to watch: ``train/ratio_min`` in the log. Below the clipping interval, the clipped
surrogate has no gradient for samples with a negative advantage, so nothing keeps their ratios away
from 0; MARS's penalty is unbounded there.
"""

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.utils import explained_variance
from torch.nn.functional import mse_loss

from ratiosym.objectives import get_objective, ratio_diagnostics


class RatioPPO(PPO):
    """PPO with one of the seven objectives. Ignores ``clip_range``; otherwise unchanged."""

    def __init__(self, *args, objective="mars", objective_parameters=None, **options):
        super().__init__(*args, **options)
        self.objective = get_objective(objective)
        self.bounds = self.objective.bounds(**(objective_parameters or {}))

    def train(self) -> None:
        """Update the policy from the rollout buffer."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        logs = []
        for _ in range(self.n_epochs):
            for batch in self.rollout_buffer.get(self.batch_size):
                loss, log = self._loss(batch)
                logs.append(log)
                if self.target_kl is not None and log["approx_kl"] > 1.5 * self.target_kl:
                    break
                self.policy.optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
                self.policy.optimizer.step()
            else:
                self._n_updates += 1
                continue
            break  # the policy has moved far enough
        for name in logs[0]:
            best = {"ratio_min": np.min, "ratio_max": np.max}.get(name, np.mean)
            self.logger.record(f"train/{name}", float(best([log[name] for log in logs])))
        buffer = self.rollout_buffer
        explained = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        self.logger.record("train/explained_variance", explained)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    def _loss(self, batch):
        actions = batch.actions
        if isinstance(self.action_space, gymnasium.spaces.Discrete):
            actions = actions.long().flatten()
        values, log_prob, entropy = self.policy.evaluate_actions(batch.observations, actions)
        advantage = batch.advantages
        if self.normalize_advantage and len(advantage) > 1:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        log_ratio = log_prob - batch.old_log_prob
        policy_loss = -self.objective.surrogate(log_ratio, advantage, self.bounds).mean()
        value_loss = mse_loss(batch.returns, values.flatten())
        entropy = (-log_prob if entropy is None else entropy).mean()
        found = ratio_diagnostics(log_ratio, advantage, self.bounds)
        return policy_loss - self.ent_coef * entropy + self.vf_coef * value_loss, {
            "policy_gradient_loss": policy_loss.item(),
            "value_loss": value_loss.item(),
            "entropy_loss": -entropy.item(),
            "approx_kl": found.approximate_kl.item(),
            "ratio_min": found.minimum.item(),
            "ratio_max": found.maximum.item(),
            "beyond_target": found.beyond_target.item(),
        }


class Chase(gymnasium.Env):
    """A point on a line follows its target (left, stay, right); the reward is -distance."""

    observation_space = gymnasium.spaces.Box(-2, 2, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        """Start with the point in the middle and the target anywhere."""
        super().reset(seed=seed)
        self.point, self.target, self.clock = 0.0, self.np_random.uniform(-1, 1), 0
        return self._observe(), {}

    def step(self, action):
        """Take one step. The target jumps every tenth step on average; an episode has 32 steps."""
        self.point = float(np.clip(self.point + 0.2 * (int(action) - 1), -1, 1))
        reward = -abs(self.target - self.point)
        if self.np_random.random() < 0.1:
            self.target = self.np_random.uniform(-1, 1)
        self.clock += 1
        return self._observe(), reward, False, self.clock == 32, {}

    def _observe(self):
        return np.array([self.target - self.point, self.point], np.float32)


def train(objective="mars", steps=8192, seed=0, **parameters):
    """A trained model."""
    model = RatioPPO(
        "MlpPolicy", Chase(), objective=objective, objective_parameters=parameters,
        n_steps=512, batch_size=128, n_epochs=4, learning_rate=3e-3, gamma=0.95, ent_coef=0.01,
        seed=seed, device="cpu",
    )  # fmt: skip
    return model.learn(steps)


def mean_return(model, episodes=20):
    """Return the mean return of the deterministic policy from fixed starts."""
    env, total = Chase(), 0.0
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        is_over = False
        while not is_over:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, _, is_over, _ = env.step(action)
            total += reward
    return total / episodes


if __name__ == "__main__":
    print(f"return before training {mean_return(train(steps=0)):.2f}")
    print(f"return after training {mean_return(train()):.2f}")
