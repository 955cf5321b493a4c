"""Our command-line options: one table, read by Locust's parser, by Settings and by `locust-llm options`.

Values are plain (str, int, float, bool, list of str), since Locust sends them to workers by message and the web form
turns the rest into text. No option holds a key. `Settings.parse` reads them again at the start of each test.
"""

from __future__ import annotations

from typing import Any

from locust_llm.measure.expression import parse_share, parse_time
from locust_llm.measure.gate import parse_gate
from locust_llm.measure.slo import PRESETS, parse_slo, parse_target
from locust_llm.plugin.option import Option, argparse_type, help_of
from locust_llm.workload.arrivals import KINDS
from locust_llm.workload.dataset import FORMATS
from locust_llm.workload.lengths import parse_lengths

CHAT_APIS = ("chat", "completions", "messages", "responses", "ollama")

OPTIONS: tuple[Option, ...] = (
    Option(
        "--llm-api",
        str,
        "chat",
        "The API that self.client.chat speaks: OpenAI's chat, completions or responses, Anthropic's messages, or"
        " Ollama's own chat",
        choices=CHAT_APIS,
    ),
    Option(
        "--llm-no-stream",
        bool,
        False,
        "Ask for whole answers instead of streams: E2E and token counts, never a TTFT",
    ),
    Option(
        "--llm-model",
        str,
        "",
        "Model id to ask for. Else OPENAI_MODEL (ANTHROPIC_MODEL), else the first that the server lists",
        "NAME",
        in_form=True,
    ),
    Option(
        "--llm-ab",
        str,
        "",
        "A second target, a URL or a model: half of the users ask it, and at the end it (B) is compared with the usual"
        " one (A)",
        "HOST_OR_MODEL",
    ),
    Option(
        "--llm-api-key-env",
        str,
        "",
        "Name of the environment variable that holds the API key, read by each process (else OPENAI_API_KEY, or"
        " ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, or OLLAMA_API_KEY)",
        "VARIABLE",
    ),
    Option("--llm-header", str, None, "A header to send with each request; repeatable", "'Name: value'", many=True),
    Option(
        "--llm-extra-body", str, None, "A JSON object merged into each request's body; repeatable", "JSON", many=True
    ),
    Option(
        "--llm-input-tokens",
        str,
        "500",
        "Length of generated prompts: a number, or uniform:100-900, normal:MEAN,SD, lognormal:MEDIAN,SIGMA or"
        " file:lengths.json; in words, or with --llm-calibrate-lengths in the server's own tokens",
        "LENGTH",
        in_form=True,
        check=parse_lengths,
    ),
    Option(
        "--llm-output-tokens",
        str,
        "",
        "Length that answers shall have, as above: asked for by max_tokens with ignore_eos and min_tokens, where the"
        " server takes them (else answers have up to --llm-max-tokens)",
        "LENGTH",
        check=parse_lengths,
    ),
    Option(
        "--llm-calibrate-lengths",
        bool,
        False,
        "Find out by at most six small requests how many words make the wanted input tokens, by the server's usage",
    ),
    Option(
        "--llm-shared-prefix",
        float,
        0.0,
        "Share (0 to 1) of each generated prompt that it has in common with others, to test a prefix cache",
        "SHARE",
        minimum=0,
    ),
    Option("--llm-prefixes", int, 8, "How many different shared prefixes there are", "N", minimum=1),
    Option(
        "--llm-dataset",
        str,
        "",
        "A file of requests: JSON lines with prompt or messages (and output_tokens or max_tokens), ShareGPT's JSON, or"
        " a text with a prompt a line. None repeats until all have been sent",
        "FILE",
    ),
    Option("--llm-dataset-format", str, "auto", "What --llm-dataset holds", choices=FORMATS),
    Option("--llm-turns", str, "4", "Conversations: how many questions one has", "LENGTH", check=parse_lengths),
    Option(
        "--llm-think-time", float, 0.0, "Conversations: seconds between an answer and the next question", "S", minimum=0
    ),
    Option(
        "--llm-trace",
        str,
        "",
        "Open load: replay this trace's arrivals, lengths and shared prefixes: JSON lines as Mooncake's (timestamp,"
        " input_length, output_length, hash_ids) or a CSV as Azure's (TIMESTAMP, ContextTokens, GeneratedTokens)",
        "FILE",
    ),
    Option("--llm-trace-speed", float, 1.0, "Replay a trace so many times as fast", "X", minimum=0.001),
    Option(
        "--llm-prompt-file",
        str,
        "",
        "A text file that is every request's prompt, so that runs compare (it also lets"
        " the server's prefix cache help)",
        "FILE",
    ),
    Option("--llm-max-tokens", int, 256, "Most tokens an answer may have", "N", in_form=True, minimum=1),
    Option("--llm-temperature", float, 0.0, "Sampling temperature; -1 sends none", "T"),
    Option("--llm-seed", int, None, "Sampling seed, and the seed of generated prompts", "N"),
    Option(
        "--llm-ignore-eos",
        bool,
        False,
        "Ask the engine to go on to --llm-max-tokens (vLLM, llama.cpp, SGLang)",
        in_form=True,
    ),
    Option(
        "--llm-connect-timeout",
        float,
        10.0,
        "Seconds to open a connection (DNS, TCP, TLS); 0 = no limit",
        "S",
        minimum=0,
    ),
    Option(
        "--llm-stall-timeout",
        float,
        120.0,
        "Longest wait in seconds for the next output event of a stream, the first"
        " one included; keep-alive comments do not count; 0 = no limit",
        "S",
        minimum=0,
    ),
    Option("--llm-timeout", float, 600.0, "Seconds a whole request may take; 0 = no limit", "S", minimum=0),
    Option(
        "--llm-retry-after-cap",
        float,
        30.0,
        "Longest pause in seconds of a user after HTTP 429 or 503, as Retry-After"
        " asks (1 s where the server does not say); outside every latency; 0 = no pause",
        "S",
        minimum=0,
    ),
    Option(
        "--llm-proxy",
        str,
        "",
        "URL of an HTTP proxy, or 'none'. Else the proxy variables, which never capture loopback and private addresses",
        "URL",
    ),
    Option("--llm-ca-cert", str, "", "PEM file of the certificate authorities to trust", "FILE"),
    Option("--llm-insecure", bool, False, "Do not verify the server's certificate"),
    Option(
        "--llm-no-preflight",
        bool,
        False,
        "Do not send the one small request that checks URL, key and model before users spawn",
    ),
    Option(
        "--llm-warmup",
        int,
        0,
        "Requests sent before the test, one after the other, and kept out of all figures",
        "N",
        in_form=True,
        minimum=0,
    ),
    Option("--llm-rate", float, 0.0, "Open load: requests per second (OpenLoopUser)", "R", minimum=0),
    Option("--llm-arrivals", str, "constant", "Open load: how arrivals are spread", choices=KINDS),
    Option(
        "--llm-burstiness",
        float,
        1.0,
        "Open load, gamma arrivals: shape of the gaps (1 = Poisson, below 1 burstier, above 1 smoother)",
        "B",
    ),
    Option("--llm-rate-from", float, 0.0, "Open load: the rate that a ramp starts from", "R", minimum=0),
    Option("--llm-rate-ramp", float, 0.0, "Open load: seconds in which the rate climbs to --llm-rate", "S", minimum=0),
    Option("--llm-arrivals-file", str, "", "Open load: send at these times: a number of seconds a line", "FILE"),
    Option(
        "--llm-max-in-flight",
        int,
        0,
        "Open load: arrivals that find this many requests in flight are dropped and counted; 0 = they wait for a free"
        " user",
        "N",
        minimum=0,
    ),
    Option(
        "--llm-shape",
        str,
        "",
        "Run steps of load: 'sweep' (the loads of --llm-steps) or 'knee' (search for the queueing knee). The steps are"
        " numbers of users; with OpenLoopUser they are rates, and the answer is the highest one that is sustained",
        choices=("", "sweep", "knee"),
    ),
    Option("--llm-steps", str, "1,4,8,16", "Sweep: the numbers of users, or the rates in requests per second", "N,N,…"),
    Option(
        "--llm-max-users",
        int,
        256,
        "Knee: the most users to try. Steps of rate: how many requests can be in flight, unless --users says",
        "N",
        minimum=1,
    ),
    Option(
        "--llm-max-rate",
        float,
        100.0,
        "Knee with OpenLoopUser: the highest rate to try, in requests per second (the first is --llm-rate, else 1)",
        "R",
        minimum=0.01,
    ),
    Option("--llm-step-time", float, 120.0, "Sweep and knee: the longest a step may take, in seconds", "S", minimum=5),
    Option(
        "--llm-server-metrics",
        str,
        "",
        "Look at the engine's own Prometheus page each second (vLLM, SGLang, llama.cpp, TGI): a URL, or a path such as"
        " /metrics on the target",
        "URL",
    ),
    Option(
        "--llm-repeat",
        int,
        1,
        "Sweep and knee: run it this many times; from three on, the interval between the runs is the uncertainty",
        "N",
        minimum=1,
    ),
    Option(
        "--llm-no-probe",
        bool,
        False,
        "Knee: leave out the step that asks for answers twice as long, to tell slots from KV capacity",
    ),
    Option("--llm-log", str, "", "Sweep and knee: append a row per step to this CSV file, the experiment log", "FILE"),
    Option(
        "--llm-slo",
        str,
        None,
        "A limit that each request has to meet, for goodput: ttft, tpot, itl (its largest gap) or e2e; repeatable",
        "'ttft<500ms'",
        many=True,
        check=parse_slo,
    ),
    Option(
        "--llm-slo-preset",
        str,
        "",
        "SLOs of MLPerf Inference for this model, beside those of --llm-slo",
        "NAME",
        choices=("", *PRESETS),
    ),
    Option(
        "--llm-slo-target",
        str,
        "95%",
        "Sweep and knee: the share of the requests that has to meet the SLOs, for the SLO capacity",
        "SHARE",
        check=parse_target,
    ),
    Option(
        "--llm-stall",
        str,
        "250ms",
        "A longer gap between two output events of an answer counts as a stall",
        "TIME",
        check=parse_time,
    ),
    Option(
        "--llm-gate",
        str,
        None,
        "A limit on a figure of the whole run, such as ttft:p95<500ms, errors<1%, output_throughput>=1200, goodput>=95%"
        " or NAME/ttft:p95<1s; repeatable. The exit code is 0 when all are met, 1 when one is breached, 3 when the run"
        " does not tell",
        "'ttft:p95<500ms'",
        many=True,
        check=parse_gate,
    ),
    Option("--llm-strict", bool, False, "A gate is breached even where its interval contains the limit"),
    Option("--llm-junit", str, "", "Write the gates as a JUnit test report here", "FILE"),
    Option(
        "--llm-markdown",
        str,
        "",
        "Write the summary as Markdown here; with it or a gate it is also appended to $GITHUB_STEP_SUMMARY",
        "FILE",
    ),
    Option(
        "--llm-max-requests",
        int,
        0,
        "Stop the test when it has sent this many requests (workers tell every 3 s); 0 = no limit",
        "N",
        minimum=0,
    ),
    Option(
        "--llm-max-total-tokens",
        int,
        0,
        "Stop the test when its requests have used this many tokens, input and output; 0 = no limit",
        "N",
        minimum=0,
    ),
    Option(
        "--llm-stop-on-errors",
        str,
        "",
        "Stop the test when this share of the last 50 outcomes are failures",
        "20%",
        check=parse_share,
    ),
    Option("--llm-note", str, "", "A note on the run, kept in its document", "TEXT"),
    Option(
        "--llm-tokenizer",
        str,
        "",
        "A local tokenizer.json (needs the tokenizers package), or 'words': counts the tokens of answers without usage,"
        " and audits the usage of the others",
        "FILE",
    ),
    Option("--llm-price-in", float, None, "Price of a million input tokens, for the cost of the run", "P", minimum=0),
    Option("--llm-price-out", float, None, "Price of a million output tokens", "P", minimum=0),
    Option("--llm-price-cached", float, None, "Price of a million cached input tokens (else as input)", "P", minimum=0),
    Option("--llm-json", str, "", "Write the run document (JSON: everything known of the run) here", "FILE"),
    Option("--llm-html", str, "", "Write a self-contained HTML report here", "FILE"),
    Option(
        "--llm-records",
        str,
        "",
        "Write one JSON line per request here; workers write FILE.workerN.jsonl, each on its own machine",
        "FILE",
    ),
    Option(
        "--llm-sim",
        str,
        "",
        "Options of the embedded engine for --host sim, such as '--slots 4 --decode-ms 30' (locust-llm sim --help)",
        "OPTIONS",
    ),
    Option(
        "--llm-min-tokens",
        int,
        20,
        "Answers with fewer output tokens stay out of the TPOT distribution (how many is shown)",
        "N",
        minimum=0,
    ),
)


