"""Settings: files, profiles, words, unions, lists of tables, all errors at once, templates, stored forms."""

import re
from pathlib import Path
from typing import Any

import pytest

from evaluator.config import EvalConfig, ScoreConfig
from rephraser.config import FileProposer, LlmProposer, RephraseConfig, RulesProposer, Solver
from service.config import Config
from service.config.reading import Reading, read_stored
from service.errors import InputError
from trainer_adapter.config import TrainConfig
from trainer_adapter.methods.recipes import find_recipe
from ui.cli.configs import template

EVAL = ["benchmarks=aime24", "model=m"]
REPHRASE = ["questions=math", "name=r", "proposer.model=m"]
WORDS: dict[type[Config], list[str]] = {
    EvalConfig: EVAL,
    ScoreConfig: ["run=r", "model=m"],
    RephraseConfig: REPHRASE,
    TrainConfig: ["recipe=ta"],
}
LAB = '[endpoint.lab]\nbase_url = "http://lab/v1"\nmodel = "served"\nmax_concurrency = 8\n'


def read(folder: Path, kind: type[Config], words: list[str], *files: str, profiles: str | None = None) -> Any:
    """Return the config that these words give after files with these texts."""
    reading = Reading(kind)
    if profiles is not None:
        (folder / "tagrpo.toml").write_text(profiles)
        reading.add_file(folder / "tagrpo.toml", profiles_only=True)
    for number, text in enumerate(files):
        path = folder / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        reading.add_file(path)
    reading.add_words(words)
    return reading.build()


def refused(*arguments: Any, **more: Any) -> str:
    with pytest.raises(InputError) as refusal:
        read(*arguments, **more)
    return str(refusal.value).replace(f"{arguments[0]}/", "")


def test_later_files_win_over_profiles_and_words_over_files(tmp_path):
    def built(*files: str, words: tuple[str, ...] = ()) -> tuple[Any, ...]:
        config = read(tmp_path, EvalConfig, ["benchmarks=a", *words], *files, profiles=LAB)
        return config.model, config.base_url, config.max_concurrency, config.max_tokens

    own = 'model = "own"\nmax_tokens = 5\n'
    assert built(own) == ("own", (), None, 5)
    assert built('endpoint = "lab"') == ("served", ("http://lab/v1",), 8, 3072)
    assert built(own, 'endpoint = "lab"\nmax_concurrency = 16') == ("own", ("http://lab/v1",), 16, 5)
    assert built(own, "max_tokens = 6", words=("endpoint=lab", "model=w")) == ("w", ("http://lab/v1",), 8, 6)
    assert built('endpoint = "lab"', words=("endpoint=none", "model=w")) == ("w", (), None, 3072)
    two = '[endpoint.lab]\nbase_url = ["http://a/v1", "http://b/v1/"]\n'
    assert built(own, two, words=("endpoint=lab",))[1] == ("http://a/v1", "http://b/v1")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("seed=none", None),
        ("batch=true", True),
        ("batch=False", False),
        ("seed=007", 7),
        ("temperature=.5", 0.5),
        ("prompt_file=p.txt", Path("p.txt")),
        ("prompt_file=none", None),
        ("system=Be brief = short.", "Be brief = short."),
        ("price=[1, 2.5]", (1.0, 2.5)),
        ("base_url=http://a/v1/", ("http://a/v1",)),
        ("base_url=[http://a/v1,http://b/v1]", ("http://a/v1", "http://b/v1")),
        ('stop=["\\n", "a,b"]', ("\n", "a,b")),
        ('chat_template_kwargs={"enable_thinking": false}', {"enable_thinking": False}),
        ("chat_template_kwargs={enable_thinking = false}", {"enable_thinking": False}),
        ("chat_template_kwargs.enable_thinking=false", {"enable_thinking": False}),
        ("chat_template_kwargs.date_string=2024-07-26", {"date_string": "2024-07-26"}),
        ("chat_template_kwargs.at=2024-07-26T12:00:00Z", {"at": "2024-07-26T12:00:00Z"}),
        ("chat_template_kwargs.d=0701", {"d": "0701"}),
        ("chat_template_kwargs.d=infinity", {"d": "infinity"}),
        ("chat_template_kwargs.d=\uff11\uff12", {"d": "\uff11\uff12"}),
        ("chat_template_kwargs.d=12", {"d": 12}),
        ("chat_template_kwargs.effort=none", {"effort": "none"}),
    ],
)
def test_words_are_read_as_the_type_of_their_field(tmp_path, word, value):
    config = read(tmp_path, EvalConfig, [*EVAL, word])
    assert getattr(config, re.split(r"[.=]", word)[0]) == value


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("c.e=1", {"a": 1, "c": {"d": 2, "e": 1}}),
        ("c.d=1", {"a": 1, "c": {"d": 1}}),
        ("c={}", {"a": 1, "c": {}}),
        ("c=3", {"a": 1, "c": 3}),
    ],
)
def test_words_change_parts_of_a_free_table(tmp_path, word, value):
    file = "chat_template_kwargs = {a = 1, c = {d = 2}}"
    config = read(tmp_path, EvalConfig, [*EVAL, f"chat_template_kwargs.{word}"], file)
    assert config.chat_template_kwargs == value


