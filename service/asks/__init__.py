"""Ask models: every request is paid once, stored before it is used, and never sent again."""