def add_to(parser: Any) -> None:
    """Add our options to a Locust parser, once however often it is asked."""
    if "--llm-model" in parser._option_string_actions:
        return
    group = parser.add_argument_group("LLM options", "Options of locust_llm (also: locust-llm options)")
    for option in OPTIONS:
        settings: dict[str, Any] = {"help": help_of(option), "env_var": option.variable}
        settings["include_in_web_ui"] = False
        if option.kind is bool:
            settings |= {"action": "store_true", "default": False}
        else:
            settings |= {"type": argparse_type(option), "default": option.default, "metavar": option.metavar}
            settings |= {"action": "append"} if option.many else {}
            settings |= {"choices": option.choices} if option.choices else {}
        # Arguments of a group never reach the web form, so those that belong there are the parser's own.
        if option.in_form:
            parser.add_argument(option.flag, **settings | {"include_in_web_ui": True})
        else:
            group.add_argument(option.flag, **{k: v for k, v in settings.items() if k != "include_in_web_ui"})


def describe() -> str:
    """All options with their help, for `locust-llm options`."""
    lines = ["Options that locust_llm adds to `locust` (Locust prints its --help before it loads the locustfile).", ""]
    for option in OPTIONS:
        lines.append(f"  {option.flag}{' ' + option.metavar if option.metavar else ''}")
        lines.append(f"      {help_of(option).replace('%%', '%')}")
        lines.append(f"      variable {option.variable}" + (", in the web form" if option.in_form else ""))
    lines += ["", "Also read, last of all: OPENAI_BASE_URL (as --host), OPENAI_API_KEY, OPENAI_MODEL; for messages"]
    lines += ["ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN (sent as Bearer), ANTHROPIC_MODEL; for"]
    lines += ["ollama OLLAMA_HOST, OLLAMA_API_KEY."]
    return "\n".join(lines)
