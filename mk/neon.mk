# SPDX-License-Identifier: Apache-2.0
# make test-neon  the loops for aarch64 on this machine: cross-built (NEON_CC), run by an emulator (NEON_RUN); a minute or two.
#                 Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
.PHONY: test-neon
NEON_CC ?= aarch64-linux-gnu-gcc
NEON_RUN ?= qemu-aarch64
NEON_TESTS := tests/unit/main.c tests/unit/test_num_convert_isa.c tests/unit/test_num_quantize_isa.c tests/unit/test_num_quantize_array.c
# Headers of libraries are the same for all machines; what calls the libraries is not called here, and not linked.
NEON_SRCS := $(NEON_TESTS) $(wildcard src/num/convert*.c src/num/quantize*.c) src/num/isa.c src/num/dtype.c \
    src/num/format.c src/base/error.c src/base/str.c src/base/threads.c
$(BUILD)/neon/test: $(NEON_SRCS) $(wildcard src/num/*.h src/base/*.h) | $(SETUP_STAMP)
	@command -v $(firstword $(NEON_CC)) $(firstword $(NEON_RUN)) >/dev/null || { echo "make test-neon needs $(NEON_CC) and $(NEON_RUN)" >&2; exit 1; }
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(NEON_CC) $(CPPFLAGS) -std=gnu11 $(WARN) $(CFLAGS) -ffp-contract=off -idirafter /usr/include -static -Wl,--unresolved-symbols=ignore-all -o $@ $(NEON_SRCS) -lm -lpthread
test-neon: $(BUILD)/neon/test
	@TOP=$(CURDIR) TEST_TIMEOUT=900 $(NEON_RUN) $(BUILD)/neon/test
