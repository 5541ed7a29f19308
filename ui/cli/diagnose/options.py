"""What the commands of `tagrpo diagnose` take: responses, the size of groups, where rows go."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Option

from ui.cli.settings import Db

if TYPE_CHECKING:
    from evaluator.signal.groups import ResponseSource


@dataclass(frozen=True)
class Responses:
    """Eval runs over a neighbor set, a training, or rollouts in files."""

    runs: Annotated[
        tuple[str, ...],
        Argument(
            help="Eval runs over a neighbor set, by name or id: one run, or one per checkpoint. Or one "
            "training run.",
            show_default=False,
        ),
    ] = ()
    rollouts: Annotated[
        Path | None,
        Option(
            help="Training rollouts instead of runs: a JSON Lines or parquet file, or a folder of them "
            "(verl's trainer.rollout_data_dir, or tagrpo's own record).",
        ),
    ] = None
    correct_above: Annotated[
        float | None,
        Option(
            help="With --rollouts: rewards above this count as correct; not needed for rewards 0/1 and -1/1."
        ),
    ] = None
    grader: Annotated[str | None, Option(help="Grader version whose grades are used.")] = None

    @contextmanager
    def opened(self, db: Db, windows: int = 1) -> "Iterator[ResponseSource]":
        """Read the responses; their texts can be read inside.

        Args:
            windows: stretches of steps that rollouts are cut into.

        Raises:
            InputError: they cannot be used.
        """
        if bool(self.runs) == (self.rollouts is not None):
            raise BadParameter("name eval runs or a training, or give --rollouts PATH")
        if self.rollouts is not None:
            if self.grader is not None:
                raise BadParameter("--grader applies to eval runs only; rollouts contain their rewards")
            yield self._of_files(self.rollouts, windows)
            return
        from evaluator.signal.sources.eval_runs import eval_source
        from service.runs.store import list_runs
        from trainer_adapter.record.diagnosing import windows_source
        from trainer_adapter.record.runs import open_record
        from trainer_adapter.record.tables import TRAIN

        if self.correct_above is not None:
            raise BadParameter("--correct-above requires --rollouts")
        with db.open() as database:
            with database.read() as session:
                trained = [run for run in list_runs(session) if run.kind == TRAIN and run.name in self.runs]
                records = [open_record(session, run) for run in trained]
            if not records:
                yield eval_source(database, self.runs, grader_version=self.grader)
                return
        if len(self.runs) > 1 or self.grader is not None:
            raise BadParameter(f"{trained[0].name} is a training run. Give it alone and without --grader")
        yield windows_source(records[0], trained[0].name, windows)

    def _of_files(self, path: Path, windows: int) -> "ResponseSource":
        from evaluator.signal.sources.rollouts import file_source
        from trainer_adapter.record.diagnosing import windows_source
        from trainer_adapter.record.files import RUN_FILE
        from trainer_adapter.record.reading import Record

        if (path / RUN_FILE).is_file():
            return windows_source(Record(path), str(path), windows)
        return file_source(path, windows=windows, threshold=self.correct_above)


@dataclass(frozen=True)
class Group:
    """The size of a group."""

    g: Annotated[
        int | None,
        Option(
            min=1,
            help="G, responses per prompt in a group. Default: 8, or the number that most prompts have if "
            "that is smaller.",
        ),
    ] = None
    n: Annotated[
        int | None, Option(help="N, neighbors per question. Default: the number that most questions have.")
    ] = None


@dataclass(frozen=True)
class Texts:
    """Which texts of responses are compared."""

    questions: Annotated[
        int, Option(min=2, help="Number of questions whose texts are compared, drawn at random by the seed.")
    ] = 500


@dataclass(frozen=True)
class Price:
    """What generating costs."""

    usd_per_gpu_hour: Annotated[float | None, Option(help="Price of one GPU hour in USD.")] = None
    tokens_per_second: Annotated[float | None, Option(help="Tokens that one GPU generates per second.")] = (
        None
    )


Windows = Annotated[int, Option(help="Number of step intervals that rollouts are split into.")]
Limit = Annotated[int, Option(min=1, help="Number of neighbors to show.")]
