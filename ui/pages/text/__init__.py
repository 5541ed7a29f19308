"""Text of others, shown safely: characters, formulas, differences."""
