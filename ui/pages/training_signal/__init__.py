"""Parts of the page "Training signal"."""
