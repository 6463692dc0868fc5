# New here? `make demo`. PYTHON=… chooses the interpreter, ARGS=… is passed to the command.
VENV := .venv
BIN := $(VENV)/bin
# Progress on a terminal only. PIP_USE_PEP517: old pips would build Spark's source archive with setup.py.
PIP := PIP_USE_PEP517=1 $(BIN)/python -m pip --disable-pip-version-check $$([ -t 1 ] || echo --quiet) install
INSTALL := $(PIP) --constraint .ci/constraints.txt --editable
# HASHED=1, as in CI: exactly the files of `make lock`, for its platform and Python only.
LOCKED = $(if $(HASHED),$(PIP) --require-hashes --no-deps --requirement .ci/hashes.txt)

# Spark's class archive, for faster starts of the tests' JVMs.
WARM_UP = $(BIN)/python -m wmtop.engine.run.warm_up --untied >/dev/null 2>&1 </dev/null
# Four workers for two cores: many tests wait for a JVM, a broker or a clock.
PYTEST = $(BIN)/pytest --numprocesses 4 --dist loadgroup --no-loadscope-reorder
# Tests that neither sleep nor start a process, a server or a screen, nor simulate hours; of random runs a tenth.
QUICK = --numprocesses 2 --hypothesis-profile quick -m "not matrix and not hours" \
	tests/watermarks tests/snapshot tests/verdict tests/text tests/doctor tests/tui/words

# Where it is set (as in some containers) each of our processes would compile wmtop again: 0.4 s of CPU.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all test-flink120 test-flink21 test-flink22 quick check lint types fix docs coverage audit \
	gallery gallery-35 gallery-40 gallery-41 gallery-42 bench torture soak pictures tour lock clean
help:
	@echo "make demo    a year of flights through Spark, and the screen on it (installs what is missing, into $(VENV))"
	@echo "make test    the whole test suite          make test ARGS='-k valve' for a part of it"
	@echo "make test-all    the same with fresh random examples, and the further cases (tests marked matrix)"
	@echo "make quick   lint and the pure tests (half a minute); PYTHONS=all (others): under each (other) Python found"
	@echo "make check   lint, formatting, import contracts and cycles, the shape of functions, types"
	@echo "make fix     apply the automatic fixes of lint and formatting"
	@echo "make docs    the table of imports, the JSON schemas and the manual page, from the code"
	@echo "make coverage    branch coverage of the tests that need no Spark and no Kafka"
	@echo "make audit   known vulnerabilities of the locked versions (pip-audit; needs pypi.org)"
	@echo "make gallery    attach to every job of tests/gallery; gallery-35, -40, -41, -42: under PySpark 3.5 to 4.2"
	@echo "make test-flink21    the situations on a real Flink 2.1; test-flink22: 2.2; test-flink120: without splits, 1.20"
	@echo "make bench   the benchmarks (benchmarks/README.md)"
	@echo "make torture PART=g    attacks drawn from SEED=… for SECONDS=1200 (docs/reliability.md); ROUND=…: one of them"
	@echo "                     PART=c ATHERIS=1: guided by coverage, with atheris from pypi.org"
	@echo "make soak    a run and its viewers for SECONDS=3600: memory, threads, descriptors, totals; OUT=soak: CSV and plot"
	@echo "make pictures    retake the README's screenshots from the demo (four minutes)"
	@echo "make lock    resolve the dependencies again: the versions and hashes in .ci"
	@echo "make tour    record the README's animation in tmux (four minutes)"
	@echo "make clean   remove everything that make created"

demo: $(VENV)/.installed
	@sh .ci/have java && $(BIN)/wmtop demo $(ARGS)

test: $(VENV)/.installed-dev
	@sh .ci/have java && sh .ci/have maven && { $(WARM_UP); $(PYTEST) -m "not matrix" $(ARGS); }

test-all: $(VENV)/.installed-dev
	@sh .ci/have java && sh .ci/have maven && { $(WARM_UP); $(PYTEST) --hypothesis-profile fresh $(ARGS); }

