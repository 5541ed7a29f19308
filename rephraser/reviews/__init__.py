"""Human decisions on candidates: single reviews, blind audits, and the error rates they measure."""
