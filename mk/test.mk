# SPDX-License-Identifier: Apache-2.0
# make test       set-up, build, unit tests and command tests
# make test-unit  unit tests alone
# make asan       all tests under AddressSanitizer and UndefinedBehaviorSanitizer
# make fuzz       every fuzz target, FUZZ_SECONDS each (60)
.PHONY: test test-unit test-cli asan fuzz fuzz-long

UNIT_SRCS := $(sort $(wildcard tests/unit/*.c))
$(BUILD)/test-unit: $(call obj,$(UNIT_SRCS)) $(BUILD)/internal.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
