# SPDX-License-Identifier: Apache-2.0
# A record says how the program was built.
$(BUILD)/obj/src/record/provenance.o: private override CPPFLAGS += -DASSAY_BUILD_FLAGS='"$(strip $(CFLAGS) $(SAN))"'
