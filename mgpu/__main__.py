"""`python -m mgpu`, and the command `mgpu`."""

from _signal import SIG_DFL, SIGINT, default_int_handler, signal  # type: ignore[import-not-found]  # `signal` is slow

# until there is somebody to catch it, ^C ends us without a traceback
signal(SIGINT, SIG_DFL)


def main() -> None:
    from mgpu.cli.main import main as run

    signal(SIGINT, default_int_handler)
    run()


if __name__ == "__main__":
    main()
