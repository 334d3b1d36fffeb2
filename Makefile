# Thin lines over plain tools; every target works from a fresh clone with Python 3.11+ and make alone, but for vendors
# (helm 3), screenshots (Chromium) and bench-packing (ARGS=FOLDER).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The tests start some hundred commands; compiling the programs again for each of them costs as much as what they do.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test test-slow test-deep soak fuzz lint lint-code lint-texts shellcheck audit mutants format protos e2e bench-plugin bench-extender bench-packing docs site vendors dashboards screenshots single-files executables package publish release-check clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt playground/pyproject.toml limits/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]" --editable playground --editable limits
	touch $@

demo: install
	$(BIN)/gcushare demo $(ARGS)

test: install
	$(BIN)/pytest -n auto --dist loadgroup --ignore tests/e2e --ignore tests/texts -m "not slow" --durations=10 $(ARGS)

test-slow: install
	$(BIN)/pytest -n auto --dist loadgroup --ignore tests/e2e -m slow $(ARGS)

# Every property with eight times as many examples; for a night, or before a release.
test-deep: install
	$(BIN)/pytest -n auto --dist loadgroup --ignore tests/e2e -m hypothesis --hypothesis-profile deep $(ARGS)

# How long the simulated world is tried, and with how many seeds; 0 for no limit of that kind.
MINUTES ?= 10
SEEDS ?= 0
soak: install
	$(BIN)/python -m simulation.soak --minutes $(MINUTES) --seeds $(SEEDS) $(ARGS)

# How often each decoder is given ten changed examples; DECODER is a part of the name of a folder in tests/fuzz/corpus.
TIMES ?= 500
DECODER ?= changed
fuzz: install
	TIMES=$(TIMES) $(BIN)/pytest -n auto --dist loadgroup --timeout 0 -m slow -k "$(DECODER)" --hypothesis-profile fuzz tests/fuzz $(ARGS)

lint: lint-code lint-texts

lint-code: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

lint-texts: install
	$(BIN)/pytest -q tests/texts

# Every script of the packages and of this repository.
shellcheck: install
	$(BIN)/shellcheck --external-sources deploy/*/*.sh deploy/*/build-and-deploy/*.sh scripts/*.sh

audit: install
	$(BIN)/python -m scripts.audit $(ARGS)
	$(BIN)/ruff check --select S --ignore S101,S104,S105,S108,S311,S603 src

mutants: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[mutants]"
	$(BIN)/python -m scripts.mutants $(ARGS)

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

# The documents in build/site, with search in both languages; a broken link ends it. Its tools stay out of $(VENV).
SITE := .cache/site
$(SITE)/.installed: site/requirements.txt
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --requirement site/requirements.txt
	touch $@

site: $(SITE)/.installed
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --config-file site/mkdocs.yml $(ARGS)

vendors: install
	$(BIN)/python -m scripts.vendors
	deploy/manifests/render.sh

dashboards: install
	$(BIN)/python -m scripts.grafana

screenshots: install
	$(BIN)/python -m tests.browser.screenshots

protos: install
	$(BIN)/python -m grpc_tools.protoc --proto_path src --python_out src --pyi_out src $$(find src -name '*.proto')

# Single files of the inspect commands, for the Python and machine here; ARGS=--all for every one that is released.
single-files: install
	$(BIN)/python -m scripts.single_files dist $(ARGS)

# The commands with a Python of their own, out of the extender's saved images: one file for the machine of each.
EXTENDER_IMAGE := deploy/gcushare-scheduler-extender/build-and-deploy/images/gcushare-scheduler-extender.tar
executables: install
	$(BIN)/python -m scripts.executables dist $(or $(IMAGE),$(EXTENDER_IMAGE))

# The manual's two packages; IMAGES=DIR puts NAME.tar of each image into its own.
package: single-files
	$(BIN)/python -m scripts.packages dist --single-files dist $(if $(IMAGES),--images $(IMAGES))

# Everything that clusters are installed from, to a registry: REGISTRY=registry.local/gcushare; ARGS=--help for the rest.
publish: install
	scripts/publish.sh --registry "$(REGISTRY)" --files-url "$(FILES_URL)" $(ARGS)

# Every step of a release that needs no registry and no keys.
release-check: install
	bash scripts/release_check.sh

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
