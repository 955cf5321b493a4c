# Everything runs in .venv, which the first target that needs it makes: Python 3.11+ and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo demo-ui test test-long lint engine clean help

help:            ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	touch $@

demo: $(VENV)/.ready      ## 20 s against the embedded engine, headless
	$(BIN)/locust --config configs/demo.conf

demo-ui: $(VENV)/.ready   ## the same with Locust's web UI left open at http://localhost:8089
	$(BIN)/locust -f locustfiles/chat.py --host sim --users 8 --spawn-rate 4 --autostart --stop-timeout 30
