# Each target does all of its own set-up: a fresh clone needs nothing but Python 3.10+, and a C++17 compiler for the kernel.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
KERNEL := $(wildcard src/steadygrad/kernel/*.cpp src/steadygrad/kernel/*.hpp)
OUT ?= demo

.PHONY: install integrations demo test lint bench bench-grid results clean

install: $(READY)

$(READY): pyproject.toml setup.py constraints.txt $(KERNEL)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

# What only tests of other libraries need (Lightning, accelerate, TensorBoard, ONNX, Triton, a browser's driver); without it they are skipped.
integrations: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[integrations]'

demo: $(READY)
	$(BIN)/steadygrad reproduce fig7 --budget demo --out $(OUT)

test: $(READY)
	$(BIN)/python -m pytest -n 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/step.py --write results/bench.json

# Goes on where it was stopped; remove results/grid.jsonl to begin anew.
bench-grid: $(READY)
	$(BIN)/python benchmarks/grid.py --write results/grid.jsonl --draw docs/grid.png

results: $(READY)
	$(BIN)/steadygrad report --results results --write RESULTS.md --readme README.md

clean:
	rm -rf .venv build demo src/*.egg-info src/steadygrad/kernel/recurrence.so
