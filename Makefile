# Each target sets up what it needs and works as the first command after a clone, on a machine with Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests run this many processes; compiled code and engines bring threads of their own.
JOBS ?= 2

.PHONY: backtest help demo test quick coverage mutants check bench sweep survey replay injected variants bounds reports fixes models runs kills layers guard picks thresholds attack causes commands operators networks schemas integers pages docs examples dist format clean

help:
	@echo "make demo     what samebits says of one convolution on the light engines"
	@echo "make test     every test"
	@echo "make quick    the tests that compute little and start no process"
	@echo "make coverage every test, and which lines of samebits none of them reaches (also in coverage.xml)"
	@echo "make mutants  small changes to the parts that decide: which of them no test notices"
	@echo "make check    ruff, pyright, import contracts"
	@echo "make bench    timings: the truth over torch, emulators, the order probe over one pair per call"
	@echo "make sweep    is every output of the truth right: ten million of them, in every mode and way of calling"
	@echo "make replay   every engine on every problem of the catalog: is its recipe found, are its bits replayed"
	@echo "make injected thousands of injected and fault-free results explained: what is said of what"
	@echo "make variants what is said of cases made by other means: plain NumPy, SciPy, NNPACK"
	@echo "make bounds   how near the error bounds are, on engines and recipes: is one exceeded"
	@echo "make reports  public reports simulated and explained"
	@echo "make fixes    real engines that differ by one known setting: is a setting found that ends it"
	@echo "make models   networks with one fault each: is it found; and without: verdicts, units replayed, fixes"
	@echo "make runs     trainings that differ in one thing: is the first difference found"
	@echo "make layers   a converted ResNet-18: do its bits stay, what does it cost"
	@echo "make backtest closed reports of engines asked again, faulty and repaired releases side by side"
	@echo "make guard    networks in training under a guard: what it finds, what it costs"
	@echo "make picks    what pick chooses for 50 layers, compared with another timing (docs/pick_survey.md)"
	@echo "make reductions  faults put into kernels of plain NumPy: smallest problem, condition (docs/reduction_survey.md)"
	@echo "make integers  random layers of 8-bit codes, replayed on every engine (docs/integer_replays.md)"
	@echo "make kills    the catalog swept, killed twenty times, and on a cluster that loses a node: the same table?"
	@echo "make thresholds  every threshold halved and doubled: whose answer changes"
	@echo "make attack   hostile inputs, interrupts at random times, random cases: what ends otherwise than it may"
	@echo "make causes   docs/causes.md from the table of causes"
	@echo "make commands docs/commands.md from the commands"
	@echo "make operators docs/operators.md from the tables that judge networks"
	@echo "make networks docs/published.md: trained networks out of published packages, fetched by name"
	@echo "make schemas  docs/schemas from the findings"
	@echo "make pages    the runs that README and docs show, run again"
	@echo "make docs     the site: build/site/index.html"
	@echo "make survey   every engine on every problem of the catalog"
	@echo "make dist     the wheel and the source distribution, checked"

$(VENV)/.light: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[engines]"
	@touch $@

# Torch comes first and by itself: its version is the one whose CPU build is at hand, and nothing may replace it.
$(VENV)/.dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@ $(VENV)/.light

demo: $(VENV)/.light
	@$(BIN)/python examples/demo.py

# Pages are opened in a browser; without one those tests are skipped. Only root may install one.
APT := DEBIAN_FRONTEND=noninteractive timeout 600 apt-get -qq
$(VENV)/.browser: $(VENV)/.dev
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
		|| (test "$$(id -u)" = 0 && ($(APT) install -y chromium || ($(APT) update && $(APT) install -y chromium)) >/dev/null) \
		|| echo "no browser: tests of pages are skipped"
	@touch $@

# Other processors are emulated; without the emulator those tests are skipped.
$(VENV)/.emulator: $(VENV)/.dev
	@command -v qemu-x86_64-static || command -v qemu-x86_64 \
		|| (test "$$(id -u)" = 0 && ($(APT) install -y qemu-user-static || ($(APT) update && $(APT) install -y qemu-user-static)) >/dev/null) \
		|| echo "no qemu-user: tests of other processors are skipped"
	@touch $@

# tinygrad's kernels are compiled; without clang those tests are skipped.
$(VENV)/.compiler: $(VENV)/.dev
	@command -v clang \
		|| (test "$$(id -u)" = 0 && ($(APT) install -y clang || ($(APT) update && $(APT) install -y clang)) >/dev/null) \
		|| echo "no clang: tests of tinygrad are skipped"
	@touch $@

test: $(VENV)/.dev $(VENV)/.browser $(VENV)/.emulator $(VENV)/.compiler
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal --durations 25

# Some six minutes on two cores: what computes little and starts no process.
quick: $(VENV)/.dev
	$(BIN)/python -m pytest --quick --numprocesses $(JOBS) --dist worksteal

