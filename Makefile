# Everything runs in .venv, and the tests' real server in .engine; the first target that needs one makes it.
# Python 3.11+ and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENGINE := .engine
PIP := -m pip --quiet --disable-pip-version-check

WEBUI := locust_llm/webui
# npm ci takes exactly what the lock file names.
NPM_READY := $(WEBUI)/node_modules/.package-lock.json

.PHONY: demo demo-ui test test-long lint engine webui webui-check clean help

help:                     ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

# A half-made environment is made anew: .ready is touched last, and --clear empties what a broken run left.
$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python $(PIP) install --upgrade 'pip>=25.1'
	$(BIN)/python $(PIP) install --editable . --group dev
	touch $@

$(ENGINE)/.ready: tests/engine/requirements.txt
	test -x $(ENGINE)/bin/python || $(PYTHON) -m venv --clear $(ENGINE)
	$(ENGINE)/bin/python $(PIP) install --requirement $<
	touch $@

$(ENGINE)/tiny.gguf: $(ENGINE)/.ready tests/engine/make_tiny_gguf.py tests/engine/tiny_text.py
	$(ENGINE)/bin/python tests/engine/make_tiny_gguf.py $@.part
	mv $@.part $@

engine: $(ENGINE)/tiny.gguf   ## install the real llama.cpp server that the tests use, and its tiny model

demo: $(VENV)/.ready      ## 20 s against the embedded engine, headless
	$(BIN)/locust --config configs/demo.conf

demo-ui: $(VENV)/.ready   ## the same with Locust's web UI left open at http://localhost:8089
	$(BIN)/locust -f locustfiles/chat.py --host sim --users 8 --spawn-rate 4 --autostart --stop-timeout 30

test: $(VENV)/.ready engine        ## the tests of every change (minutes)
	$(BIN)/python -m pytest -m "not long"

# The searches on the virtual clock only compute: two halves at once, before those that must not be disturbed.
COMPUTING := tests/sim tests/measure tests/wire tests/report tests/workload
test-long: $(VENV)/.ready engine   ## the long matrices and property searches
	@$(BIN)/python -m pytest -m long tests/analysis > .analysis-long.txt 2>&1 & analysis=$$!; \
	$(BIN)/python -m pytest -m long $(COMPUTING); others=$$?; \
	wait $$analysis; analysis=$$?; cat .analysis-long.txt; rm -f .analysis-long.txt; \
	test $$others = 0 && test $$analysis = 0
	$(BIN)/python -m pytest -m long $(foreach folder,tests/analysis $(COMPUTING),--ignore=$(folder))

lint: $(VENV)/.ready      ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

$(NPM_READY): $(WEBUI)/package-lock.json
	npm --prefix $(WEBUI) ci --no-audit --no-fund
	touch $@

webui: $(NPM_READY)       ## build the page of the LLM tab anew (Node 18+ and npm; users need neither)
	npm --prefix $(WEBUI) run build

webui-check: $(NPM_READY)  ## its tests, and whether the built page is the one of its sources
	npm --prefix $(WEBUI) run check

clean:                    ## remove what make made
	rm -rf $(VENV) $(ENGINE) $(WEBUI)/node_modules out .pytest_cache .mypy_cache .ruff_cache .hypothesis
