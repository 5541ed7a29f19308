"""Load a benchmark from the Hub or a file, and check its content and its golds before any run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evaluator.benchmarks.catalogue import BENCHMARKS, Benchmark, read_definition
from evaluator.benchmarks.rows import SETTING, read_problems
from evaluator.evals.problems import Problem, problems_hash
from evaluator.grading import GradeCase, Grader
from evaluator.grading.extraction import gold_answer
from service.errors import InputError, NotFoundError, PrerequisiteError, first_lines, suggest
from service.questions import hub
from service.questions.files import KINDS, Source, open_file
from service.questions.images import RowImages
from service.questions.question import is_solution


class ChangedBenchmarkError(InputError):
    """A benchmark whose rows are not those it is known by: another number of them, or other content."""


@dataclass(frozen=True)
class LoadedBenchmark:
    """The problems of a benchmark in the order of its rows, and where they were read."""

    name: str
    # not in the representation, so that no gated one is logged
    problems: tuple[Problem, ...] = field(repr=False)
    # for a run's key: data set and commit, or file and hash, and the seed of shuffled options
    source: Mapping[str, Any] = field(default_factory=dict)
    benchmark: Benchmark | None = None
    content: str = "not checked"  # as known, pinned revision, not checked, or changed (with `allow_changed`)
    images: RowImages = field(default_factory=RowImages, repr=False)
    # by problem's id, programs that pass its tests
    references: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def gated(self) -> bool:
        """Whether the problems must not be shown."""
        return self.benchmark is not None and self.benchmark.gated

    @property
    def problems_hash(self) -> str:
        """The hash of the problems in order, as in an eval run over all of them."""
        return problems_hash(self.problems)


def content_hash(problems: Sequence[Problem]) -> str:
    """Return the hash of a benchmark's problems whatever their order; copies of the Hub differ in that.

    Images are left out: copies have the same pictures in other files.
    """
    texts = (replace(problem, images=(), copy=0) if problem.images else problem for problem in problems)
    return problems_hash(sorted(texts, key=lambda problem: problem.id))


def benchmark_loader(
    names: Sequence[str], sources: Sequence[str], **options: Any
) -> Callable[[str], LoadedBenchmark]:
    """Return `load_benchmark` for these names; `sources` are one file each in order, or NAME=FILE."""
    spellings = [spelling.partition("=") for spelling in sources]
    files = {name: file for name, equals, file in spellings if equals and name in names}
    if len(files) < len(sources):
        if len(sources) != len(names) or files:
            raise InputError(
                f"cannot match {len(sources)} --from to {len(names)} benchmarks. Give one per benchmark, in "
                f"order, or use NAME=FILE, such as --from {names[0]}=FILE."
            )
        files = dict(zip(names, sources, strict=True))
    return lambda name: load_benchmark(name, source=files.get(name), **options)


def load_benchmark(
    name: str, *, source: str | Path | None = None, options_seed: int = 0, allow_changed: bool = False
) -> LoadedBenchmark:
    """Load a benchmark of `BENCHMARKS` by its name, or one of the user's own by the path of its file.

    Args:
        name: a key of `BENCHMARKS`, or a path: a `.toml` definition, or a file of rows with `question`,
            `answer` and, where wanted, `kind` and `tolerance`.
        source: a file that holds the rows, in place of the Hub.
        options_seed: shuffles the options of multiple-choice questions; recorded in the result's `source`.
        allow_changed: take other content than expected; otherwise it raises `ChangedBenchmarkError`.
    """
    benchmark = find_benchmark(name)
    if benchmark.file is not None:
        if source is not None:
            raise InputError(f"{name}: defines its own rows; --from {source} applies to Hub benchmarks only.")
        source = benchmark.file
    origin: dict[str, Any]
    if source is None:
        opened = _open_hub(benchmark)
        named = {"hub": benchmark.hub_id, "configs": list(benchmark.configs), "split": benchmark.split}
        origin = {**named, "commit": opened.origin["commit"]}
    else:
        opened = open_file(Path(source))
        origin = {"file": Path(source).name, "sha256": opened.origin["sha256"]}
    images = RowImages(opened.folder, SETTING.format("images"))
    own = benchmark.name not in BENCHMARKS
    exact = own or source is None
    problems, references = read_problems(
        opened, benchmark, images, options_seed=options_seed, exact=exact, own=own
    )
    if benchmark.columns.options:
        origin["options_seed"] = options_seed
    pinned = source is None and benchmark.revision is not None
    content = _check(benchmark, problems, opened.name, pinned=pinned, allow_changed=allow_changed)
    return LoadedBenchmark(benchmark.name, problems, origin, benchmark, content, images, references)


def find_benchmark(name: str) -> Benchmark:
    """Return the benchmark of that name, or the one that a file defines."""
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    path = Path(name)
    if path.suffix.lower() == ".toml" or path.suffix.lower() in KINDS or path.exists():
        return read_definition(path)
    raise NotFoundError(f'no benchmark "{name}". {suggest(name, BENCHMARKS)} Or give a .toml or .jsonl file.')


def _open_hub(benchmark: Benchmark) -> Source:
    try:
        return hub.open_dataset(
            f"{hub.PREFIX}{benchmark.hub_id}",
            configs=benchmark.configs,
            split=benchmark.split,
            revision=benchmark.revision,
        )
    except PrerequisiteError as error:
        way_out = f"{error} Or pass a copy of {benchmark.name} with --from FILE."
        if benchmark.gated:
            way_out = (
                f"{benchmark.title} is gated: accept its terms at "
                f"https://huggingface.co/datasets/{benchmark.hub_id}, then log in "
                "with `hf auth login` or set HF_TOKEN. Or pass a copy that you are licensed to use with "
                f"--from FILE. ({error})"
            )
        raise PrerequisiteError(way_out) from error


def _check(
    benchmark: Benchmark, problems: tuple[Problem, ...], where: str, *, pinned: bool, allow_changed: bool
) -> str:
    """Return what is known of the content.

    A pinned commit cannot change, so there another spelling than that of the copy which was hashed is fine.
    """
    read = content_hash(problems)
    if benchmark.content_hash == read:
        return "as known"
    if benchmark.rows is not None and benchmark.rows != len(problems):
        changed = f"{benchmark.title} has {benchmark.rows:,} problems, but this source has {len(problems):,}"
    elif benchmark.content_hash is None or pinned:
        return "pinned revision" if pinned else "not checked"
    else:
        changed = (
            f"{benchmark.title} has the content hash {benchmark.content_hash[:12]}, but this source has "
            f"{read[:12]}: a question or an answer differs"
        )
    if allow_changed:
        return "changed"
    raise ChangedBenchmarkError(
        f"{where}: {changed}. Results would not be comparable with published ones. Pass another source with "
        "--from FILE, or accept this one with --allow-changed (`eval run`: allow_changed=true)."
    )


def check_golds(loaded: LoadedBenchmark, grader: Grader) -> list[dict[str, Any]]:
    """Return the golds that do not grade as correct against themselves, in order; rows count from 0."""
    cases = [
        GradeCase(loaded.references.get(problem.id, ""), problem.answer, problem.kind, problem.tolerance)
        for problem in loaded.problems
    ]
    return [
        {"row": row, "problem": problem.id, "reason": f"{grade.value} ({grade.reason})"}
        for row, (problem, grade) in enumerate(zip(loaded.problems, grader.check_golds(cases), strict=True))
        if grade.value != "correct"
    ]


def require_golds(
    loaded: LoadedBenchmark, grader: Grader, note: Callable[[str], None], *, allow: bool
) -> None:
    """Stop if `check_golds` finds anything, unless that is allowed; note what no response may equal."""
    failures, count = check_golds(loaded, grader), len(loaded.problems)
    if failures and not allow:
        lines = []
        for failure in failures:
            problem = loaded.problems[failure["row"]]
            hidden = loaded.gated or problem.kind == "code"
            gold = "" if hidden else f", gold {problem.answer!r}"
            lines.append(f"row {failure['row']}{gold}: {failure['reason']}")
        raise InputError(
            f"{loaded.name}: {len(failures)} of {count} gold answers are not graded correct when compared "
            f"with themselves, so no response could be correct:{first_lines(lines)}\nFix them, or pass "
            "allow_bad_golds=true to run anyway."
        )
    if failures:
        note(
            f"{loaded.name}: {len(failures):,} of {count:,} gold answers are not graded correct when "
            "compared with themselves; responses to these problems count as wrong"
        )
    texts = [problem for problem in loaded.problems if problem.kind != "code"]
    if solutions := sum(is_solution(gold_answer(problem.answer)) for problem in texts):
        note(
            f"{loaded.name}: {solutions:,} of {count:,} gold answers are multi-line solutions, which "
            "responses rarely match. Choose the column with the final answer. In a solution column, tagrpo "
            "reads the last \\boxed{} or the text after ####"
        )
    if loaded.content == "changed":
        note(f"{loaded.name}: the content differs from the known version; scores are not comparable")
