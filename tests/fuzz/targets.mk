# What run.sh builds, for make: the targets, of objects that they share.
# CLANG, FLAGS, LIBS; SRC, BUILD; NAMES of targets; SOURCES below SRC or BUILD; P: what files here begin with.
OBJECTS = $(SOURCES:%.c=$(P)objects/%.o)
# Calls that fuzz_fail.c makes fail.
FAILING = malloc calloc realloc aligned_alloc strdup strndup open fopen read pread fread write pwrite fsync fdatasync ftruncate rename \
    inflateInit2_ deflateInit2_ gzdopen png_create_info_struct json_set_alloc_funcs

# Calls that fuzz_files.c takes over; of those above, open, pread, pwrite, fsync, ftruncate and rename.
FILES = close fstat stat lstat unlink flock

all: $(NAMES:%=$(P)fuzz_%)

.SECONDARY:
$(P)objects/%.o: $(SRC)/%.c
	mkdir -p $(@D) && $(CLANG) $(FLAGS) -MMD -c $< -o $@
$(P)objects/%.o: $(BUILD)/%.c
	mkdir -p $(@D) && $(CLANG) $(FLAGS) -MMD -c $< -o $@
$(P)libfuzz.a: $(OBJECTS)
	rm -f $@ && ar rc $@ $^
# A target takes of the library what it needs.
$(P)fuzz_%: $(SRC)/tests/fuzz/fuzz_%.c $(P)libfuzz.a
	$(CLANG) $(FLAGS) $< $(P)libfuzz.a $(FAILING:%=-Wl,--wrap=%) $(FILES:%=-Wl,--wrap=%) $(LIBS) -o $@

-include $(OBJECTS:.o=.d)