test-flink120: FLINK := 1.20.5
test-flink120: WITHOUT_SPLITS := -k "several_jobs or ended or comes_back"
test-flink21: FLINK := 2.1.1
test-flink22: FLINK := 2.2.1
test-flink120 test-flink21 test-flink22: $(VENV)/.installed-dev
	@sh .ci/have java && sh .ci/have maven && WMTOP_TEST_FLINK=$(FLINK) $(BIN)/pytest -n 0 \
		tests/targets/flink/test_situations.py $(WITHOUT_SPLITS) $(ARGS)

gallery: $(VENV)/.installed-dev
	@sh .ci/have java && GALLERY=all $(BIN)/pytest tests/gallery -n 0 $(ARGS)

gallery-35 gallery-40 gallery-41 gallery-42: $(VENV)/.installed-dev
	@sh .ci/have java && .ci/gallery $(@:gallery-%=%) $(BIN)/pytest tests/gallery -n 0 $(ARGS)

check: lint types

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	.ci/shape

types: $(VENV)/.installed-dev .typings
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

# The packages under their own names, for tools and Pythons into which wmtop is not installed.
.typings:
	@mkdir -p $@/wmtop && for part in engine tui sample_data; do ln -sfn ../../$$part $@/wmtop/$$part; done

quick: lint .typings
	$(if $(filter others,$(PYTHONS)),,$(BIN)/pytest $(QUICK) $(ARGS))
	$(if $(PYTHONS),VENV=$(VENV) .ci/pythons $(QUICK) $(ARGS))

docs: $(VENV)/.installed-dev
	$(BIN)/python docs/generate.py

coverage: $(VENV)/.installed-dev
	$(BIN)/pytest --numprocesses 2 --cov --cov-report=term:skip-covered tests/watermarks tests/snapshot tests/verdict tests/doctor tests/feed tests/tui tests/targets/spark $(ARGS)

# In an environment of its own: what pip-audit needs is not to be in our lock. --strict: what could not be looked up fails.
audit: $(VENV)/.installed-dev
	@test -x $(VENV)/audit/bin/pip-audit || { $(BIN)/python -m venv $(VENV)/audit && \
		$(VENV)/audit/bin/pip --disable-pip-version-check --quiet install pip-audit; }
	$(VENV)/audit/bin/pip-audit --requirement .ci/constraints.txt --no-deps --disable-pip --strict --progress-spinner off $(ARGS)

fix: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev
	@sh .ci/have java && sh .ci/have maven && $(BIN)/python -m benchmarks $(ARGS)

torture: $(VENV)/.installed-dev $(if $(ATHERIS),$(VENV)/atheris)
	$(if $(ATHERIS),PYTHONPATH=$(VENV)/atheris) $(BIN)/python -m tests.torture $(PART) \
		$(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(ROUND),--round $(ROUND)) $(ARGS)

soak: $(VENV)/.installed-dev
	$(BIN)/python -m tests.torture.soak $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) \
		$(if $(OUT),--out $(OUT))

pictures: $(VENV)/.installed-dev
	@sh .ci/have java && $(BIN)/python -m benchmarks.pictures

lock: $(VENV)/.installed-dev
	$(BIN)/python .ci/lock

tour: $(VENV)/.installed-dev
	@sh .ci/have java && $(BIN)/python -m benchmarks.tour

clean:
	rm -rf $(VENV) .typings build dist *.egg-info .pytest_cache .ruff_cache .hypothesis

# Everything below runs once, and again when pyproject.toml or the locked versions have changed. pip is the last thing that venv makes.
$(BIN)/pip:
	@python=$$(sh .ci/have python) && "$$python" -m venv --clear $(VENV)

$(VENV)/.installed: pyproject.toml .ci/constraints.txt | $(BIN)/pip
	@echo "Installing wmtop and Spark (some 400 MB, once) into $(VENV) ..."
	@$(INSTALL) '.[run,serve,s3]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml .ci/constraints.txt | $(BIN)/pip
	@echo "Installing wmtop, Spark (some 400 MB, once) and what the tests need into $(VENV) ..."
	@$(LOCKED)
	@$(INSTALL) '.[dev]'
	@$(WARM_UP) &
	@touch $(VENV)/.installed $@

$(VENV)/atheris: | $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --target $@ atheris==3.0.0