A, B = {"model": "a"}, {"model": "b"}
BOTH = '[[solver]]\nmodel = "a"\n[[solver]]\nmodel = "b"\n'
THINKING = '[[solver]]\nmodel = "a"\nchat_template_kwargs = {thinking = false}\n'
FOO = "solver.chat_template_kwargs.foo=1"


@pytest.mark.parametrize(
    ("file", "words", "solvers"),
    [
        ("", [], []),
        ("", ["solver=a"], [A]),
        ("", ["solver=[a,b]", "solver.max_tokens=5"], [A | {"max_tokens": 5}, B | {"max_tokens": 5}]),
        ("", ["solver=[a,b]", "solver.1.temperature=1"], [A, B | {"temperature": 1.0}]),
        ("[solver]\nmax_tokens = 7\n", ["solver=a"], [A | {"max_tokens": 7}]),
        ("[solver]\nmax_tokens = 7\n", [], []),
        ('[solver]\nmodel = "a"\nmax_tokens = 7\n', [], [A | {"max_tokens": 7}]),
        (BOTH + "max_tokens = 4\n", [], [A, B | {"max_tokens": 4}]),
        (BOTH + "max_tokens = 4\n", ["solver.max_tokens=5"], [A | {"max_tokens": 5}, B | {"max_tokens": 5}]),
        (BOTH, ["solver=c"], [{"model": "c"}]),
        (BOTH, ["solver=none"], []),
        (BOTH, ["solver=none", "solver.model=a"], [A]),
        ('solver = ["a", {model = "b", temperature = 0.0}]\n', [], [A, B | {"temperature": 0.0}]),
        (THINKING, [FOO], [A | {"chat_template_kwargs": {"thinking": False, "foo": 1}}]),
        (
            THINKING,
            [FOO.replace("foo=1", "thinking=true")],
            [A | {"chat_template_kwargs": {"thinking": True}}],
        ),
        (THINKING, ["solver.chat_template_kwargs=none"], [A]),
        (
            "[solver]\nchat_template_kwargs = {bar = 2}\n",
            ["solver=[a,b]", FOO, "solver.1.chat_template_kwargs.bar=3"],
            [
                A | {"chat_template_kwargs": {"bar": 2, "foo": 1}},
                B | {"chat_template_kwargs": {"bar": 3, "foo": 1}},
            ],
        ),
    ],
)
def test_a_list_of_tables_is_given_by_names_for_all_or_one_by_one(tmp_path, file, words, solvers):
    config = read(tmp_path, RephraseConfig, [*REPHRASE, *words], file)
    assert list(config.solver) == [Solver(**each) for each in solvers]


@pytest.mark.parametrize(
    ("file", "words", "proposer"),
    [
        ('[proposer]\nmodel = "m"\n', [], LlmProposer(model="m")),
        ("", ["proposer.model=m", "proposer.temperature=0.5"], LlmProposer(model="m", temperature=0.5)),
        ("", ["proposer=rules"], RulesProposer(kind="rules")),
        ('[proposer]\nmodel = "m"\nmax_tokens = 9\n', ["proposer=rules"], RulesProposer(kind="rules")),
        ("", ["proposer=file", "proposer.candidates=c"], FileProposer(kind="file", candidates="c")),
        ('proposer = "rules"', ["proposer.min_distance=1"], RulesProposer(kind="rules", min_distance=1.0)),
    ],
)
def test_a_table_of_several_kinds_is_chosen_by_its_kind(tmp_path, file, words, proposer):
    assert read(tmp_path, RephraseConfig, [*REPHRASE[:2], *words], file).proposer == proposer


