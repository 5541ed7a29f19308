"""The method of a name, and its colour, the same on every page."""

from collections.abc import Mapping, Sequence

from trainer_adapter.record.series import trained_checkpoint
from ui.charts.training_steps import method_colours
from ui.pages.state.records import stored_trainings


def method_of(spec: Mapping[str, object], name: str) -> str:
    """Return the recipe's name in a run's specification; the run's own name without one."""
    recipe = spec.get("recipe")
    if isinstance(recipe, dict):
        recipe = recipe.get("name")
    return recipe if isinstance(recipe, str) and recipe else name


def training_methods() -> dict[str, str]:
    """Return the method of each training run by its name, oldest run first."""
    return {run.name: method_of(run.spec, run.name) for run, _ in stored_trainings().values()}


def evaluated_methods(models: Mapping[str, str], trainings: Mapping[str, str]) -> dict[str, str]:
    """Return the method of each evaluated label: the recipe that trained it, else the label itself.

    Args:
        models: the model measured under each label.
        trainings: from `training_methods`. A label is linked to a training by its checkpoint's path or, if
            that does not match, by its name.
    """
    by_label = {}
    for label, model in models.items():
        checkpoint = trained_checkpoint(model, list(trainings))
        name = checkpoint[0] if checkpoint else label
        by_label[label] = trainings.get(name, label)
    return by_label


def colours_of(
    labels: Sequence[str], methods: Mapping[str, str], trainings: Mapping[str, str]
) -> dict[str, str]:
    """Return the colour of each label: that of its method, in the order of training runs.

    Args:
        labels: to be drawn, at most as many as the palette has colours.
        methods: of all labels, from `evaluated_methods`.
        trainings: from `training_methods`.
    """
    every = [*trainings.values(), *methods.values()]
    return method_colours({label: methods[label] for label in labels}, every)
