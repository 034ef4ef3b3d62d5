"""Texts of others, in which no character is invisible or controls the terminal."""

import sys
import unicodedata

import pytest

from command_line.enabler import visible

SPACES = [char for char in map(chr, range(sys.maxunicode)) if unicodedata.category(char) == "Zs"]
SELECTORS = ["\ufe00", "\ufe0e", "\ufe0f", "\u180b", "\u180f", "\U000e0100", "\U000e01ef"]
BLANKS = ["\u2800", "\u034f", "\u115f", "\u3164", "\uffa0"]
CONTROLS = ["\0", "\n", "\x1b", "\x9b", "\u200b", "\u200d", "\u202e", "\u2028", "\ud800", "\ufeff"]


@pytest.mark.parametrize(
    "char", [*(each for each in SPACES if each != " "), *SELECTORS, *BLANKS, *CONTROLS], ids=ascii
)
def test_invisible_character_is_shown_by_its_code(char: str) -> None:
    assert visible(f"{char}north{char}") == f"⟨U+{ord(char):04X}⟩north⟨U+{ord(char):04X}⟩"


@pytest.mark.parametrize("emoji", ["❤", "⚠", "🌡", "↔", "‼", "ℹ"])
def test_variation_selector_of_an_emoji_is_part_of_it(emoji: str) -> None:
    assert visible(f"a {emoji}\ufe0f b") == f"a {emoji}\ufe0f b"
    assert visible(f"{emoji}\ufe0f\ufe0f") == f"{emoji}\ufe0f⟨U+FE0F⟩"
    assert visible(f"{emoji}\U000e0100") == f"{emoji}⟨U+E0100⟩"


def test_variation_selector_of_an_invisible_symbol_is_shown_by_its_code() -> None:
    assert visible("\u2800\ufe0f") == "⟨U+2800⟩⟨U+FE0F⟩"


@pytest.mark.parametrize("text", ["", "line 7, Süd", "日本語", "नमस्ते", "e\u0301", "🚌", "a ⟨b⟩"])
def test_visible_text_is_unchanged(text: str) -> None:
    assert visible(text) == text
