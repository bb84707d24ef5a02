# SPDX-License-Identifier: Apache-2.0
# Examples see what an installed program sees: the public header and the library, no more. They lie beside assay-worker.
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/example_%,$(sort $(wildcard examples/*.c)))
$(BUILD)/example_%: examples/%.c $(wildcard include/assay/*.h) $(BUILD)/libassay.a
	$(call say,LINK)
	$(Q)$(CC) -std=c11 -pedantic-errors $(WARN) $(CFLAGS) $(SAN) -Iinclude $(LDFLAGS) -o $@ $< $(BUILD)/libassay.a $(LDLIBS)

$(BUILD)/test-unit: | $(EXAMPLES)
