# `make demo` is all a new user needs. PYTHON=… picks the interpreter, ARGS=… is handed to the command.
VENV := .venv
BIN := $(VENV)/bin
# Progress on a terminal, silence elsewhere; old pips build Spark's source archive the old way unless told.
INSTALL := PIP_USE_PEP517=1 $(BIN)/python -m pip --disable-pip-version-check $$([ -t 1 ] || echo --quiet) install --editable

.PHONY: help demo test check fix bench pictures clean
help:
	@echo "make demo    a year of flights through Spark, and the screen on it (installs what is missing, into $(VENV))"
	@echo "make test    the whole test suite          make test ARGS='-k valve' a part of it"
	@echo "make check   lint, formatting, types, import contracts"
	@echo "make fix     what of lint and formatting can be mended by itself"
	@echo "make bench   the benchmarks (benchmarks/README.md)"
	@echo "make pictures    the pictures of the README, taken anew of the demo (four minutes)"
	@echo "make clean   remove everything that make made"

demo: $(VENV)/.installed
	@sh .ci/have java && $(BIN)/wmtop demo $(ARGS)

test: $(VENV)/.installed-dev
	@sh .ci/have java && sh .ci/have maven && $(BIN)/pytest --numprocesses 2 --dist loadgroup --no-loadscope-reorder $(ARGS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@mkdir -p .typings/wmtop && for part in engine tui sample_data; do ln -sfn ../../$$part .typings/wmtop/$$part; done
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright
	$(BIN)/lint-imports --no-cache

fix: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev
	@sh .ci/have java && sh .ci/have maven && $(BIN)/python -m benchmarks $(ARGS)

pictures: $(VENV)/.installed-dev
	@sh .ci/have java && $(BIN)/python -m benchmarks.pictures

clean:
	rm -rf $(VENV) .typings build dist *.egg-info .pytest_cache .ruff_cache .hypothesis

# Everything below runs once, and again when pyproject.toml has changed. pip is the last thing that venv makes.
$(BIN)/pip:
	@python=$$(sh .ci/have python) && "$$python" -m venv --clear $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/pip
	@echo "Installing wmtop and Spark (some 400 MB, once) into $(VENV) ..."
	@$(INSTALL) .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/pip
	@echo "Installing wmtop, Spark (some 400 MB, once) and what the tests need into $(VENV) ..."
	@$(INSTALL) '.[dev]'
	@touch $(VENV)/.installed $@
