"""Are the premises of a question kept in a candidate? Asked of a model: answers do not see all of it."""

from rephraser.checks.premises.parsing import Premises, parse_premises
from rephraser.checks.premises.request import PREMISES_VERSION, build_messages

__all__ = ["PREMISES_VERSION", "Premises", "build_messages", "parse_premises"]
