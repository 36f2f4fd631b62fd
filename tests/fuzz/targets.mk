# Builds the fuzz targets for run.sh, from objects that they share.
# run.sh sets CLANG, FLAGS, LIBS; SRC, BUILD: folders; NAMES: targets; SOURCES: paths in SRC or BUILD; P: prefix of the output files.
OBJECTS = $(SOURCES:%.c=$(P)objects/%.o)
# Calls that fuzz_fail.c can make fail.
FAILING = malloc calloc realloc aligned_alloc strdup strndup open fopen read pread fread write pwrite fsync fdatasync ftruncate rename \
    inflateInit2_ deflateInit2_ gzdopen png_create_info_struct json_set_alloc_funcs

# Calls that fuzz_files.c replaces, in addition to open, pread, pwrite, fsync, ftruncate and rename above.
FILES = close fstat stat lstat unlink flock

all: $(NAMES:%=$(P)fuzz_%)

.SECONDARY:
$(P)objects/%.o: $(SRC)/%.c
	mkdir -p $(@D) && $(CLANG) $(FLAGS) -MMD -c $< -o $@
$(P)objects/%.o: $(BUILD)/%.c
	mkdir -p $(@D) && $(CLANG) $(FLAGS) -MMD -c $< -o $@
$(P)libfuzz.a: $(OBJECTS)
	rm -f $@ && ar rc $@ $^
# A target links only the objects of the library that it needs.
$(P)fuzz_%: $(SRC)/tests/fuzz/fuzz_%.c $(P)libfuzz.a
	$(CLANG) $(FLAGS) $< $(P)libfuzz.a $(FAILING:%=-Wl,--wrap=%) $(FILES:%=-Wl,--wrap=%) $(LIBS) -o $@

-include $(OBJECTS:.o=.d)
