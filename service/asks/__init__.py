"""Ask models: every answer is paid for once, stored before use, and never requested again."""
