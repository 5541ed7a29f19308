"""Safe display of untrusted text: characters, formulas, differences."""
