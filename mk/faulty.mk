# SPDX-License-Identifier: Apache-2.0
# Plugins for tests that misbehave on request; they lie beside the test programs.
FAULTY_PLUGINS := $(BUILD)/faulty_plugin.so $(BUILD)/faulty_empty.so
$(BUILD)/faulty_%.so: tests/faulty/faulty_%.c | $(SETUP_STAMP)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(CPPFLAGS) -std=gnu11 $(WARN) -O1 -g -fPIC -shared \
	    -DREAL_PLUGIN='"$(abspath third_party/pjrt-cpu/pjrt_c_api_cpu_plugin.so)"' $< -o $@ -ldl

$(BUILD)/test-unit: | $(FAULTY_PLUGINS)
