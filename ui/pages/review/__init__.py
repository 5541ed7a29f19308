"""The review queue: keys and their meaning, the ledger behind them, the part of the page that hears them."""
