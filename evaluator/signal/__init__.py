"""Effect of rephrasings on the training signal: equal rewards, difficulty, diversity, cost.

Source of the questions asked here: TA-GRPO, arXiv 2601.22478v5, sections 3 and 5.2 with Figures 3 and 4.
"""
