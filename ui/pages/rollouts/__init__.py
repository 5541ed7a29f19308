"""Parts of the page "Rollouts"."""
