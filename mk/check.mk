# SPDX-License-Identifier: Apache-2.0
# make check      layers, format, rules over the tree, static analysis (needs `scripts/setup check`)
# make format     formats every C file

C_FILES = $(shell git ls-files --cached --others --exclude-standard '*.c' '*.h' 2>/dev/null)

CHECKS := check-layers check-format check-tree check-cppcheck check-tidy
.PHONY: check check-tools $(CHECKS) format
check: check-tools
	@passed=0; failed=0; for c in $(CHECKS); do \
	    if $(MAKE) --no-print-directory --keep-going $$c; then passed=$$((passed + 1)); \
	    else failed=$$((failed + 1)); echo "FAIL $$c"; fi; done; \
	echo "$$passed passed, $$failed failed"; [ $$failed = 0 ]
check-tools:
	@scripts/setup check
check-layers:
	@scripts/check-layers $(LAYERS)
check-format:
	@clang-format --dry-run -Werror $(C_FILES)
	@echo "format: $(words $(C_FILES)) files"
check-tree:
	@scripts/check-tree
check-cppcheck: | $(SETUP_STAMP)
	@mkdir -p $(BUILD)/cppcheck
	@cppcheck --quiet --cppcheck-build-dir=$(BUILD)/cppcheck --enable=warning,portability --inline-suppr \
	    --error-exitcode=1 --std=c11 --language=c -Isrc -Iinclude -D_GNU_SOURCE src
	@echo "cppcheck: done"

# One stamp for each file, so a second run looks only at what changed.
TIDY_STAMPS := $(patsubst %.c,$(BUILD)/tidy/%.ok,$(SRCS))
check-tidy: $(TIDY_STAMPS)
	@echo "clang-tidy: $(words $(TIDY_STAMPS)) files"
$(BUILD)/tidy/%.ok: %.c .clang-tidy $(wildcard src/*/*.h) | $(SETUP_STAMP)
	@mkdir -p $(@D)
	@clang-tidy --quiet $< -- $(CPPFLAGS) -std=gnu11 -DASSAY_VERSION='"$(VERSION)"' -DASSAY_PREFIX='"$(PREFIX)"' 2>$(@:.ok=.log) || { cat $(@:.ok=.log); exit 1; }
	@touch $@

format:
	clang-format -i $(C_FILES)
