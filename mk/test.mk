# SPDX-License-Identifier: Apache-2.0
# make test       set-up, build, unit tests and command tests
# make test-unit  unit tests alone
# make test-cli   command tests alone
# make test-xprof profiles that we write, read by XProf and protoc (the first time it makes their environment, 500 MB)
# make test-full images in full size on random weights, minutes and 15 GB each (FULL="256-bf16": that one alone)
# make asan       all tests under AddressSanitizer and UndefinedBehaviorSanitizer
# make valgrind   the unit tests that load no plugin, under valgrind
# make fuzz       every fuzz target, FUZZ_SECONDS each (20), two at a time, always trying the same inputs (FUZZ_SEED=1)
# make fuzz-long  other inputs each time, for a minute each
.PHONY: test test-setup test-unit test-cli test-xprof test-full asan valgrind fuzz fuzz-long fuzz-targets fuzz-run

TEST_ENV = TOP=$(CURDIR) BUILD=$(abspath $(BUILD))
UNIT_SRCS := $(sort $(wildcard tests/unit/*.c))
$(BUILD)/test-unit: $(call obj,$(UNIT_SRCS) $(filter-out src/cli/main.c,$(CLI_SRCS))) $(BUILD)/internal.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Programs that command tests use: $(BUILD)/NAME-IN-PARTS from tests/tools/name_in_parts.c.
TEST_TOOLS := $(BUILD)/make-tiny-model $(BUILD)/make-tiny-flux2 $(BUILD)/check-schema $(BUILD)/json-get $(BUILD)/random-draws $(BUILD)/bpe-encode $(BUILD)/image-facts
$(BUILD)/make-tiny-model: $(call obj,tests/tools/make_tiny_model.c tests/unit/tiny_model.c)
$(BUILD)/make-tiny-flux2: $(call obj,tests/tools/make_tiny_flux2.c tests/unit/tiny_flux2.c)
$(BUILD)/check-schema: $(call obj,tests/tools/check_schema.c tests/unit/schema.c)
$(BUILD)/json-get: $(call obj,tests/tools/json_get.c)
$(BUILD)/random-draws: $(call obj,tests/tools/random_draws.c tests/unit/random_draws.c)
$(BUILD)/bpe-encode: $(call obj,tests/tools/bpe_encode.c)
$(BUILD)/image-facts: $(call obj,tests/tools/image_facts.c)
$(TEST_TOOLS): $(BUILD)/internal.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(BUILD)/internal.a $(LDLIBS)

# Both kinds run, even when the first one fails.
test: test-setup
	@$(MAKE) --no-print-directory all $(BUILD)/test-unit $(TEST_TOOLS)
	@status=0; for kind in test-unit test-cli; do \
	    $(MAKE) --no-print-directory --silent $$kind || status=1; done; exit $$status
test-setup:
	@scripts/setup test
test-unit: all $(BUILD)/test-unit
	@$(TEST_ENV) $(BUILD)/test-unit
test-cli: all $(BUILD)/test-unit $(TEST_TOOLS)
	@$(TEST_ENV) tests/cli/run -j 2 $(BUILD)/assay

test-full: all $(TEST_TOOLS)
	@tests/full/run $(BUILD)/assay $(FULL)

test-xprof: all $(BUILD)/test-unit
	@tests/oracle/written_traces $(BUILD)

# The plugin is not instrumented, so what it allocates for good is left out of the leak report. The worker that loads it
# maps as much as it likes: a limit on address space would hit the shadow memory.
ASAN_ENV = ASAN_OPTIONS=abort_on_error=0:detect_stack_use_after_return=1:handle_abort=0:strict_string_checks=1 \
    UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS=suppressions=$(CURDIR)/tests/lsan.supp:print_suppressions=0
asan:
	@$(ASAN_ENV) $(MAKE) --no-print-directory BUILD=build-asan CFLAGS='-O1 -g' TEST_TIMEOUT=600 \
	    SAN='-fsanitize=address,undefined -fno-sanitize-recover=all' test

# An older valgrind says, wherever a test starts a program, that it does not know system call 434 (pidfd_open): these
# tests then take the way of kernels that have none.
valgrind: check-tools all $(BUILD)/test-unit
	@$(TEST_ENV) TEST_EXCLUDE=plugin TEST_TIMEOUT=900 valgrind --quiet --error-exitcode=9 --leak-check=full \
	    --errors-for-leak-kinds=definite --show-leak-kinds=definite $(BUILD)/test-unit

FUZZ_SRCS := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_NAMES := $(patsubst tests/fuzz/%.c,%,$(FUZZ_SRCS))
FUZZ_FLAGS := address,undefined -fno-sanitize-recover=all
fuzz: check-tools
	@$(MAKE) --no-print-directory BUILD=build-fuzz CC=$(FUZZ_CC) CFLAGS='-O1 -g' \
	    SAN='-fsanitize=fuzzer-no-link,$(FUZZ_FLAGS)' fuzz-targets
	@FUZZ_SEED=$(FUZZ_SEED) tests/fuzz/run build-fuzz $(FUZZ_SECONDS) $(FUZZ_NAMES)
fuzz-long:
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=60 FUZZ_SEED=0
fuzz-targets: $(FUZZ_NAMES:%=$(BUILD)/%)
$(BUILD)/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(BUILD)/internal.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer,$(FUZZ_FLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
