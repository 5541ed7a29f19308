"""Questions with images in verl: its data set, images at their places, positions of their tokens."""
