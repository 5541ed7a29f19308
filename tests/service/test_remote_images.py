"""Images in chat requests: in their places, in lines of batch jobs too, and what they may cost."""

import base64

import pytest
from pictures import picture

from service.errors import InputError
from service.models.remote import ChatRequest, Endpoint, Message
from service.models.remote.backend import open_backend
from service.models.remote.chat import message_with_images
from service.models.remote.money import Price, most_image_tokens, most_prompt_tokens, worst_case_usd
from service.questions.images import Image, read_image

RED, BLUE = read_image(picture("red")), read_image(picture("blue", kind="JPEG"))


def test_images_stand_in_the_places_of_the_question_alone() -> None:
    question = "In <image>, not <image>, find x."
    content = f"An example says <image> too.\n\n{question}\n\nBox it."
    message = message_with_images(content, question, [RED, BLUE])
    assert message.content == content
    assert message.parts == (
        "An example says <image> too.\n\nIn ",
        RED,
        ", not ",
        BLUE,
        ", find x.\n\nBox it.",
    )
    assert message_with_images("<image>", "<image>", [RED]).parts == (RED,)
    assert message_with_images(content, question, []).parts == ()
    with pytest.raises(InputError, match="a text with 2 <image> for 1 images"):
        message_with_images(content, question, [RED])


def test_the_text_is_sent_as_it_was_where_there_are_no_images() -> None:
    backend = open_backend(Endpoint("hosted_vllm/m", "http://localhost:1/v1"))
    request = ChatRequest(key=1, messages=(Message("user", "What is <image>?"),))
    assert backend.body(request)["messages"] == [{"role": "user", "content": "What is <image>?"}]


@pytest.mark.parametrize("model", ["hosted_vllm/m", "openai/gpt-4o"])
def test_a_line_of_a_batch_job_holds_the_images_too(model: str) -> None:
    backend = open_backend(Endpoint(model, "http://localhost:1/v1"))
    user = message_with_images("Find <image>.", "Find <image>.", [BLUE])
    request = ChatRequest(key=1, messages=(Message("system", "See."), user))
    sent = backend.body(request)["messages"]
    url = f"data:image/jpeg;base64,{base64.b64encode(BLUE.data).decode()}"
    assert sent == [
        {"role": "system", "content": "See."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Find "},
                {"type": "image_url", "image_url": {"url": url}},
                {"type": "text", "text": "."},
            ],
        },
    ]
    assert (
        sent == backend.arguments(ChatRequest(key=1, messages=(Message("system", "See."), user)))["messages"]
    )


def test_a_cap_counts_images_at_the_dearest_that_is_known() -> None:
    def sized(width: int, height: int) -> int:
        return most_image_tokens(Image(b"", "image/png", width, height))

    assert sized(8, 6) == 2_833 + 5_667
    assert sized(513, 512) == 2_833 + 2 * 5_667
    assert sized(2_520, 8_526) == 2_833 + 8 * 5_667
    plain = ChatRequest(key=1, messages=(Message("user", "Find <image>."),))
    seen = ChatRequest(key=1, messages=(message_with_images("Find <image>.", "Find <image>.", [RED]),))
    assert most_prompt_tokens(seen) - most_prompt_tokens(plain) == 8_500
    assert worst_case_usd(seen, Price(1.0, 0.0)) == pytest.approx(most_prompt_tokens(seen) / 1e6)
    assert worst_case_usd(seen, None) is None
