"""Reading back what the probe kept of a run, and what a plain model says of the same responses."""

from pathlib import Path
from typing import Any

import torch


def step_of(place: Path, name: str, step: int) -> dict[str, Any]:
    """Return the step batch of a run."""
    return torch.load(place / name / f"step_{step}.pt", weights_only=False)


def verl_rows(place: Path, name: str, step: int) -> dict[str, Any]:
    """Return verl's own batch of a step, after advantages were written."""
    return torch.load(place / name / f"verl_{step}.pt", weights_only=False)


def load_model(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def plain_log_probs(model: Any, prompt: Any, response: Any) -> Any:
    """Return the log-probs of a response's tokens after a prompt, by one forward without padding."""
    ids = torch.cat([torch.as_tensor(prompt).long(), response])
    with torch.no_grad():
        log_probs = torch.log_softmax(model(ids[None]).logits[0].float(), -1)
    return log_probs[len(prompt) - 1 : -1].gather(-1, response[:, None])[:, 0]


def off(first: Any, second: Any) -> float:
    return float((first - second).abs().max())


def question_prompt(place: Path, rows: dict[str, Any], row: int) -> list[int]:
    """Return the token ids of the row's original question, made anew from the exported file."""
    import pyarrow.parquet as pq
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(place / "model")
    wanted = rows["extra_fields"][row]["tagrpo"]["question_id"]
    for each in pq.read_table(place / "set" / "train.parquet").to_pylist():
        if each["extra_info"]["question_id"] == wanted:
            text = tokenizer.apply_chat_template(each["prompt"], add_generation_prompt=True, tokenize=False)
            return tokenizer(text, add_special_tokens=False)["input_ids"]
    raise AssertionError(f"no question {wanted}")


def by_response(kept: dict[str, Any]) -> dict[tuple[str, int], int]:
    """Return the row of each response, by question and session."""
    names = zip(kept["question_ids"], kept["session_B"].tolist(), strict=True)
    return {name: row for row, name in enumerate(names)}


def assert_same_step(first: dict[str, Any], second: dict[str, Any], tolerance: float) -> None:
    rows, others = by_response(first), by_response(second)
    assert rows.keys() == others.keys()
    order = [others[name] for name in rows]
    for name in ("response_ids_BT", "mask_BT", "correct_B", "variant_B"):
        assert torch.equal(first[name], second[name][order]), name
    for name in ("old_log_probs_BT", "ref_log_probs_BT", "advantages_B", "weights_BT", "response_weights_B"):
        if first[name] is not None:
            torch.testing.assert_close(first[name], second[name][order], rtol=tolerance, atol=tolerance)


def embeddings(folder: Path) -> Any:
    return load_model(folder).get_input_embeddings().weight.detach()
