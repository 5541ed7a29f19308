"""What a step is made of: groups drawn anew, left out or replaced for want of a gradient; its updates."""
