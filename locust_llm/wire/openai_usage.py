"""UsageMeter: which of the token counts in a stream are N, and which weigh a single event.

Theory of operation. Servers put `usage` anywhere: in an event of its own at the end, in the finish event, in every
event (cumulative), or all but once as null. `Timeline.report` keeps the largest of each count, so that a cumulative
usage is not summed and a trailing null or 0 erases nothing.

Only one kind is summed. llama.cpp counts each choice of `n`, and each prompt of a list, by itself, where others send
the total. It is recognised by its own `timings` in the same event, whose `predicted_n` (tokens decoded for one
sequence) equals that event's `completion_tokens`. Such a count belongs to the event's choice, or, where the event has
none, to the choice that finished last; each choice holds one count, so a repeated one replaces itself. N is their sum.
The prompt is the same one for all choices (the largest count), except in a list of prompts (the sum). Any other usage
is a total already, so nothing cumulative can be counted twice. Not streamed, llama.cpp sends several choices with the
usage of the first: then N is unknown.

Usage in every event weighs the events: the tokens of an output event are its choice's count less the choice's count
before (vLLM and SGLang count per choice while streaming). This holds only as long as every output event brought one.
Reasoning that is counted but was never streamed is no part of an event.
"""

from __future__ import annotations

from locust_llm.measure.record import TokenSource, Usage
from locust_llm.measure.timeline import Timeline
from locust_llm.wire.openai_chunks import Counts, Timings

NO_CHOICE = -1
SEVERAL = -2


class UsageMeter:
    """Reads the usage of one answer's events into its Timeline. `prompts` = how many the request held."""

    __slots__ = ("_by_choice", "_events_weighed", "_finished", "_prompts", "_timeline", "_weighed")

    def __init__(self, timeline: Timeline, prompts: int = 1) -> None:
        self._timeline = timeline
        self._prompts = prompts
        self._by_choice: dict[int, Usage] = {}
        self._weighed: dict[int, int] = {}
        self._events_weighed = 0
        self._finished = NO_CHOICE

    def finished(self, choice: int) -> None:
        """A choice showed its finish reason."""
        self._finished = choice

    def read(self, counts: Counts, timings: Timings | None, choice: int) -> bool:
        """The usage of one event, after its output; whether it weighed the event.

        `choice` = the event's only one, or NO_CHOICE or SEVERAL. Call it for every event that has a usage.
        """
        usage = _usage_of(counts)
        told = usage.output_tokens
        if told is not None and timings is not None and timings.predicted_n == told:
            self._by_choice[choice if choice != NO_CHOICE else self._finished] = usage
            usage = self._summed()
        self._timeline.report(usage)
        return told is not None and choice >= 0 and self._weigh(choice, told, usage.reasoning_tokens)

    def _weigh(self, choice: int, told: int, reasoning: int | None) -> bool:
        """Give the latest output event its tokens, if it is the only one since the last usage."""
        timeline = self._timeline
        if len(timeline.event_ns) != self._events_weighed + 1:
            return False
        if reasoning is not None and not timeline.reasoning_streamed:
            told -= reasoning
        self._events_weighed += 1
        timeline.weigh_last(told - self._weighed.get(choice, 0), TokenSource.USAGE)
        self._weighed[choice] = told
        return True

    def _summed(self) -> Usage:
        """The usage of all choices that were counted by themselves."""
        if SEVERAL in self._by_choice:
            return Usage(input_tokens=self._by_choice[SEVERAL].input_tokens if self._prompts == 1 else None)
        each = self._by_choice.values()
        prompt = sum if self._prompts > 1 else max
        return Usage(
            input_tokens=prompt(one.input_tokens or 0 for one in each),
            output_tokens=sum(one.output_tokens or 0 for one in each),
            cached_tokens=prompt(one.cached_tokens or 0 for one in each),
            reasoning_tokens=sum(one.reasoning_tokens or 0 for one in each),
        )


def _usage_of(counts: Counts) -> Usage:
    prompt, completion = counts.prompt_tokens_details, counts.completion_tokens_details
    reasoning = completion.reasoning_tokens if completion is not None else None
    return Usage(
        input_tokens=counts.prompt_tokens,
        output_tokens=counts.completion_tokens,
        cached_tokens=prompt.cached_tokens if prompt is not None else None,
        reasoning_tokens=reasoning if reasoning is not None else counts.reasoning_tokens,
    )
