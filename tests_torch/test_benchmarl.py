"""The objectives as BenchMARL algorithms, on a small VMAS task."""

import subprocess
import sys

import pytest
import torch
import yaml
from benchmarl.algorithms import MappoConfig, algorithm_config_registry
from benchmarl.environments import VmasTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig

from ratiosym.benchmarl import ALGORITHMS, CONFIGURATIONS, MarsConfig, RatioConfig, RatioMappoConfig
from ratiosym.errors import InputError
from ratiosym.objectives import OBJECTIVES, get_objective

GROUP = "agents"


class Record(Callback):
    """Record the returns of each batch, one per environment and episode, and the losses."""

    def __init__(self):
        super().__init__()
        self.returns, self.losses = [], []

    def on_batch_collected(self, batch):
        rewards = batch["next", GROUP, "reward"]  # [environments, steps, agents, 1]
        self.returns.append(rewards.sum(1).mean((-2, -1)))

    def on_train_end(self, training_td, group):
        self.losses.append(training_td)


def experiment(algorithm_config, folder, *, iterations=1, frames=200, continuous=True):
    config = ExperimentConfig.get_from_yaml()
    config.max_n_frames, config.max_n_iters = None, iterations
    config.on_policy_collected_frames_per_batch = frames
    config.on_policy_n_envs_per_worker = frames // 100
    config.on_policy_minibatch_size = frames // 5
    config.on_policy_n_minibatch_iters = 5
    config.lr = 1e-3
    config.prefer_continuous_actions = continuous
    config.loggers, config.create_json, config.evaluation, config.render = [], False, False, False
    config.save_folder = str(folder)
    model = MlpConfig.get_from_yaml()
    model.num_cells = [32, 32]
    task = VmasTask.NAVIGATION.get_from_yaml()
    task.config |= {"n_agents": 2, "collisions": False}
    record = Record()
    made = Experiment(
        task=task,
        algorithm_config=algorithm_config,
        model_config=model,
        critic_model_config=model,
        seed=0,
        config=config,
        callbacks=[record],
    )
    return made, record


def test_seven_algorithms_are_registered_beside_benchmarls():
    assert len(ALGORITHMS) == 7
    assert algorithm_config_registry.items() >= ALGORITHMS.items()
    assert algorithm_config_registry["mappo"] is MappoConfig
    classes = [config.associated_class() for config in ALGORITHMS.values()]
    assert {algorithm.objective for algorithm in classes} == set(OBJECTIVES)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_defaults_are_the_objectives_and_mappos(name):
    config = ALGORITHMS[name].get_from_yaml()
    settings = dict(vars(config))
    objective = get_objective(config.associated_class().objective)
    assert {key: settings.pop(key) for key in objective.defaults} == objective.defaults
    theirs = dict(vars(MappoConfig.get_from_yaml()))
    del theirs["clip_epsilon"]
    assert settings == theirs
    file = yaml.safe_load((CONFIGURATIONS / "algorithm" / f"{name}.yaml").read_text())
    assert file["defaults"] == [f"{name}_config", "_self_"]


def test_settings_from_a_file_of_your_own(tmp_path):
    settings = vars(MarsConfig.get_from_yaml()) | {"b_upper": 4.0}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(settings))
    assert MarsConfig.get_from_yaml(str(tmp_path / "mine.yaml")).b_upper == 4.0


def parameters_after_an_update(config: RatioConfig | MappoConfig, folder):
    config.entropy_coef = 0.01
    made, record = experiment(config, folder)
    made.run()
    parameters = made.losses[GROUP].named_parameters()
    return {name: value.detach().clone() for name, value in parameters}, record


def test_mappo_updates_are_benchmarls_own(tmp_path):
    theirs, record = parameters_after_an_update(MappoConfig.get_from_yaml(), tmp_path)
    ours, our_record = parameters_after_an_update(RatioMappoConfig.get_from_yaml(), tmp_path)
    torch.testing.assert_close(our_record.returns, record.returns)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-6, atol=1e-6)
    (losses,), (our_losses,) = record.losses, our_record.losses
    assert losses["clip_fraction"].max() > 0  # clipping had an effect
    for key, value in losses.items():
        torch.testing.assert_close(our_losses[key], value, rtol=1e-4, atol=1e-5)
    other, _ = parameters_after_an_update(MarsConfig.get_from_yaml(), tmp_path)
    assert any((other[name] - value).abs().max() > 1e-4 for name, value in theirs.items())


@pytest.mark.parametrize("name", sorted({*ALGORITHMS} - {"mars", "ratio_mappo"}))
def test_every_algorithm_updates(name, tmp_path):
    made, record = experiment(
        ALGORITHMS[name].get_from_yaml(), tmp_path, continuous=name != "maspo"
    )
    before = [p.detach().clone() for p in made.losses[GROUP].parameters()]
    made.run()
    after = list(made.losses[GROUP].parameters())
    assert any((a != b).any() for a, b in zip(after, before, strict=True))
    (losses,) = record.losses
    assert losses["ratio_max"].max() > 1 > losses["ratio_min"].min() > 0
    assert torch.isfinite(losses["loss_objective"]).all()


@pytest.mark.parametrize("config", [MarsConfig, RatioMappoConfig])
def test_a_short_training_rises_above_random(config, tmp_path):
    """The last episodes beat those of the untrained policy by four standard errors."""
    made, record = experiment(config.get_from_yaml(), tmp_path, iterations=10, frames=2000)
    made.run()
    random, trained = record.returns[0], record.returns[-1]
    error = (random.var() / len(random) + trained.var() / len(trained)).sqrt()
    assert len(random) == 20
    assert trained.mean() - random.mean() > 4 * error


def test_a_target_on_the_wrong_side_of_one_is_refused(tmp_path):
    config = MarsConfig.get_from_yaml()
    config.b_lower = 1.2
    with pytest.raises(InputError, match=r"'mars': `b_lower` is 1\.2; it must be"):
        experiment(config, tmp_path)


def test_benchmarls_command_line_finds_the_algorithms(tmp_path):
    options = {
        "algorithm": "mars",
        "algorithm.b_upper": "3.0",
        "task": "vmas/navigation",
        "task.max_steps": "10",
        "experiment.max_n_iters": "1",
        "experiment.on_policy_collected_frames_per_batch": "20",
        "experiment.on_policy_n_envs_per_worker": "2",
        "experiment.on_policy_minibatch_size": "20",
        "experiment.on_policy_n_minibatch_iters": "1",
        "experiment.evaluation": "false",
        "experiment.render": "false",
        "experiment.loggers": "[]",
        "experiment.create_json": "false",
    }
    words = [f"{key}={value}" for key, value in options.items()]
    command = [sys.executable, "-m", "benchmarl.run", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Algorithm: mars, Task: vmas/navigation" in done.stdout
    assert "b_upper: 3.0" in done.stdout
    assert "b_lower: 0.5" in done.stdout
