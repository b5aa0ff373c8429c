"""Contents of results/: files match the runs, and trials match the shipped settings."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import preset as sizes
from ratiosym.experiments.plans import read_plan
from ratiosym.experiments.presets import configure, preset
from ratiosym.experiments.settings import fixed_settings, read_shipped
from ratiosym.learning.config import RunConfig
from ratiosym.objectives import OBJECTIVES
from ratiosym.report.analysis import analyse
from ratiosym.report.export import to_csv, to_marl_eval
from ratiosym.report.page import all_tables
from ratiosym.report.results import load
from ratiosym.report.tables import to_latex, to_markdown
from ratiosym.runs.files import read_json
from ratiosym.runs.tables import read_table

RESULTS = Path(__file__).parents[1] / "results"
STUDY = RESULTS / "first-results"
CPU = RESULTS / "cpu" / "experiment"
ABLATION = RESULTS / "cpu" / "ablation"


@pytest.fixture(scope="module")
def found():
    return analyse(load(STUDY))


@pytest.fixture(scope="module")
def found_cpu():
    return analyse(load(CPU))


@pytest.fixture(scope="module")
def found_ablation():
    return analyse(load(ABLATION))


def test_it_is_whole(found):
    (study,) = found.results.studies
    plan = study.plan
    assert plan.name == "first-results"
    assert not found.results.absent
    assert len(found.results.runs) == len(plan.runs()) == 30


def test_the_runs_differ_in_nothing_else():
    """They only differ in task, objective and seed, at one commit and with the same versions."""
    files = [read_json(path) for path in sorted(STUDY.glob("runs/*/*/*/config.json"))]
    assert len(files) == 30
    for file in files:
        for name in ("task", "objective", "seed"):
            del file["config"][name]
    first = files[0]
    assert "+changes" not in first["commit"]
    for file in files:
        assert [file[name] for name in ("config", "commit", "versions")] == [
            first[name] for name in ("config", "commit", "versions")
        ]


@pytest.mark.parametrize(
    ("study", "name"), [(STUDY, "found"), (CPU, "found_cpu"), (ABLATION, "found_ablation")]
)
def test_its_numbers_are_those_of_its_runs(study, name, request):
    found, folder = request.getfixturevalue(name), study / "report-files"
    assert not found.results.absent
    assert (folder / "runs.csv").read_text() == to_csv(found)
    assert (folder / "marl-eval.json").read_text() == to_marl_eval(found)
    for table in all_tables(found):
        assert (folder / f"{table.name}.md").read_text() == to_markdown(table, found.notes)
        assert (folder / f"{table.name}.tex").read_text() == to_latex(table, found.notes)


def test_the_text_shows_its_tables():
    text = (STUDY / "README.md").read_text()
    for name in ("table1", "improvement", "tasks"):
        rows = [
            line
            for line in (STUDY / "report-files" / f"{name}.md").read_text().splitlines()
            if line[:1] == "|"
        ]
        assert len(rows) > 2
        assert "\n".join(rows) in text, name


def test_the_text_tells_how_far_the_ratios_go(found):
    """The extremes among all samples of all updates and seeds."""
    rows = []
    for task in found.results.tasks:
        cells = [task]
        for label in found.titles:
            runs = found.results.of(task, label)
            low = min(run.training["ratio_min"].min() for run in runs)
            high = max(run.training["ratio_max"].max() for run in runs)
            cells.append(f"{low:.3g} to {high:.3g}")
        rows.append("| " + " | ".join(cells) + " |")
    assert "\n".join(rows) in (STUDY / "README.md").read_text()


SHIPPED = [(task, objective) for task, entries in read_shipped().items() for objective in entries]


def test_three_objectives_on_two_tasks_are_tuned():
    tasks, objectives = ("connector-5x5x3a", "mpe-spread-3ag"), ("mars", "mappo", "maspo")
    assert {(t, o) for t in tasks for o in objectives} <= set(SHIPPED)


@pytest.mark.parametrize(("task", "objective"), SHIPPED)
def test_shipped_settings_are_the_best_trial(task, objective):
    entry = read_shipped()[task][objective]
    # Those of the study `cpu`, once a task's three searches have ended.
    is_of_cpu = len(list(CPU.glob(f"tuning/{task}/*/best.json"))) == 3
    search = (CPU if is_of_cpu else RESULTS) / "tuning" / task / objective
    with open(search / "trials.csv") as file:
        rows = list(csv.DictReader(file))
    best = max(
        (row for row in rows if row["state"] == "complete"), key=lambda row: float(row["value"])
    )
    assert (int(best["trial"]), float(best["value"])) == (entry["trial"], entry["value"])
    assert {seed: float(best[f"seed-{seed}"]) for seed in entry["seeds"]} == entry["seeds"]
    assert len(rows) == sum(entry["trials"].values())
    outcome = read_json(search / "best.json")
    assert {name: outcome[name] for name in ("value", "trial", "trials", "steps", "seeds")} == {
        name: entry[name] for name in ("value", "trial", "trials", "steps", "seeds")
    }
    found = {name: float(best[name]) for name in outcome["params"]}
    assert found == outcome["params"]
    searched = RunConfig.from_dict(outcome["config"])
    assert {**fixed_settings(searched), **found} == entry["options"]
    for name in ("cpu", "paper"):  # nothing of what was searched is left to a preset
        config = configure(task, name, tuned=True, objective=objective)
        assert (config.shape, config.hyperparameters) == (searched.shape, searched.hyperparameters)
    settings = read_json(search / "search.json")["settings"]
    assert (settings["run"]["task"], settings["run"]["objective"]) == (task, objective)
    assert set(settings["space"]) == set(found)
    text = (RESULTS.parent / "docs" / "how-to" / "tuning.md").read_text()
    assert f"| `{task}` | `{objective}` |" in text


def test_the_plan_of_the_study_cpu_is_the_built_in_one():
    """But for JaxNav and AeroJAX, which it leaves out."""
    own, built_in = read_plan(RESULTS / "cpu" / "plan.toml"), read_plan("cpu")
    left_out = {"jaxnav-8x8x2a-encoded", "aerojax-2v2"}
    assert set(own.tasks) == set(built_in.tasks) - left_out
    runs = {(run.task, run.label, run.seed): run.config for run in built_in.runs()}
    for run in own.runs():
        assert run.config == runs[run.task, run.label, run.seed]
    assert own.tuning == built_in.tuning


@pytest.mark.parametrize("path", sorted(CPU.glob("tuning/*/*/best.json")), ids=str)
def test_searches_of_the_study_cpu_follow_its_protocol(path):
    """The value of a setting is the mean over seeds of the mean return over the last fifth of its
    evaluations, every setting was tried, and the best one won.
    """
    plan, best, values = read_plan("cpu"), read_json(path), {}
    for trial in sorted(path.parent.glob("trials/*")):
        seeds = sorted(trial.glob("seed-*"))
        assert [seed.name for seed in seeds] == ["seed-1000", "seed-1001"]
        returns = [read_table(seed / "evaluations.csv")["mean_return"][1:] for seed in seeds]
        values[int(trial.name)] = float(np.mean([r[-4:].mean() for r in returns]))
    assert len(values) == len(plan.tuning.grid[path.parent.name])
    assert best["trial"] == max(values, key=lambda number: (values[number], -number))
    assert best["value"] == pytest.approx(values[best["trial"]])


def test_default_trust_regions_follow_from_the_study_cpu():
    """Values of all settings are scaled on each task to 0 (worst) and 1 (best); the defaults of an
    objective have the largest mean over tasks.
    """
    grid = read_plan("cpu").tuning.grid
    text = (RESULTS / "cpu" / "README.md").read_text()
    scaled = {label: [] for label in grid}  # per task, by setting
    for task in read_plan("cpu").tasks:
        searches = {label: CPU / "tuning" / task / label for label in grid}
        if not all((path / "best.json").exists() for path in searches.values()):
            continue
        values = {}
        for label, path in searches.items():
            with open(path / "trials.csv") as file:
                rows = list(csv.DictReader(file))
            names = grid[label][0]
            found = {tuple(float(row[n]) for n in names): float(row["value"]) for row in rows}
            values[label] = np.array([found[tuple(setting.values())] for setting in grid[label]])
        worst, best = (f([f(v) for v in values.values()]) for f in (np.min, np.max))
        for label in grid:
            scaled[label].append((values[label] - worst) / (best - worst))
    assert len(scaled["mars"]) >= 6
    for label, settings in grid.items():
        means = np.mean(scaled[label], axis=0)
        assert settings[int(np.argmax(means))] == OBJECTIVES[label].defaults
        for setting, mean, by_task in zip(
            settings, means, np.transpose(scaled[label]), strict=True
        ):
            numbers = " and ".join(f"{value:g}" for value in setting.values())
            cells = ", ".join(f"{value:.2f}" for value in by_task)
            assert f"| {OBJECTIVES[label].title} {numbers} | {mean:.2f} | {cells} |" in text


@pytest.mark.parametrize("path", sorted(CPU.glob("runs/*/*/*/config.json")), ids=str)
def test_final_runs_of_the_study_cpu_have_the_settings_found(path):
    task, label, _ = path.relative_to(CPU / "runs").parent.parts
    record, best = read_json(path), read_json(CPU / "tuning" / task / label / "best.json")
    assert record["config"]["objective_parameters"] == best["params"]
    assert record["config"]["seed"] in range(5)
    first = ("connector-5x5x3a", "mpe-spread-3ag", "smax-2s3z")
    assert record["commit"].startswith("af61128" if task in first else "d38bf64")


@pytest.mark.parametrize("task", read_plan("cpu").tasks)
def test_the_text_shows_the_study_cpu(task):
    """Means over seeds, regions, probabilities of improvement, and the range of ratios."""
    returns, cells, ratios = {}, [], []
    for label in ("mars", "mappo", "maspo"):
        runs = sorted((CPU / "runs" / task / label).glob("seed-*"))
        assert [run.name for run in runs] == [f"seed-{seed}" for seed in range(5)]
        summaries = [read_json(run / "summary.json") for run in runs]
        returns[label] = np.array([s["absolute_metric"]["mean_return"] for s in summaries])
        best = read_json(CPU / "tuning" / task / label / "best.json")
        region = OBJECTIVES[label].bounds(**best["params"])
        better = np.mean(returns["mars"][:, None] > returns[label][None])
        chance = "" if label == "mars" else f"; {better:.2f}"
        mean = f"{returns[label].mean():.3f}"
        cells.append(f"{mean} ({region.lower:g} to {region.upper:g}{chance})")
        tables = [read_table(run / "training.csv") for run in runs]
        low = min(table["ratio_min"].min() for table in tables)
        high = max(table["ratio_max"].max() for table in tables)
        ratios.append(f"{low:.3g} to {high:.3g}")
    text = (RESULTS / "README.md").read_text()
    for row in (cells, ratios):
        assert f"| {task} | {' | '.join(row)} |" in text


def test_the_text_shows_the_probabilities_over_all_tasks():
    rows = (CPU / "report-files" / "improvement.md").read_text().replace("**", "").splitlines()
    (overall,) = (row.split("|")[2:4] for row in rows if row.startswith("| All tasks |"))
    for cell in overall:
        chance, low, high = cell.replace("(", "").replace(")", "").replace(",", "").split()
        for text in (RESULTS / "README.md", RESULTS.parent / "docs" / "results.md"):
            assert re.search(f"{chance} \\((95% interval )?{low} to {high}\\)", text.read_text())
        assert f"{chance} ({low} to {high})" in (RESULTS.parent / "README.md").read_text()


def test_the_ablation_is_that_of_its_plan():
    plan = read_plan(RESULTS / "cpu" / "ablation-plan.toml")
    for run in plan.runs():
        path = ABLATION / "runs" / run.task / run.label / f"seed-{run.seed}" / "config.json"
        record = read_json(path)
        assert RunConfig.from_dict(record["config"]) == run.config
        assert record["commit"].startswith("d38bf64")
    assert len(plan.runs()) == 2 * 5 * 3


@pytest.mark.parametrize(
    ("task", "shares"),
    [
        ("aerojax-2v2", {"fights won": "won"}),
        (
            "jaxnav-8x8x2a-encoded",
            {"robots that arrived (78% could)": "success", "robots that collided": "collision"},
        ),
    ],
)
def test_the_text_shows_the_ablation(task, shares):
    """Means over seeds, and the range of ratios."""
    returns, ratios, means = [], [], {title: [] for title in shares}
    for algorithm in read_plan(RESULTS / "cpu" / "ablation-plan.toml").algorithms:
        runs = sorted((ABLATION / "runs" / task / algorithm.label).glob("seed-*"))
        metrics = [read_json(run / "summary.json")["absolute_metric"] for run in runs]
        returns.append(f"{np.mean([metric['mean_return'] for metric in metrics]):.3f}")
        for title, name in shares.items():
            means[title].append(f"{np.mean([metric[name] for metric in metrics]):.0%}")
        tables = [read_table(run / "training.csv") for run in runs]
        low = min(table["ratio_min"].min() for table in tables)
        high = max(table["ratio_max"].max() for table in tables)
        ratios.append(f"{low:.2g} to {high:.3g}")
    rows = {f"{task}, absolute metric": returns, **means, "smallest and largest ratio": ratios}
    block = "\n".join(f"| {title} | {' | '.join(cells)} |" for title, cells in rows.items())
    assert block in (RESULTS / "README.md").read_text()


def test_sizes_of_preset_cpu_are_the_best_of_those_compared():
    """All sizes with MARS and the best three with MAPPO; the largest mean of both wins."""
    means = {name: sizes.mean_values(sizes.of(name)) for name in sizes.OBJECTIVES}
    mars, mappo = means.values()
    assert set(mars) == set(sizes.CANDIDATES)
    assert set(mappo) == set(list(mars)[: sizes.NUM_FINALISTS])
    best = max(mappo, key=lambda name: mars[name] + mappo[name])
    shape = preset("cpu", "connector-5x5x3a").shape
    assert shape.actor_hidden_size == shape.critic_hidden_size
    assert sizes.CANDIDATES[best] == (
        shape.actor_hidden_size,
        shape.num_envs,
        shape.num_epochs,
        shape.num_minibatches,
    )
    text = (RESULTS.parent / "docs" / "performance.md").read_text()
    for found, names in (
        (mars, sizes.CANDIDATES),
        (mappo, [n for n in sizes.CANDIDATES if n in mappo]),
    ):
        assert f"| mean | {' | '.join(f'{found[name]:.2f}' for name in names)} |" in text
