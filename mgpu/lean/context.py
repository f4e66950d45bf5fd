"""`contextlib`, which loads half of `collections` and `functools`.

To the type checker these are the real ones.
"""

from __future__ import annotations

from mgpu.lean.typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import contextmanager, suppress
else:

    class suppress:
        """Errors of these kinds end the block, and no more."""

        def __init__(self, *kinds: type[BaseException]) -> None:
            self._kinds = kinds

        def __enter__(self) -> None:
            pass

        def __exit__(self, kind: type[BaseException] | None, *_error: Any) -> bool:
            return kind is not None and issubclass(kind, self._kinds)

    class _Entered:
        """What a generator says before its one `yield` happens on entering, what it says behind it on leaving."""

        def __init__(self, generator: Any) -> None:
            self._generator = generator

        def __enter__(self) -> Any:
            return next(self._generator)

        def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: Any) -> bool:
            try:
                if error is None:
                    next(self._generator)
                else:
                    self._generator.throw(error)
            except StopIteration as end:
                return error is not None and end is not error
            except BaseException as raised:
                # in a generator's place a StopIteration would only end it: PEP 479 wraps it up
                wrapped = isinstance(error, StopIteration) and isinstance(raised, RuntimeError)
                if raised is error or (wrapped and raised.__cause__ is error):
                    return False
                raise
            raise RuntimeError("the generator of a context did not end")

    def contextmanager(function: Any) -> Any:
        def entering(*words: Any, **named: Any) -> _Entered:
            return _Entered(function(*words, **named))

        return entering


__all__ = ["contextmanager", "suppress"]
