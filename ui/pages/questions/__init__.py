"""The page "Questions": filters, the list, a question with its neighbors, the evidence for a verdict."""
