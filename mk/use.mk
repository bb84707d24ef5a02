# SPDX-License-Identifier: Apache-2.0
# make demo       fetches a real embedding model and qualifies it on this machine's CPU
# make tpu        fetches the TPU compiler (libtpu, 137 MB): compiles for TPUs without one
# make gpu        fetches XLA's CUDA plugin (135 MB): compiles for GPUs without one
# make bench      every comparison in bench/ (those with other programs make tests/oracle/venv first)
# make install    programs, library, header, the CPU plugin, manual pages and completions under PREFIX (and DESTDIR)
# make clean      removes what the build made; what the set-up fetched stays
# make distclean  removes that, too
.PHONY: accuracy demo tpu gpu bench install clean distclean

demo: | $(SETUP_STAMP)
	@scripts/demo $(BUILD)

tpu gpu:
	@scripts/setup $@

# A program in bench/ takes the build directory and prints what it compared, interval and all.
BENCHES := $(shell find bench -maxdepth 1 -type f -executable 2>/dev/null | sort)
# The page that says how far predictions are off; a test compares it with the program.
accuracy: all
	@COLUMNS=120 $(BUILD)/assay accuracy --format md > docs/accuracy.md

bench: all
	@[ -n "$(BENCHES)" ] || { echo "bench/ holds no program" >&2; exit 1; }
	@for program in $(BENCHES); do echo "== $$program"; $$program $(BUILD) || exit; done

INSTALL = install
install: all
	$(INSTALL) -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/lib/assay" "$(DESTDIR)$(PREFIX)/include/assay" \
	    "$(DESTDIR)$(PREFIX)/share/doc/assay"
	$(INSTALL) -d "$(DESTDIR)$(PREFIX)/lib/pkgconfig"
	$(INSTALL) -m 755 $(BUILD)/assay $(BUILD)/assay-worker "$(DESTDIR)$(PREFIX)/bin"
	$(INSTALL) -m 644 $(BUILD)/libassay.a "$(DESTDIR)$(PREFIX)/lib"
	for header in $(wildcard include/assay/*.h); do \
	    $(INSTALL) -m 644 $$header "$(DESTDIR)$(PREFIX)/include/assay" || exit; done
	printf '%s\n' 'prefix=$(PREFIX)' 'Name: assay' 'Description: prices, qualifies and runs models on accelerators' \
	    'Version: $(VERSION)' 'Cflags: -I$${prefix}/include' 'Libs: -L$${prefix}/lib -lassay $(LDLIBS)' \
	    >"$(DESTDIR)$(PREFIX)/lib/pkgconfig/assay.pc"
	$(INSTALL) -m 644 third_party/pjrt-cpu/*.so "$(DESTDIR)$(PREFIX)/lib/assay"
	$(INSTALL) -m 644 third_party/onednn/lib/libdnnl.so.3 "$(DESTDIR)$(PREFIX)/lib/assay"
	$(INSTALL) -d "$(DESTDIR)$(PREFIX)/share/doc/assay/onednn"
	$(INSTALL) -m 644 third_party/onednn/lib/LICENSE third_party/onednn/lib/THIRD-PARTY-PROGRAMS \
	    "$(DESTDIR)$(PREFIX)/share/doc/assay/onednn"
	$(INSTALL) -m 644 LICENSE "$(DESTDIR)$(PREFIX)/share/doc/assay"
	$(INSTALL) -d "$(DESTDIR)$(PREFIX)/share/doc/assay/pjrt-cpu"
	$(INSTALL) -m 644 third_party/pjrt-cpu/LICENSE third_party/pjrt-cpu/THIRD_PARTY_NOTICES \
	    "$(DESTDIR)$(PREFIX)/share/doc/assay/pjrt-cpu"
	scripts/install-manual $(BUILD)/assay "$(DESTDIR)$(PREFIX)/share"

clean:
	rm -rf $(BUILD) build-asan build-fuzz
distclean: clean
	rm -rf build-oracle
	find third_party/ -mindepth 1 -maxdepth 1 -exec rm -rf {} +
