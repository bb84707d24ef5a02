# SPDX-License-Identifier: Apache-2.0
# make            the programs: $(BUILD)/assay, $(BUILD)/assay-worker, $(BUILD)/libassay.a
# make help       every target
BUILD ?= build
PREFIX ?= /usr/local
CC ?= cc
FUZZ_CC ?= clang
PYTHON ?= python3
SAN ?=
FUZZ_SECONDS ?= 20
FUZZ_SEED ?= 1
MAKEFLAGS += --no-builtin-rules

LAYERS := base record chips num io ir trace pjrt kernels worker models plan lab report api cli
WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
CFLAGS ?= -O2 -g
CPPFLAGS += -Isrc -Iinclude -I$(BUILD)/gen -isystem third_party/include -isystem third_party/onednn/include -D_GNU_SOURCE
ALL_CFLAGS = -std=gnu11 $(WARN) $(CFLAGS) -fno-omit-frame-pointer -ffp-contract=off -fPIC -MMD -MP $(SAN)
LDLIBS += -ljansson -lcrypto -lpng -ljpeg -lz -lm -ldl -lpthread
VERSION := $(shell cat VERSION)

# Short lines; `make V=1` shows whole commands.
V ?=
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-6s %s\n' $(1) $@)

.PHONY: all help
all: $(BUILD)/assay $(BUILD)/assay-worker $(BUILD)/libassay.a
help:
	@grep -hE '^# make [a-z]' Makefile mk/*.mk | sed 's/^# //'

# What the set-up brings (compiler, headers, the plugin) must be there before anything compiles.
SETUP_STAMP := third_party/.ready
$(SETUP_STAMP): scripts/setup
	@scripts/setup

SRCS := $(foreach l,$(LAYERS),$(sort $(wildcard src/$(l)/*.c)))
WORKER_MAIN := src/worker/main_worker.c
CLI_SRCS := $(filter src/cli/%,$(SRCS))
LIB_SRCS := $(filter-out src/cli/% $(WORKER_MAIN),$(SRCS))
obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB_OBJS := $(call obj,$(LIB_SRCS))
GEN :=

$(BUILD)/obj/%.o: %.c | $(SETUP_STAMP)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -DASSAY_VERSION='"$(VERSION)"' -DASSAY_PREFIX='"$(PREFIX)"' -c $< -o $@

# Everything below the command line, as an ordinary archive for our own programs and tests.
$(BUILD)/internal.a: $(LIB_OBJS)
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) rcs $@ $^

$(BUILD)/assay: $(call obj,$(CLI_SRCS)) $(BUILD)/internal.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/assay-worker: $(call obj,$(WORKER_MAIN)) $(BUILD)/internal.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# The public library: one relocatable object in which only the public symbols stay global.
$(BUILD)/libassay.a: $(LIB_OBJS)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(LD) -r -o $(BUILD)/libassay.o $^
	$(Q)objcopy --wildcard --keep-global-symbol='assay_*' $(BUILD)/libassay.o
	@rm -f $@
	$(call say,AR)
	$(Q)$(AR) rcs $@ $(BUILD)/libassay.o

-include $(wildcard mk/*.mk)
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
