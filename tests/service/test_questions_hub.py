"""Hub data sets, against a small server that speaks the Hub's protocol on the loopback."""

import json
from pathlib import Path

import pytest
from hub_folder import CLOSED, COMMIT, HubSet, in_own_process, serve_hub

ROWS = [{"problem": f"What is {n}+{n}?", "solution": f"It is \\boxed{{{2 * n}}}."} for n in range(5)]
DATA = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
SCRIPT = """
from service.questions import Columns, RowLimits, read_source

def read(source, options):
    rows = read_source(source, columns=Columns(), limits=RowLimits(), **options)
    return {"golds": [member.question.answer for member in rows.members], "origin": rows.origin}
"""


@pytest.mark.slow
def test_a_data_set_is_read_at_the_commit_that_is_recorded(tmp_path: Path) -> None:
    with serve_hub({"org/tiny": HubSet({"train.jsonl": DATA})}) as hub:
        found, nothing, revision, split, config = in_own_process(
            SCRIPT,
            hub.address,
            tmp_path,
            ["org/tiny", {}],
            ["org/nothing", {}],
            ["org/tiny", {"revision": "v9"}],
            ["org/tiny", {"split": "validation"}],
            ["org/tiny", {"configs": ["large"]}],
        )
    assert found["golds"] == ["0", "2", "4", "6", "8"]
    assert (found["origin"]["commit"], found["origin"]["split"]) == (COMMIT, "train")
    assert f"/datasets/org/tiny/resolve/{COMMIT}/train.jsonl" in hub.asked
    for result, message in (
        (nothing, "no such dataset on the Hub"),
        (revision, 'the Hub has no revision "v9"'),
        (split, "see --config and --split"),
        (config, "see --config and --split"),
    ):
        assert result["error"] == "InputError"
        assert message in result["message"]

    # The network goes away; what was read stays readable, and is not taken for another revision.
    cached, prefix, other = in_own_process(
        SCRIPT,
        CLOSED,
        tmp_path,
        ["hf:org/tiny", {}],
        ["org/tiny", {"revision": COMMIT[:10]}],
        ["org/tiny", {"revision": "v2"}],
    )
    assert cached == found
    assert prefix["golds"] == found["golds"]
    assert other["error"] == "PrerequisiteError"
    assert 'may differ from the revision "v2"' in other["message"]
