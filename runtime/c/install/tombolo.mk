# Rules for make that write headers from interface files. In a Makefile:
#
#     include $(shell pkg-config --variable=makefile tombolo)
#     $(eval $(call tombolo_interface,build/kv.h,interfaces/kv.tbl))
#     client.o: build/kv.h
#
# A third word is more arguments for the compiler, such as `--prefix store_`. Headers of interface files that use each other
# belong in one folder.

# Found now: later other files are the last that were included.
ifeq ($(origin TOMBOLO),undefined)
TOMBOLO := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))../../bin/tombolo)
endif

define tombolo_interface
$(1): $(2)
	@mkdir -p $$(@D)
	$$(TOMBOLO) idl compile $(2) --lang c --output $$@ --depfile $$@.d $(3)
-include $(1).d
endef
