# Builds texcell_validator from texcell_validator.cpp and the object files of BOINC's validators:
#     make -C BOINC/sched -f HERE/texcell_validator.mk HERE=HERE OUT=FILE
include Makefile

WRAPPED = mysql_query mysql_affected_rows _ZN21DB_VALIDATOR_ITEM_SET15update_workunitER8WORKUNIT

$(OUT): $(HERE)/texcell_validator.cpp
	$(CXXCOMPILE) -c -o $@.o $(HERE)/texcell_validator.cpp
	$(CXXLINK) $(WRAPPED:%=-Wl,--wrap=%) $@.o validator.$(OBJEXT) validate_util.$(OBJEXT) validate_util2.$(OBJEXT) $(SERVERLIBS) $(LIBS)
	rm -f $@.o
