"""The first schema: questions, runs and cells, candidates and verdicts, reviews, neighbor sets."""

import sqlalchemy as sa
from alembic import op

from service.database.sqlite import append_only_triggers, sealed_insert_trigger

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPEND_ONLY = (
    "questions",
    "candidates",
    "verdicts",
    "reviews",
    "audit_members",
    "neighbor_sets",
    "neighbor_set_questions",
    "neighbor_set_members",
)
SEALED_BY_SET = ("neighbor_set_questions", "neighbor_set_members")


def upgrade() -> None:
    op.create_table(
        "neighbor_sets",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("content_hash", sa.String(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["parent_id"], ["neighbor_sets.id"], name=op.f("fk_neighbor_sets_parent_id_neighbor_sets")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_neighbor_sets")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_neighbor_sets_name_version")),
    )
    op.create_table(
        "question_sets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_question_sets")),
        sa.UniqueConstraint("name", name=op.f("uq_question_sets_name")),
    )
    op.create_table(
        "questions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("answer", sa.String(), nullable=False),
        sa.Column("level", sa.String(), nullable=True),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_questions")),
    )
    op.create_index(op.f("ix_questions_subject"), "questions", ["subject"], unique=False)
    op.create_table(
        "runs",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("finished_at", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("name", name=op.f("uq_runs_name")),
    )
    op.create_table(
        "audits",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_audits_run_id_runs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audits")),
        sa.UniqueConstraint("run_id", "seed", "size", name=op.f("uq_audits_run_id_seed_size")),
    )
    op.create_table(
        "batches",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("remote_id", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_batches_run_id_runs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batches")),
    )
    op.create_index(op.f("ix_batches_run_id"), "batches", ["run_id"], unique=False)
    op.create_table(
        "candidates",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_candidates_question_id_questions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidates")),
    )
    op.create_index(op.f("ix_candidates_question_id"), "candidates", ["question_id"], unique=False)
    op.create_table(
        "neighbor_set_questions",
        sa.Column("set_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_neighbor_set_questions_question_id_questions")
        ),
        sa.ForeignKeyConstraint(
            ["set_id"],
            ["neighbor_sets.id"],
            name=op.f("fk_neighbor_set_questions_set_id_neighbor_sets"),
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("set_id", "position", name=op.f("pk_neighbor_set_questions")),
    )
    op.create_index(
        op.f("ix_neighbor_set_questions_question_id"), "neighbor_set_questions", ["question_id"], unique=False
    )
    op.create_table(
        "neighbor_set_tags",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("tag", sa.String(), nullable=False),
        sa.Column("set_id", sa.String(), nullable=False),
        sa.Column("updated_at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["set_id"], ["neighbor_sets.id"], name=op.f("fk_neighbor_set_tags_set_id_neighbor_sets")
        ),
        sa.PrimaryKeyConstraint("name", "tag", name=op.f("pk_neighbor_set_tags")),
    )
    op.create_table(
        "question_set_members",
        sa.Column("set_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.Column("held", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_question_set_members_question_id_questions")
        ),
        sa.ForeignKeyConstraint(
            ["set_id"], ["question_sets.id"], name=op.f("fk_question_set_members_set_id_question_sets")
        ),
        sa.PrimaryKeyConstraint("set_id", "position", name=op.f("pk_question_set_members")),
    )
    op.create_index(
        op.f("ix_question_set_members_question_id"), "question_set_members", ["question_id"], unique=False
    )
    op.create_index(
        op.f("ix_question_set_members_set_id_question_id"),
        "question_set_members",
        ["set_id", "question_id"],
        unique=True,
    )
    op.create_table(
        "run_questions",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_run_questions_question_id_questions")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_questions_run_id_runs")),
        sa.PrimaryKeyConstraint("run_id", "position", name=op.f("pk_run_questions")),
    )
    op.create_index(op.f("ix_run_questions_question_id"), "run_questions", ["question_id"], unique=False)
    op.create_table(
        "audit_members",
        sa.Column("audit_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("candidate_id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("stratum_size", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["audit_id"], ["audits.id"], name=op.f("fk_audit_members_audit_id_audits")),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidates.id"], name=op.f("fk_audit_members_candidate_id_candidates")
        ),
        sa.PrimaryKeyConstraint("audit_id", "position", name=op.f("pk_audit_members")),
    )
    op.create_table(
        "cells",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("subject_id", sa.String(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("lease_owner", sa.String(), nullable=True),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.Column("batch_id", sa.String(), nullable=True),
        sa.Column("paid_by", sa.String(), nullable=True),
        sa.Column("reserved_usd", sa.Double(), nullable=True),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("completion_tokens", sa.Integer(), nullable=True),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=True),
        sa.Column("latency_s", sa.Double(), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("filled_at", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name=op.f("fk_cells_batch_id_batches")),
        sa.ForeignKeyConstraint(["paid_by"], ["runs.id"], name=op.f("fk_cells_paid_by_runs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cells")),
    )
    op.create_index(op.f("ix_cells_batch_id"), "cells", ["batch_id"], unique=False)
    op.create_index(
        op.f("ix_cells_paid_by_state_cost_usd"), "cells", ["paid_by", "state", "cost_usd"], unique=False
    )
    op.create_index(
        op.f("ix_cells_state_outcome_scope"), "cells", ["state", "outcome", "scope"], unique=False
    )
    op.create_index(
        op.f("ix_cells_scope_kind_subject_id_round_ordinal_attempt"),
        "cells",
        ["scope", "kind", "subject_id", "round", "ordinal", "attempt"],
        unique=True,
    )
    op.create_table(
        "neighbor_set_members",
        sa.Column("set_id", sa.String(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("candidate_id", sa.String(), nullable=False),
        sa.Column("proposer", sa.String(), nullable=False),
        sa.Column("strategy", sa.String(), nullable=False),
        sa.Column("strategy_hash", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("posterior", sa.Double(), nullable=True),
        sa.Column("reviewed", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidates.id"], name=op.f("fk_neighbor_set_members_candidate_id_candidates")
        ),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_neighbor_set_members_question_id_questions")
        ),
        sa.ForeignKeyConstraint(
            ["set_id"],
            ["neighbor_sets.id"],
            name=op.f("fk_neighbor_set_members_set_id_neighbor_sets"),
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("set_id", "question_id", "position", name=op.f("pk_neighbor_set_members")),
    )
    op.create_index(
        op.f("ix_neighbor_set_members_candidate_id"), "neighbor_set_members", ["candidate_id"], unique=False
    )
    op.create_table(
        "reviews",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("candidate_id", sa.String(), nullable=False),
        sa.Column("reviewer", sa.String(), nullable=False),
        sa.Column("decision", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("audit_id", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["audit_id"], ["audits.id"], name=op.f("fk_reviews_audit_id_audits")),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidates.id"], name=op.f("fk_reviews_candidate_id_candidates")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reviews")),
    )
    op.create_index(op.f("ix_reviews_audit_id"), "reviews", ["audit_id"], unique=False)
    op.create_index(op.f("ix_reviews_candidate_id"), "reviews", ["candidate_id"], unique=False)
    op.create_table(
        "verdicts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("candidate_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("posterior", sa.Double(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidates.id"], name=op.f("fk_verdicts_candidate_id_candidates")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_verdicts_run_id_runs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdicts")),
    )
    op.create_index(op.f("ix_verdicts_candidate_id"), "verdicts", ["candidate_id"], unique=False)
    op.create_index(
        op.f("ix_verdicts_run_id_candidate_id_id"), "verdicts", ["run_id", "candidate_id", "id"], unique=False
    )
    op.create_table(
        "answers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("solver_id", sa.String(), nullable=False),
        sa.Column("subject_id", sa.String(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("choice", sa.Integer(), nullable=False),
        sa.Column("extracted", sa.String(), nullable=True),
        sa.Column("finish_reason", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["cell_id"], ["cells.id"], name=op.f("fk_answers_cell_id_cells")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_answers")),
    )
    op.create_index(op.f("ix_answers_cell_id"), "answers", ["cell_id"], unique=False)
    op.create_index(
        op.f("ix_answers_solver_id_subject_id_ordinal"),
        "answers",
        ["solver_id", "subject_id", "ordinal"],
        unique=True,
    )
    op.create_table(
        "cell_bodies",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["cell_id"], ["cells.id"], name=op.f("fk_cell_bodies_cell_id_cells")),
        sa.PrimaryKeyConstraint("cell_id", name=op.f("pk_cell_bodies")),
    )
    op.create_table(
        "proposals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.Column("candidate_id", sa.String(), nullable=False),
        sa.Column("cell_id", sa.Integer(), nullable=True),
        sa.Column("proposer", sa.String(), nullable=False),
        sa.Column("strategy", sa.String(), nullable=False),
        sa.Column("strategy_hash", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidates.id"], name=op.f("fk_proposals_candidate_id_candidates")
        ),
        sa.ForeignKeyConstraint(["cell_id"], ["cells.id"], name=op.f("fk_proposals_cell_id_cells")),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_proposals_question_id_questions")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_proposals_run_id_runs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_proposals")),
        sa.UniqueConstraint("run_id", "candidate_id", name=op.f("uq_proposals_run_id_candidate_id")),
    )
    op.create_index(op.f("ix_proposals_candidate_id"), "proposals", ["candidate_id"], unique=False)
    op.create_index(
        op.f("ix_proposals_run_id_question_id_ordinal"),
        "proposals",
        ["run_id", "question_id", "ordinal"],
        unique=True,
    )
    op.create_table(
        "run_cells",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["cell_id"], ["cells.id"], name=op.f("fk_run_cells_cell_id_cells")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_cells_run_id_runs")),
        sa.PrimaryKeyConstraint("run_id", "cell_id", name=op.f("pk_run_cells")),
    )
    op.create_index(op.f("ix_run_cells_cell_id"), "run_cells", ["cell_id"], unique=False)

    for table in APPEND_ONLY:
        for statement in append_only_triggers(table):
            op.execute(statement)
    for table in SEALED_BY_SET:
        op.execute(sealed_insert_trigger(table, "neighbor_sets", "set_id"))
