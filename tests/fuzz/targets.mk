# What run.sh builds, for make: the targets, of objects that they share.
# CLANG, FLAGS, LIBS; SRC, BUILD; NAMES of targets; SOURCES below SRC or BUILD; P: what files here begin with.
OBJECTS = $(SOURCES:%.c=$(P)objects/%.o)

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
	$(CLANG) $(FLAGS) $< $(P)libfuzz.a $(LIBS) -o $@

-include $(OBJECTS:.o=.d)
