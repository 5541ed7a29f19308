"""The benchmarks that tagrpo knows, one entry each.

Revisions are commits of the Hub data sets that public projects pin; the Hub itself was out of reach when this
was written. Content hashes are of the same rows in public GitHub repositories (the files of
QwenLM/Qwen2.5-Math at commit a45202b give those of aime24, amc23, olympiadbench, minerva and gsm8k; that of
math-test is of a copy of its 5,000 rows in LightChen233/ECM, which holds all of math500 alike). Whether
the Hub spells every row alike could not be compared, so a pinned commit is taken as it is.
"""

from evaluator.benchmarks.types import Benchmark, BenchmarkColumns
from evaluator.grading import AnswerKind

GPQA_OPTIONS = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
MATH_SUBJECTS = (
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
)
_MAA = "Problems (c) Mathematical Association of America"
_MATH = "Hendrycks et al., Measuring Mathematical Problem Solving With the MATH Dataset, arXiv 2103.03874"

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            name="amc12",
            title="AMC 12 (2022, 2023)",
            hub_id="AI-MO/aimo-validation-amc",
            configs=(),
            split="train",
            revision="69d78a4a2c840e82d69af6bc742bda09005f6316",
            rows=83,
            columns=BenchmarkColumns(question="problem", answer="answer"),
            kind=AnswerKind.INTEGER,
            licence="Apache-2.0",
            citation=f"AI-MO, AIMO validation set AMC. {_MAA}",
            content_hash="1f0171e995005f8a8d1292435a3144353e8acf52875dab717ceb9738d7839a4e",
            note="Rewritten by AI-MO to ask for an integer; holds all 40 problems of amc23.",
        ),
        Benchmark(
            name="amc23",
            title="AMC 12 2023",
            hub_id="math-ai/amc23",
            configs=(),
            split="test",
            revision="80815d37005feb82cd7f8fbc6901d5d3eff43057",
            rows=40,
            columns=BenchmarkColumns(question="question", answer="answer"),
            kind=AnswerKind.INTEGER,
            licence="not declared; the same rows are Apache-2.0 in AI-MO/aimo-validation-amc",
            citation=f"AI-MO, AIMO validation set AMC. {_MAA}",
            content_hash="92401d444169e9f9965052099b3bb29c538a82e9585bd07f327815fcd07d7ee2",
        ),
        Benchmark(
            name="aime24",
            title="AIME 2024",
            hub_id="HuggingFaceH4/aime_2024",
            configs=(),
            split="train",
            revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
            rows=30,
            columns=BenchmarkColumns(question="problem", answer="answer"),
            kind=AnswerKind.INTEGER,
            licence="not declared",
            citation=f"AIME I and II 2024. {_MAA}",
            content_hash="b552c42d90dc4978619781dfb620ce96ce741ebbde4af0d8e5436bbaeb539a2b",
        ),
        Benchmark(
            name="aime25",
            title="AIME 2025",
            hub_id="math-ai/aime25",
            configs=(),
            split="test",
            revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
            rows=30,
            columns=BenchmarkColumns(question="problem", answer="answer"),
            kind=AnswerKind.INTEGER,
            licence="not checked",
            citation=f"AIME I and II 2025. {_MAA}",
            content_hash="fe3b166ab30e43440e83c4ad082fc0abfada749bf23c17e7e1856d9cde7cbedf",
            note="One gold carries a degree sign in some copies; it is read as the integer.",
        ),
        Benchmark(
            name="olympiadbench",
            title="OlympiadBench (text only)",
            hub_id="zwhe99/simplerl-OlympiadBench",
            configs=(),
            split="test",
            revision=None,
            rows=675,
            columns=BenchmarkColumns(question="question", answer="final_answer", tolerance="error"),
            kind=AnswerKind.LATEX,
            licence="Apache-2.0",
            citation="He et al., OlympiadBench, arXiv 2402.14008",
            content_hash="ff5ae24b3f59f15aa68fdfdaf57ae7f1526f8e2e6e52aa2892484323bc1a5f35",
            note="English open-ended competition mathematics. The revision is not pinned: no commit of this "
            "Hub copy could be confirmed, so its content is checked instead. Hothan/OlympiadBench and "
            "math-ai/olympiadbench hold 674 of these problems.",
        ),
        Benchmark(
            name="minerva",
            title="Minerva Math (OCWCourses)",
            hub_id="math-ai/minervamath",
            configs=(),
            split="test",
            revision="ee46ddc498933b1977577953250ca5c66be64f96",
            rows=272,
            columns=BenchmarkColumns(question="question", answer="answer"),
            kind=AnswerKind.TOLERANCE,
            licence="not checked; problems of MIT OpenCourseWare (CC BY-NC-SA)",
            citation="Lewkowycz et al., Solving Quantitative Reasoning Problems, arXiv 2206.14858",
            content_hash="2627a36dea48147a899681c837d3b7dacf56294bca98c528899d4dffa9c30fad",
            note="Numbers within 1% are right, as in the grader of its authors; Qwen's harness takes 0.01%.",
        ),
        Benchmark(
            name="gpqa-diamond",
            title="GPQA Diamond",
            hub_id="Idavidrein/gpqa",
            configs=("gpqa_diamond",),
            split="train",
            revision="633f5ee89ab8ad4522a9f850766b73f62147ffdd",
            rows=198,
            columns=BenchmarkColumns(question="Question", options=GPQA_OPTIONS),
            kind=AnswerKind.CHOICE,
            licence="CC-BY-4.0",
            citation="Rein et al., GPQA: A Graduate-Level Google-Proof Q&A Benchmark, arXiv 2311.12022",
            gated=True,
            note="Its authors ask that it not be posted in plain text: rows are never shown. Of a file only "
            "the number of rows is checked.",
        ),
        Benchmark(
            name="math500",
            title="MATH-500",
            hub_id="HuggingFaceH4/MATH-500",
            configs=(),
            split="test",
            revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
            rows=500,
            columns=BenchmarkColumns(question="problem", answer="answer"),
            kind=AnswerKind.LATEX,
            licence="not declared; MATH is MIT, contested by AoPS",
            citation=f"Lightman et al., Let's Verify Step by Step, arXiv 2305.20050; {_MATH}",
            content_hash="acc08f12a7d515b9e9b34367880426f7e26976783a5f754715e0b23896f9ea6f",
        ),
        Benchmark(
            name="math-test",
            title="MATH test",
            hub_id="EleutherAI/hendrycks_math",
            configs=MATH_SUBJECTS,
            split="test",
            revision="21a5633873b6a120296cce3e2df9d5550074f4a3",
            rows=5000,
            columns=BenchmarkColumns(question="problem", solution="solution"),
            kind=AnswerKind.LATEX,
            licence="MIT, contested by AoPS",
            citation=_MATH,
            content_hash="932667956b019698d4c26ed13f3e7be6a947b3f43d4f6d56226eae67bef6c295",
            note="The gold is the last box of the solution.",
        ),
        Benchmark(
            name="gsm8k",
            title="GSM8K test",
            hub_id="openai/gsm8k",
            configs=("main",),
            split="test",
            revision="e53f048856ff4f594e959d75785d2c2d37b678ee",
            rows=1319,
            columns=BenchmarkColumns(question="question", answer="answer"),
            kind=AnswerKind.INTEGER,
            licence="MIT",
            citation="Cobbe et al., Training Verifiers to Solve Math Word Problems, arXiv 2110.14168",
            content_hash="256f5da9c22aeb31ca4665c7a5c1ffe55ca81e88f6fac22c2e14ad26d002db39",
            note="The gold answer follows #### in the answer column.",
        ),
        Benchmark(
            name="geo3k",
            title="Geometry3K test (images)",
            hub_id="hiyouga/geometry3k",
            configs=(),
            split="test",
            revision=None,
            rows=601,
            columns=BenchmarkColumns(question="problem", answer="answer", images="images"),
            kind=AnswerKind.LATEX,
            licence="MIT",
            citation="Lu et al., Inter-GPS, arXiv 2105.04165",
            note="The gold is the text of the right choice, not its letter. Not pinned: no commit could be "
            "confirmed, and no copy was at hand to hash; the number of rows is checked.",
        ),
        Benchmark(
            name="mathvision",
            title="MathVision testmini (images)",
            hub_id="MathLLMs/MathVision",
            configs=(),
            split="testmini",
            revision=None,
            rows=304,
            columns=BenchmarkColumns(
                question="question", answer="answer", images="decoded_image", choices="options"
            ),
            kind=AnswerKind.LATEX,
            licence="MIT",
            citation="Wang et al., Measuring Multimodal Mathematical Reasoning, arXiv 2402.14804",
            content_hash="e3159c1e3b4eae1f27657181ad88d8b2468608cc87489ae5265d21eabb0a5b04",
            note="A letter where there are choices, else a value. Not pinned: no commit could be confirmed; "
            "the content hash is of the texts in the repository of its authors, mathllm/MATH-V.",
        ),
        *(
            Benchmark(
                name=f"mathverse-{version.lower().replace(' ', '-')}",
                title=f"MathVerse testmini, {version} (images)",
                hub_id="AI4Math/MathVerse",
                configs=("testmini",),
                split="testmini",
                revision=None,
                rows=788,
                columns=BenchmarkColumns(
                    question="query_cot",
                    answer="answer",
                    images="image",
                    kind="question_type",
                    kinds={"multi-choice": AnswerKind.CHOICE, "free-form": AnswerKind.LATEX},
                ),
                kind=AnswerKind.LATEX,
                licence="MIT",
                citation="Zhang et al., MathVerse, arXiv 2403.14624",
                note="One of five versions of the same problems: do not average them as if they were "
                "independent. Not pinned: no commit could be confirmed, and no copy was at hand to hash; "
                "the number of rows is checked.",
                only=("problem_version", version),
            )
            for version in ("Vision Intensive", "Vision Dominant", "Vision Only")
        ),
        Benchmark(
            name="humaneval",
            title="HumanEval",
            hub_id="openai/openai_humaneval",
            configs=(),
            split="test",
            revision=None,
            rows=164,
            columns=BenchmarkColumns(question="prompt", answer="test", solution="canonical_solution"),
            kind=AnswerKind.CODE,
            licence="MIT",
            citation="Chen et al., Evaluating Large Language Models Trained on Code, arXiv 2107.03374",
            content_hash="615891c2ebebcd6bd24d2ea2813a1bb95a84c7e825eac94d948267ef24fdd973",
            note="The revision is not pinned; the hash is of the authors' repository.",
        ),
        Benchmark(
            name="mbpp",
            title="MBPP, sanitized",
            hub_id="google-research-datasets/mbpp",
            configs=("sanitized",),
            split="test",
            revision=None,
            rows=257,
            columns=BenchmarkColumns(question="prompt", answer="test_list", solution="code"),
            kind=AnswerKind.CODE,
            licence="CC BY 4.0",
            citation="Austin et al., Program Synthesis with Large Language Models, arXiv 2108.07732",
            content_hash="6081b6ace28d9850084b2a53e87ef4a1fc434479fc8cbf9713eceb63922b78c6",
            note="The revision is not pinned. A model is shown the first of a problem's tests.",
        ),
    )
}


def is_secret(benchmark: str) -> bool:
    """Return whether a benchmark's texts must not be shown, given its label: those of gated ones."""
    name = benchmark.partition("[")[0]
    return name.startswith("gpqa") or (name in BENCHMARKS and BENCHMARKS[name].gated)
