"""Prompt: the text of one request, with what belongs to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]


class Prompt(str):
    """A text that also knows the messages it stands for, and how long its answer may or shall be.

    It is a str, so that it can be used wherever one can; `self.client.chat` sends its messages and asks for its length.
    What is made of it by formatting or cutting is a plain text.
    """

    said: Sequence[Message] | None
    """The messages; None: the text is one user message."""

    output_tokens: int | None
    """Length of the answer; None: as the options say."""

    exact: bool
    """Whether the answer shall have just that length, or at most."""

    def __new__(
        cls,
        text: str,
        *,
        said: Sequence[Message] | None = None,
        output_tokens: int | None = None,
        exact: bool = False,
    ) -> Prompt:
        prompt = super().__new__(cls, text)
        prompt.said, prompt.output_tokens, prompt.exact = said, output_tokens, exact
        return prompt

    @property
    def messages(self) -> Messages:
        """Its messages, to be sent as they are or changed."""
        said = self.said if self.said is not None else [{"role": "user", "content": str(self)}]
        return Messages(said, output_tokens=self.output_tokens, exact=self.exact)


class Messages(list[Message]):
    """A list of messages that knows how long its answer may or shall be, as a Prompt does."""

    def __init__(self, said: Iterable[Message] = (), *, output_tokens: int | None = None, exact: bool = False) -> None:
        super().__init__(said)
        self.output_tokens = output_tokens
        self.exact = exact
