"""What verifiers and prime-rl load by the id `tagrpo`; `python -m tagrpo` is the command line."""

if __name__ == "__main__":
    import sys

    from ui.cli.app import main

    sys.exit(main())
elif __name__ != "__mp_main__":  # as which the command's own processes import it
    from trainer_adapter.verifiers import NeighborEnv, NeighborTaskset, OneReply

    __all__ = ["NeighborEnv", "NeighborTaskset", "OneReply"]