@pytest.mark.parametrize(
    ("kind", "file", "words", "says"),
    [
        (EvalConfig, 'n = "5"', [], "0.toml:1: n is '5'; give an integer, 1 to 100,000."),
        (EvalConfig, "\nlimit = true", [], "0.toml:2: limit is True; give an integer, at least 1."),
        (EvalConfig, "max_tokns = 3", [], "0.toml:1: max_tokns: unknown setting. Did you mean max_tokens?"),
        (
            RephraseConfig,
            "",
            ["propser.model=m"],
            "propser.model: unknown setting. Did you mean proposer.model?",
        ),
        (EvalConfig, "x", [], "0.toml: not valid TOML"),
        (EvalConfig, "model = 5", [], "0.toml:1: model is 5; give a string."),
        (
            EvalConfig,
            "stop = [1]",
            [],
            "0.toml:1: stop.0: 1 cannot be used (Input should be a valid string).",
        ),
        (EvalConfig, "", ["max_usd=true"], "max_usd is 'true'; give a number, at least 0."),
        (EvalConfig, "", ["n=true"], "n is 'true'; give an integer, 1 to 100,000."),
        (EvalConfig, "", ["n=5.0"], "n is '5.0'; give an integer, 1 to 100,000."),
        (EvalConfig, "", ["n=2024-01-01"], "n is '2024-01-01'; give an integer, 1 to 100,000."),
        (EvalConfig, "", ["timeout_s=12:30:00"], "timeout_s is '12:30:00'; give a number, more than 0."),
        (EvalConfig, "", ["batch=yes"], "batch is 'yes'; give true or false."),
        (EvalConfig, "", ["batch=1"], "batch is '1'; give true or false."),
        (EvalConfig, "", ["price=[true,false]"], "price is '[true,false]'; give a list of 2 values."),
        (EvalConfig, "", ["temperature=hot"], "temperature is 'hot'; give a number, 0 to 10."),
        (EvalConfig, "", ['stop=[""]'], "stop contains an empty string, which would end every response"),
        (EvalConfig, "", ["price=[1,-2]"], "price: give two finite numbers, 0 or more"),
        (EvalConfig, "", ["base_url=[http://a/v1,http://a/v1/]"], "http://a/v1 appears twice"),
        (EvalConfig, "", ["base_url=http://me:secret@h/v1"], "the address of h contains a user name"),
        (EvalConfig, "", ["device=cpu"], "device does not apply to sampler=remote."),
        (EvalConfig, "", ["sampler=vllm", "base_url=http://h/v1"], "base_url is for remote models"),
        (EvalConfig, "", ["neighbors=x"], "give either benchmarks, or a published neighbor set"),
        (
            EvalConfig,
            "",
            ["endpoint=other"],
            "[endpoint.other] does not exist. Available: lab",
        ),
        (ScoreConfig, "", ["retry_final=true"], "Remove retry_final."),
        (RephraseConfig, BOTH + "max_tokens = '7'", [], "0.toml:5: solver.1.max_tokens is '7'; give"),
        (
            RephraseConfig,
            "[verdict]\nlooks = [1.5]",
            [],
            "0.toml:2: verdict.looks.0: 1.5 cannot be used (Input",
        ),
        (RephraseConfig, BOTH + "foo = 1", [], "0.toml:5: solver.1.foo: unknown setting. Did you mean"),
        (RephraseConfig, BOTH, ["solver.foo=1"], "solver.foo: unknown setting. Did you mean solver.form?"),
        (RephraseConfig, "", ["verdict=3"], "verdict is 3; give a table."),
        (RephraseConfig, "verdict = 3", [], "0.toml:1: verdict is 3; give a table."),
        (RephraseConfig, "verdict = 3", ["verdict.accept=9"], "0.toml:1: verdict is 3; give a table."),
        (RephraseConfig, "premises = []", [], "0.toml:1: premises is []; give a table."),
        (RephraseConfig, "proposer = 3", [], "0.toml:1: proposer is 3; give a table."),
        (RephraseConfig, "", ["proposer=none"], "proposer is 'none'; give one of: 'llm', 'rules', 'file'."),
        (
            RephraseConfig,
            '[proposer]\nmodel = "m"\nprice = [1.0]',
            [],
            "0.toml:3: proposer.price.1 is missing. USD per million prompt tokens",
        ),
        (TrainConfig, "", ["0=5"], "0: unknown setting. See `tagrpo config train`."),
        (TrainConfig, "", ["data.x=5"], "Settings of verl start with `verl.`: verl.data.x=5"),
        (
            RephraseConfig,
            "",
            ["price=[0,0]"],
            "Did you mean proposer.price or solver.price or premises.price?",
        ),
        (TrainConfig, "", ["loss=none"], "loss is 'none'; give a table."),
        (TrainConfig, "", ["settings.k=x"], "settings.k: 'x' cannot be used (Input should be a"),
        (TrainConfig, "", ["settings.int=true"], "settings.int: True cannot be used (Input should be a"),
        (
            TrainConfig,
            "[trainer]\nsave_freq = 5",
            [],
            "0.toml:2: trainer.save_freq: unknown setting. Settings of verl start with `verl.`: verl.",
        ),
        (
            RephraseConfig,
            "",
            ["proposer=rules", "proposer.model=x"],
            "proposer.model is used only with proposer=llm. Remove it, or set proposer=llm.",
        ),
    ],
)
def test_an_error_names_the_value_its_place_and_the_way_out(tmp_path, kind, file, words, says):
    base = WORDS[kind] if kind is not RephraseConfig or "proposer" not in str((file, words)) else REPHRASE[:2]
    given = {word.partition("=")[0] for word in words} | set(re.findall(r"(?m)^(\w+) =", file))
    message = refused(
        tmp_path,
        kind,
        [*(word for word in base if word.partition("=")[0] not in given), *words],
        file,
        profiles=LAB,
    )
    assert says in message
    assert "settings are invalid" not in message
    assert "secret" not in message


