"""A run under a cap, and filling it as a process of its own does."""

from collections.abc import Callable, Sequence

from openai_server import OpenAIServer
from remote_clients import OPENAI, client

from service.database import Database
from service.models.remote import (
    Budget,
    ChatRequest,
    ChatResponse,
    Failure,
    Message,
    Price,
    PriceTable,
    RemoteClient,
)
from service.models.remote.money import worst_case_usd
from service.questions import make_question, store_questions
from service.runs import cells
from service.runs.filling import CellsToAsk, Filled, fill_cells
from service.runs.ledger import RunLedger
from service.runs.spending import Account, read_account, set_cap
from service.runs.store import Run, open_run

COUNT = 30
PRICE = Price(1000.0, 2000.0)
REQUEST = ChatRequest(1, (Message("user", "question 10"),), max_tokens=20)
WORST = worst_case_usd(REQUEST, PRICE) or 0.0
USED = PRICE.cost(3, 4)  # of an answer of the test server


def make_run(db: Database, cap: float, count: int = COUNT) -> Run:
    questions = [make_question(f"question {number}", "1") for number in range(10, 10 + count)]
    with db.write() as session:
        store_questions(session, questions)
        ids = [question.id for question in questions]
        run, _ = open_run(session, name="run", kind="propose", spec={}, question_ids=ids, versions={})
        plans = [
            cells.CellPlan(run.id, "propose", question.id, 0, 0, 0, {"text": question.text})
            for question in questions
        ]
        cells.add_cells(session, run.id, plans)
        set_cap(session, [run.id], cap)
    return run


async def fill(
    db: Database,
    run: Run,
    server: OpenAIServer,
    process: int,
    began: Callable[[RemoteClient, RunLedger], None] = lambda *_: None,
    on_answer: Callable[[ChatResponse | Failure], None] = lambda _: None,
    **settings: int,
) -> Filled:
    """Fill cells as a process of its own does: with its own ledger, leases and client."""

    def build(leased: Sequence[cells.Cell]) -> list[ChatRequest]:
        return [
            ChatRequest(cell.id, (Message("user", cell.payload["text"]),), max_tokens=20) for cell in leased
        ]

    owner = f"another-machine|{process}|1.00|{run.id}"
    asked = CellsToAsk(db, run.id, run.id, owner, build, on_answer=on_answer)
    ledger = RunLedger(db, run.id)
    budget = Budget(ledger=ledger, **settings)
    prices = PriceTable({OPENAI: PRICE})
    async with client(server, OPENAI, budget=budget, prices=prices, max_concurrency=8) as remote:
        began(remote, ledger)
        return await fill_cells(asked, remote)


def account(db: Database, run: Run) -> Account:
    with db.read() as session:
        return read_account(session, run.id)
