import time

import pytest

from evaluator.grading.extraction import after_thinking, find_answer
from service.boxes import boxed_answer, last_boxed


def _text(response: str) -> str | None:
    found = find_answer(response)
    return found.text if found is not None else None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{5}", "5"),
        (r"first \boxed{4}, then \boxed{5}.", "5"),
        (r"\boxed{\frac{1}{\sqrt{2}}} done", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{x \mid x > 2\right\}}", r"\left\{x \mid x > 2\right\}"),
        (r"\boxed {7}", "7"),
        (r"\boxed 5 is it", "5"),
        (r"$\boxed\frac{1}{2}$", r"\frac{1}{2}"),
        (r"\fbox{12}", "12"),
        (r"\\boxed{9}", "9"),
        (r"\boxed{\boxed{3}}", "3"),
        (r"\boxed{}", ""),
        (r"\boxed{4} but a cut \boxed{5", "4"),
        (r"\boxed{5", None),
        (r"\boxedtext{5}", None),
        ("no box at all", None),
        ("", None),
    ],
)
def test_last_boxed(text, answer):
    assert last_boxed(text) == answer


def test_boxes_in_a_row_are_one_answer():
    assert boxed_answer(r"so \boxed{2} and \boxed{3}") == "2, 3"
    assert boxed_answer(r"$\boxed{2}$, $\boxed{3}$") == "2, 3"
    assert boxed_answer(r"\boxed{2}\boxed{2}") == "2"
    assert boxed_answer(r"\boxed{2}. Checking again gives \boxed{3}") == "3"


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("3 + 4 = 7\nA: 7", "7"),
        ("2 - 5.5 = -3.5\nThe answer is:\n-3.5 million", "-3.5 million"),
        ("The answer is:\n---\n- 7 pens", "7"),
        ("3 + 4 = 7\n#### 7", "7"),
        ("#### 1,000\n", "1,000"),
        ("The final answer is $\\frac{1}{2}$. I hope it is correct.", r"\frac{1}{2}"),
        ("Therefore the answer is 12.5.", "12.5"),
        ("**Final answer:** **73**", "73"),
        ("### Final Answer\n\n$x + 1$\n", "x + 1"),
        ("Answer: (B)", "(B)"),
        ("The answer is 4. No wait, the answer is 5.", "5"),
        ("The answer is $2$ and $3$.", "2, 3"),
        (r"The answer is 3, that is \boxed{4}", "4"),
        ("I checked 1331 and 1728.", "1331, 1728"),
        ("The option for 14 is not given.\n#### E ", "E"),
        ("Answer: sqrt(6)/3", "sqrt(6)/3"),
        ("Answer: pi**2/6", "pi**2/6"),
        ('```json\n{\n "why": "Not \\\\(7\\\\).",\n "answer": "\\\\frac{3}{4}"\n}\n```', r"\frac{3}{4}"),
        ('{"answer": 12, "why": "The answer is not 5, for 5 is odd."}', "12"),
        ('{"steps": ["add"], "Final Answer": [1, 2]}', "1, 2"),
        ('{"answer": 12}\nChecked anew, the answer is 13.', "13"),
        (r"It is \boxed{7}. I found no errors. The final answer is correct.", "7"),
        ("The answer is 7.\n2 + 5 = 7, so the answer is indeed correct!", "7"),
        ("", None),
        ('The final answer is:\n\n>> FINAL ANSWER:\n"""\n-80\n"""', "-80"),
        ('Final answer: """42"""', "42"),
        ("Final answer:\n```text\n42\n```", "42"),
        ("The final answer is: ```\n42\n```", "42"),
        ('Final answer:\n```json\n{"answer": 12}\n```', "12"),
        (r'{"answer": "\u0033"}', "3"),
        (r'{"answer": "\frac{3}{4}"}', r"\frac{3}{4}"),
        (r'{"answer": "3\/4"}', "3/4"),
        (r'{"answer": "\u00b14, \"x\""}', '±4, "x"'),
        (r'{"answer": "\\upsilon"}', r"\upsilon"),
        ("so 9 - 4 = 5</think> <answer>5</answer>", "5"),
        ("<answer>\n$\\frac{1}{2}$\n</answer>\nUser: And 2 + 5?", r"\frac{1}{2}"),
        ("<answer> Mia has 9 pens. She sells 2 of them, so 7 are left. </answer>", "7"),
        ("<answer>5</answer> or rather <answer>7</answer> <answer> </answer>", "7"),
        ("It goes in <answer> </answer> tags. The answer is 5.", "5"),
        ("I write it as <answer>your answer</answer>. 2 + 3 = 5. The answer is 5.", "5"),
        ("<answer>5</answer>\nI forgot one. Final answer: 6", "6"),
        ("#### 1 in 6", "1 in 6"),
        ("<answer> She has 7 pens. </answer> 7 * 2 = 14 </answer> So they cost 14 dollars.", "14"),
        ("#### 118 000 people in 3 towns", "118 000"),
        ("#### 5 + 3 = 8", "8"),
        ("#### 3 times 4 is 12", "12"),
        ("#### 9 rows in 3 fields = 27", "27"),
        ("#### 3 1/2", "3 1/2"),
        ("#### 4 cats and 3 dogs", "4, 3"),
        ("#### 2 hours 30 minutes", "2 hours 30 minutes"),
        ("The town has 3 million people.", "3 million"),
        ("So 5. The answer is 5.\n\nQuestion: Mia has 3?\nAnswer: Let us see. The answer is 3.", "5"),
        ("Q: Two and two?\nA: The answer is 4.\n\nQ: And three?\nA: The answer is 7.", "7"),
        ("The answer is 4.\nQuestion 2: And three more?\nThe answer is 7.", "7"),
        (r"It earns \$2.5 million in 3 years.", r"\$2.5 \text{million}"),
        # in other scripts
        ("先算 3 + 4 = 7。\n\n**答案：7个苹果**", "7"),
        ("答案是12.5米。", "12.5"),
        ("【答案】7\n【解析】因为 $3 + 4 = 7$，所以 $y = 2$。", "7"),
        ("【解析】虚部是 $4$。 <eoe>\n【答案】: D <eoa>", "D <eoa>"),
        ("[正确答案]B<eoa>\n这是 2 年前的规定。", "B<eoa>"),
        ("**【正确答案】** 7\n\n**【解析】** 因为 $3 + 4 = 7$，所以 $y = 2$。", "7"),
        ("【答案】 12 【解析】共有 3 排，每排 4 人。", "12"),
        ("【答案】[金额]30元<eoa>\n【解析】两次各 15 元。", "30"),
        ("答案：9\n\n【答案】\n\n【题目】下列 3 项中", "9"),
        ("答案：C\n\n请把答案写在[正确答案]和<eoa>之间。例如[正确答案]A<eoa>。", "C"),
        ("因此，每天要擦8次黑板。", "8"),
        ("所以面积是$\\frac{1}{2}$平方米。", r"\frac{1}{2}"),
        ("比较四个选项，故选：C", "C"),
        ("答案选 **B**。", "B"),
        ("それで、答えは9個です。", "9"),
        ("따라서 정답은 6개입니다.", "6"),
        ("ดังนั้น คำตอบคือ 4", "4"),
        ("Значит, всего 2 + 5 = 7 яблок.\n\n**Ответ: 7.**", "7"),
        ("Число способов с двумя цветами равно **20**.", "20"),
        ("答案：5万元", "5 万元"),
        ("Ответ: 3 млн рублей", "3 млн рублей"),
    ],
)
def test_the_answer_of_a_response(response, answer):
    assert _text(response) == answer