def test_all_errors_come_at_once(tmp_path):
    message = refused(
        tmp_path, EvalConfig, ["n=0", "zzz=1"], 'temperature = "hot"\n', "max_tokns = 1\nseed = -1\n"
    )
    assert message.splitlines()[0] == "6 settings are invalid:"
    lines = [line.strip() for line in message.splitlines()[1:]]
    for start in (
        "0.toml:1: temp",
        "1.toml:1: max_",
        "1.toml:2: seed",
        "n is 0; give",
        "zzz: unk",
        "model is",
    ):
        assert any(line.startswith(start) for line in lines), message


@pytest.mark.parametrize("name", ["api_key", "api-key", "token", "password"])
def test_a_key_is_refused_and_never_repeated(tmp_path, monkeypatch, name):
    says = 'give its name: `export LAB_KEY=...` and api_key_env = "LAB_KEY".'
    profile = f'[endpoint.lab]\n{name} = "credential-4711"\n'
    for words, profiles in (([f"{name}=credential-4711"], None), (["endpoint=lab"], profile)):
        message = refused(tmp_path, EvalConfig, [*EVAL, *words], profiles=profiles)
        assert (says in message, "4711" in message) == (True, False)
    for variable, says in (
        ("credential-4711", "looks like the key itself"),
        ("hf_abcdefghijklm", "looks like the key itself"),
        ("LAB_CREDENTIAL", "the variable LAB_CREDENTIAL is not set"),
    ):
        message = refused(tmp_path, EvalConfig, [*EVAL, f"api_key_env={variable}"])
        assert (says in message, "4711" in message) == (True, False)
    monkeypatch.setenv("LAB_CREDENTIAL", "x")
    assert read(tmp_path, EvalConfig, [*EVAL, "api_key_env=LAB_CREDENTIAL"]).api_key_env == "LAB_CREDENTIAL"


def test_the_file_of_profiles_holds_nothing_else(tmp_path):
    says = "tagrpo.toml: n: not a profile"
    assert says in refused(tmp_path, EvalConfig, EVAL, profiles="n = 3\n" + LAB)
    wrong = refused(tmp_path, EvalConfig, EVAL, profiles="[endpoint]\nlab = 1\n")
    assert "endpoint.lab: not a profile" in wrong
    unknown = refused(tmp_path, EvalConfig, [*EVAL, "endpoint=lab"], profiles=LAB.replace("max", "mx"))
    assert "tagrpo.toml:4: mx_concurrency: unknown setting. Did you mean max_concurrency?" in unknown
    with pytest.raises(InputError, match=r"absent\.toml: cannot be read"):
        Reading(EvalConfig).add_file(tmp_path / "absent.toml")


