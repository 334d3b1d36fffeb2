# Thin lines over plain tools; every target works from a fresh clone with Python 3.11+ and make alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The tests start some hundred commands; compiling the programs again for each of them costs as much as what they do.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test test-slow lint format protos e2e bench-plugin bench-extender bench-packing docs dashboards screenshots clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt playground/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]" --editable playground
	touch $@

demo: install
	$(BIN)/gcushare demo $(ARGS)

test: install
	$(BIN)/pytest -n auto --dist loadgroup --ignore tests/e2e -m "not slow" $(ARGS)

test-slow: install
	$(BIN)/pytest -n auto --dist loadgroup --ignore tests/e2e -m slow $(ARGS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

e2e: install
	$(BIN)/pytest tests/e2e -v $(ARGS)

bench-plugin: install
	$(BIN)/python -m benchmarks.bench_plugin $(ARGS)

bench-extender: install
	$(BIN)/python -m benchmarks.bench_extender $(ARGS)

bench-packing: install
	$(BIN)/python -m benchmarks.bench_packing $(ARGS)

docs: install
	$(BIN)/python -m scripts.cli_reference

dashboards: install
	$(BIN)/python -m scripts.grafana

screenshots: install
	$(BIN)/python -m tests.browser.screenshots

protos: install
	$(BIN)/python -m grpc_tools.protoc --proto_path src --python_out src --pyi_out src $$(find src -name '*.proto')

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
