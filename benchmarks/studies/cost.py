"""What rephrasing MATH train will cost, before anything is asked: tokens of the real prompts, known prices.

Prompts are counted with the model's tokenizer as litellm ships it. Answers are estimated: a rewrite is as
long as its question times the ratio measured on real rephrasings, a solver's answer as long as the mean of
real ones. Nothing is sent.
"""

from __future__ import annotations

import argparse
import json
from statistics import fmean

from benchmarks.harness import add_data, print_table, read_jsonl, rounded
from rephraser.proposing.strategies import load_strategy
from rephraser.run.requests import build_messages
from rephraser.verdict import OverlapRule
from service.asks.money import Price, cost_pico, find_price
from service.asks.remote import litellm
from service.runs.tables import PICO_PER_USD

BATCH = 0.5  # price of a batch job


def _usd(price: Price, prompt_tokens: int, completion_tokens: int) -> float:
    return (cost_pico(price, prompt_tokens, completion_tokens) or 0) / PICO_PER_USD


def main() -> None:
    """Print the report; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data(parser)
    parser.add_argument("--model", default="gpt-4-turbo", help="proposer whose price litellm knows")
    parser.add_argument("--strategy", default="perspectives", help="a shipped strategy, or a text file")
    parser.add_argument("--rows", type=int, help="count only the first so many of each file")
    parser.add_argument("--n", type=int, default=3, help="neighbors a question")
    args = parser.parse_args()

    price = find_price(args.model)
    if price is None:
        parser.error(f"litellm does not know the price of {args.model}")
    strategy, rule = load_strategy(args.strategy), OverlapRule()

    def count(text: str) -> int:
        return int(litellm.token_counter(model=args.model, text=text))

    pairs = read_jsonl(args.data / "rephrase_gsm8k_decontaminator.jsonl")[: args.rows]
    ratio = sum(count(p["question"]) for p in pairs) / sum(count(p["original_question"]) for p in pairs)
    answer_tokens = fmean(
        count(r["response"]) for r in read_jsonl(args.data / "qwen25math_100x8.jsonl")[: args.rows]
    )

    questions = [str(row["question"]) for row in read_jsonl(args.data / "math_train.jsonl")][: args.rows]
    prompt = completion = 0
    for question in questions:
        messages = build_messages(strategy, question, args.n, structured=False)
        prompt += int(
            litellm.token_counter(
                model=args.model, messages=[{"role": each.role, "content": each.content} for each in messages]
            )
        )
        tags = "<rephrasing></rephrasing>" * args.n
        completion += round(count(question) * ratio * args.n) + count(tags)
    usd = _usd(price, prompt, completion)
    each = len(questions)

    solver = rule.original_samples * each, rule.looks[0] * args.n * each, rule.looks[-1] * args.n * each
    answers = [solver[0] + solver[1], solver[0] + solver[2]]
    report = {
        "questions": each,
        "prompt tokens a question": prompt / each,
        "answer tokens a question, estimated": completion / each,
        "usd of a request a question": usd,
        "usd as batch jobs": usd * BATCH,
        "solver answers": answers,
        "solver tokens, in millions": [total * answer_tokens / 1e6 for total in answers],
        "usd of these from the proposer": [_usd(price, 0, round(total * answer_tokens)) for total in answers],
    }
    title = f"{args.n} neighbors each, {args.model}, {strategy.name} v{strategy.version}"
    print_table(title, ({"item": item, "estimate": estimate} for item, estimate in report.items()))
    print(json.dumps(rounded(report)))


if __name__ == "__main__":
    main()