@pytest.mark.slow
@pytest.mark.parametrize(
    "hostile",
    [
        r"\boxed{" * 100_000,
        "{" * 500_000 + r"\boxed{1}",
        r"\boxed{1}" + " " * 1_000_000,
        "final answer " * 50_000,
        "answer: " + "$" * 200_000,
        "\n" * 500_000 + "A:",
        r"\boxed" + " " * 500_000,
        r"\boxed{1} " * 50_000,
        "\\" * 1_000_000,
        r"\boxed{" + "\\" * 1_000_000 + "}",
        "the answer is " * 100_000,
        "或者，答案是5吗？" * 50_000,
        "选" * 500_000,
    ],
    ids=range(13),
)
def test_extraction_is_linear(hostile):
    started = time.monotonic()
    _text(hostile)
    assert time.monotonic() - started < 5


def test_thinking_is_no_answer():
    assert _text(r"<think>maybe \boxed{5}</think> so \boxed{6}") == "6"
    assert _text(r"maybe \boxed{5}</think> The answer is 6.") == "6"
    assert _text(r"[THINK]maybe \boxed{5}[/THINK] The answer is 6.") == "6"
    assert _text(r"<Thinking>maybe \boxed{5}") is None
    assert _text(r"<think>maybe \boxed{5}</think> I do not know") is None
    assert _text(r"<think>maybe \boxed{5}, let me check") is None


STARTS = ("<|channel|>analysis<|message|>", "analysis<|message|>", "analysis", "assistantanalysis")


@pytest.mark.parametrize("start", [*STARTS, ""])
@pytest.mark.parametrize(
    "turn",
    [
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>",
        "\n\nassistantfinal",
        "assistantcommentary to=functions.sum json{}assistantanalysisGood.assistantfinal",
    ],
)
def test_of_channels_the_final_one_is_the_reply(start, turn):
    assert after_thinking(f"{start}We add: \\boxed{{5}}.{turn}So 6.") == "So 6."
    assert after_thinking(f"{start}We add.{turn}5?{turn}So 6.") == "So 6."


@pytest.mark.parametrize(
    "text", ["analysis of a sum: 5", "Analysis\nWe add.", "analysis: 5", "An AssistantFinal is 5"]
)
def test_words_that_channels_have_in_their_names_are_text(text):
    assert after_thinking(text) == text
