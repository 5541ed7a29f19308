"""verl: data exported to it, the plug-in that it loads, and what it needs on a CPU."""
