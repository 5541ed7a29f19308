"""A chat model that reads images, with its processor: Qwen 2.5 VL of two hundred thousand random weights."""

from pathlib import Path

from tiny_model import SPECIAL_TOKENS, byte_pieces, byte_tokenizer

VISION_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
TOKENS_OF_AN_IMAGE = 4
"""Of one that is no larger than 56 pixels a side: its patches of 14 pixels, four a token."""

_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}"
    "{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def save_tiny_vision_model(folder: Path) -> Path:
    """Save a random Qwen 2.5 VL of two layers, with a vision tower of two; always the same.

    Its tokens are bytes, of which it writes printable ASCII alone, so that its texts are the same whoever
    decodes them. It never draws a token that stands for an image, as a trained model hardly does, so that
    log-probs with and without these tokens are the same.
    """
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    pieces = _save_processor(folder)
    torch.manual_seed(0)
    common = {"hidden_act": "silu", "initializer_range": 0.2}
    tokens = {"image": "image_pad", "video": "video_pad", "eos": "im_end", "pad": "endoftext"}
    tokens |= {name: name for name in ("vision_start", "vision_end")}
    ids = {f"{name}_token_id": pieces.index(f"<|{token}|>") for name, token in tokens.items()}
    text = {
        **common,
        "vocab_size": len(pieces),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 512,
        "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]},
        "bos_token_id": None,
        "eos_token_id": ids["eos_token_id"],
        "pad_token_id": ids["pad_token_id"],
    }
    sizes = {"depth": 2, "hidden_size": 64, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64}
    vision = common | sizes | {"fullatt_block_indexes": [1], "window_size": 56}
    more = {"tie_word_embeddings": False, "bos_token_id": None}
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, **more, **ids)
    model = Qwen2_5_VLForConditionalGeneration(config)
    with torch.no_grad():
        # The first number of every state is a constant, by which the head turns these tokens down.
        language, head = model.model.language_model, model.lm_head
        language.embed_tokens.weight[:, 0] = 3.0
        merger = model.model.visual.merger.mlp[-1]
        merger.weight[0], merger.bias[0] = 0.0, 3.0
        for layer in language.layers:
            layer.self_attn.o_proj.weight[0] = layer.mlp.down_proj.weight[0] = 0.0
        head.weight[:, 0] = 0.0
        for token, piece in enumerate(pieces):
            if piece in VISION_TOKENS or (len(piece) == 1 and not "!" <= piece <= "~"):
                head.weight[token] = 0.0
                head.weight[token, 0] = -100.0
    model.save_pretrained(folder)
    return folder


def _save_processor(folder: Path) -> list[str]:
    from transformers import Qwen2_5_VLProcessor
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    from service.engines.images import leave_out_videos

    special = [*SPECIAL_TOKENS, *VISION_TOKENS]
    pieces = [*special, *byte_pieces()]
    tokenizer = byte_tokenizer(pieces, special, _TEMPLATE)
    leave_out_videos()
    images = Qwen2VLImageProcessorPil(size={"shortest_edge": 56 * 56, "longest_edge": 112 * 112})
    others = {}
    if "video_processor" in Qwen2_5_VLProcessor.get_attributes():  # where torchvision is installed
        from transformers import Qwen2VLVideoProcessor

        others["video_processor"] = Qwen2VLVideoProcessor()
    processor = Qwen2_5_VLProcessor(images, tokenizer, chat_template=_TEMPLATE, **others)
    processor.save_pretrained(folder)
    return pieces