@pytest.mark.parametrize("kind", WORDS)
def test_a_template_reads_back_and_so_does_every_default_in_it(tmp_path, kind):
    plain, text = read(tmp_path, kind, WORDS[kind]), template(kind, "About.")
    assert read(tmp_path, kind, WORDS[kind], text) == plain
    defaults, skipping = [], False
    for line in text.splitlines():
        if re.match(r"(# )?\[", line):
            skipping = line.startswith("# ")  # the table of another choice
        defaults.append(line if skipping else re.sub(r"^# (?=\w+ = \S)", "", line))
    assert sum(not line.startswith("#") for line in defaults) > 20
    assert read(tmp_path, kind, WORDS[kind], "\n".join(defaults)) == plain


@pytest.mark.parametrize(
    ("kind", "given", "words", "changed"),
    [
        (EvalConfig, [], ["max_usd=3"], {"max_usd": 3.0}),
        (EvalConfig, ["base_url=http://o/v1"], ["base_url=http://x/v1"], {"base_url": ("http://x/v1",)}),
        (EvalConfig, ["seed=none"], ["timeout_s=9"], {"timeout_s": 9.0}),
        (EvalConfig, ["timeout_s=1"], ["endpoint=lab"], {"base_url": ("http://lab/v1",), "timeout_s": 9.0}),
        (EvalConfig, ['chat_template_kwargs={"a": 1}'], ["n=64", "limit=3"], {"n": 64, "limit": 3}),
        (RephraseConfig, ["solver=[a,b]"], ["max_usd=3"], {"max_usd": 3.0}),
        (RephraseConfig, [], ["stop_below=none"], {}),
    ],
)
def test_a_stored_config_takes_settings_that_shape_no_result(tmp_path, kind, given, words, changed):
    profiles = tmp_path / "tagrpo.toml"
    profiles.write_text('[endpoint.lab]\nbase_url = "http://lab/v1"\ntimeout_s = 9\n')
    config = read(tmp_path, kind, [*WORDS[kind], *given])
    assert read_stored(kind, config.stored(), words, profiles=profiles) == config.model_copy(update=changed)


def test_a_stored_list_of_tables_is_changed_for_all_or_one_by_one(tmp_path):
    stored = read(tmp_path, RephraseConfig, [*REPHRASE, "solver=[a,b]", "premises=p"]).stored()

    def addresses(*words: str) -> list[tuple[str, ...]]:
        return [each.base_url for each in read_stored(RephraseConfig, stored, words).solver]

    assert addresses("solver.base_url=http://x/v1") == [("http://x/v1",)] * 2
    assert addresses("solver.1.base_url=http://x/v1") == [(), ("http://x/v1",)]
    with pytest.raises(InputError, match=r"\[endpoint\.lab\] does not exist\. Available: none\."):
        addresses("solver.endpoint=lab")
    profiles = tmp_path / "tagrpo.toml"
    profiles.write_text("[endpoint.lab]\nbase_ur = 'x'\n")
    with pytest.raises(InputError, match=r"^solver.endpoint=lab: solver.base_ur: unknown setting"):
        read_stored(RephraseConfig, stored, ["solver.endpoint=lab"], profiles=profiles)


@pytest.mark.parametrize(
    ("kind", "word", "says"),
    [
        (EvalConfig, "temperature=1", "temperature=1: this setting affects the results"),
        (RephraseConfig, "solver.0.max_tokens=4", "solver.0.max_tokens=4: this setting affects the results"),
        (RephraseConfig, "proposer.kind=rules", "this setting affects the results"),
        (EvalConfig, "max_usd=-1", "max_usd is -1.0; give a number, at least 0."),
    ],
)
def test_a_stored_config_refuses_other_words(tmp_path, kind, word, says):
    stored = read(tmp_path, kind, [*WORDS[kind], *(["solver=a"] if kind is RephraseConfig else [])]).stored()
    with pytest.raises(InputError) as refusal:
        read_stored(kind, stored, [word])
    assert says in str(refusal.value)


def test_an_unknown_recipe_is_refused_with_those_that_exist_even_if_it_is_none(tmp_path):
    with pytest.raises(InputError, match=r"no recipe 'none'\. Available: grpo, .* Or give a TOML file\."):
        find_recipe(read(tmp_path, TrainConfig, ["recipe=none"]).recipe.name)
