"""The asyncio stack of the truth benchmark: aiohttp on uvloop, as vLLM's own benchmark client reads its streams."""

from __future__ import annotations

import asyncio
import json
import random
import time

import aiohttp
import uvloop
from plan import Plan, cpu_s
from stamps import Answer, figures

DRAIN_S = 10.0


class Users:
    """All users of one process."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.answers: list[Answer] = []
        self.failures: list[str] = []
        self._stopping = False

    async def run(self) -> None:
        """Start the users, measure the window, let the last answers end, report."""
        plan, starts = self.plan, random.Random(1)
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=600)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=65536) as session:
            users = [
                asyncio.create_task(self._user(session, starts.random() * plan.ramp_s)) for _ in range(plan.streams)
            ]
            await asyncio.sleep(plan.ramp_s + plan.warm_s)
            from_cpu_s, from_ns = cpu_s(), time.monotonic_ns()
            await asyncio.sleep(plan.window_s)
            used_s, to_ns = cpu_s() - from_cpu_s, time.monotonic_ns()
            self._stopping = True
            await asyncio.wait(users, timeout=DRAIN_S)
            counts = {"requests": len(self.answers), "failed": len(self.failures), "failures": self.failures[:5]}
            plan.report({**figures(self.answers, from_ns, to_ns, used_s), **counts})
            for user in users:
                user.cancel()

    async def _user(self, session: aiohttp.ClientSession, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        while not self._stopping:
            try:
                self.answers.append(await self._ask(session))
            except (aiohttp.ClientError, ValueError) as error:
                self.failures.append(repr(error))

    async def _ask(self, session: aiohttp.ClientSession) -> Answer:
        """One request: each read is split into messages, which are stamped before their JSON is read."""
        start_ns = time.monotonic_ns()
        arrivals: list[int] = []
        texts: list[str] = []
        buffer = ""
        async with session.post(self.plan.url + "/v1/chat/completions", json=self.plan.body) as response:
            async for data in response.content.iter_any():
                buffer += data.decode()
                while "\n\n" in buffer:
                    message, buffer = buffer.split("\n\n", 1)
                    text = message.removeprefix("data: ")
                    if not text or text == "[DONE]":
                        continue
                    at_ns = time.monotonic_ns()
                    chunk = json.loads(text)
                    content = chunk["choices"][0]["delta"].get("content") if chunk["choices"] else None
                    if content:
                        arrivals.append(at_ns)
                        texts.append(content)
        return start_ns, arrivals, "".join(texts)


if __name__ == "__main__":
    uvloop.run(Users(Plan.given()).run())
