"""Questions with images in verl: the dataset, images in prompts, positions of their tokens."""
