"""The number of examples of property tests that draw more examples than others."""

from hypothesis import settings


def examples(number: int) -> settings:
    """Return settings for ``number`` examples.

    The profiles of ``make unit`` and of fuzzing determine the number of examples themselves.
    """
    profile = settings.get_current_profile_name()
    return settings(max_examples=number) if profile == "mistbow" else settings()
