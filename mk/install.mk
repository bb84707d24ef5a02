# SPDX-License-Identifier: Apache-2.0
# make clean      removes what the build made; what the set-up fetched stays
# make distclean  removes that, too
.PHONY: clean distclean

clean:
	rm -rf $(BUILD) build-asan build-fuzz
distclean: clean
	rm -rf build-oracle
	find third_party/ -mindepth 1 -maxdepth 1 -exec rm -rf {} + 2>/dev/null || true
