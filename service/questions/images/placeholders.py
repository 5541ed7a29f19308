"""Where images stand in a text: at `<image>`, the placeholder of verl and of many data sets."""

from service.errors import InputError

PLACEHOLDER = "<image>"


def count_placeholders(text: str) -> int:
    """Return how often the text refers to an image."""
    return text.count(PLACEHOLDER)


def place_images(text: str, images: int) -> str:
    """Return the text with a placeholder for each image; where it has none they come before it.

    Raises:
        InputError: the text has placeholders, but not as many as there are images.
    """
    count = count_placeholders(text)
    if not images or count == images:
        return text
    if count:
        raise InputError(
            f"{images} image{'s' * (images > 1)}, but {count} {PLACEHOLDER} in the text. The numbers must be "
            "equal, or the text must have none"
        )
    return PLACEHOLDER * images + text


def split_at_images(text: str) -> list[str]:
    """Return the parts of the text between placeholders: one more than there are placeholders."""
    return text.split(PLACEHOLDER)