# Slower than `make test`: Python code is traced, in all processes.
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal --cov --cov-report=term --cov-report=xml

# Are the parts that decide held by tests? Some fifteen minutes; not part of CI. Only what changed is run again.
mutants: $(VENV)/.dev
	$(BIN)/python -m mutmut run --max-children $(JOBS)
	$(BIN)/python benchmarks/mutants.py

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/bench_truth.py
	$(BIN)/python benchmarks/bench_classes.py
	$(BIN)/python benchmarks/bench_emulators.py
	$(BIN)/python benchmarks/bench_orders.py

# Some twenty minutes on two cores.
sweep: $(VENV)/.dev
	$(BIN)/python benchmarks/truth_sweep.py

survey: $(VENV)/.dev
	$(BIN)/python benchmarks/survey.py --write docs/survey.md
	$(BIN)/python benchmarks/survey.py --products --write docs/survey_products.md
	$(BIN)/python benchmarks/survey.py --deployed --write docs/deployed_survey.md

replay: $(VENV)/.dev
	$(BIN)/python benchmarks/replay_survey.py --write docs/replay.md
	$(BIN)/python benchmarks/replay_survey.py --products --write docs/replay_products.md

injected: $(VENV)/.dev
	$(BIN)/python benchmarks/injected_survey.py --rounds 5 --write docs/injected.md

variants: $(VENV)/.dev
	$(BIN)/python benchmarks/variant_survey.py --seeds 34 --write docs/variants.md

# Some ten minutes.
bounds: $(VENV)/.dev
	$(BIN)/python benchmarks/bound_survey.py --write docs/bound_survey.md

reports: $(VENV)/.dev
	$(BIN)/python benchmarks/reports_survey.py --write docs/reports.md

# Installs some 60 releases; without that a quarter of an hour.
backtest: $(VENV)/.dev
	$(BIN)/python benchmarks/backtest.py --write docs/backtest.md

# An hour on two cores.
fixes: $(VENV)/.dev
	$(BIN)/python benchmarks/fix_survey.py --write docs/fix_survey.md

# An hour on two cores.
models: $(VENV)/.dev
	$(BIN)/python benchmarks/model_survey.py --write docs/model_survey.md
	$(BIN)/python benchmarks/model_survey.py --published --write docs/published_faults.md
	$(BIN)/python benchmarks/network_survey.py --write docs/network_survey.md

# Some minutes.
runs: $(VENV)/.dev
	$(BIN)/python benchmarks/run_pairs.py --write docs/run_pairs.md
	$(BIN)/python benchmarks/trace_cost.py

layers: $(VENV)/.dev
	$(BIN)/python benchmarks/converted_network.py

# Some ten minutes; nothing else should run.
guard: $(VENV)/.dev
	$(BIN)/python benchmarks/guard_survey.py --write docs/guard_survey.md

# Some twenty minutes; nothing else should run.
picks: $(VENV)/.dev
	$(BIN)/python benchmarks/pick_survey.py --write docs/pick_survey.md

reductions: $(VENV)/.dev
	$(BIN)/python benchmarks/reduction_survey.py --output docs/reduction_survey.md

# Some ten minutes.
integers: $(VENV)/.dev
	$(BIN)/python benchmarks/integer_replays.py --output docs/integer_replays.md

# Some forty minutes.
kills: $(VENV)/.dev
	$(BIN)/python benchmarks/killed_sweeps.py

thresholds: $(VENV)/.dev
	$(BIN)/python benchmarks/threshold_survey.py --write docs/thresholds.md

# Some three quarters of an hour on two cores.
attack: $(VENV)/.dev
	$(BIN)/python benchmarks/hostile_inputs.py --count 10000
	$(BIN)/python benchmarks/interrupts.py --count 200
	$(BIN)/python benchmarks/random_cases.py --rounds 10
	$(BIN)/python benchmarks/hostile_documents.py

causes: $(VENV)/.light
	$(BIN)/python benchmarks/causes_page.py

commands: $(VENV)/.light
	$(BIN)/python benchmarks/commands_page.py

operators: $(VENV)/.dev
	$(BIN)/python benchmarks/operators_page.py

# Fetches packages by name; a quarter of an hour.
networks: $(VENV)/.dev
	$(BIN)/python benchmarks/published_networks.py --write docs/published.md

schemas: $(VENV)/.light
	$(BIN)/python benchmarks/schemas.py

pages: $(VENV)/.dev
	$(BIN)/python examples/refresh_pages.py

# Pages and docstrings; what does not fit is an error.
docs: $(VENV)/.dev
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --builder html docs build/site
	@echo "build/site/index.html"

examples: $(VENV)/.light
	$(BIN)/python examples/make_cases.py

$(VENV)/.release: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	@touch $@

dist: $(VENV)/.release
	rm -rf build dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) mutants build dist src/*.egg-info
