#!/bin/sh
# Makes analyses.inc from analyses.def: the Makefile.inc of each analysis, for automake.
# Run by autoreconf (configure.ac), and by make when the list has changed.
set -eu
cd "$(dirname "$0")"
{
    echo "# Made from analyses.def by includes.sh."
    sed -n 's|^ANALYSIS(\([a-z0-9_]*\),.*|include app/analysis/\1/Makefile.inc|p' analyses.def
} > analyses.inc.new
if cmp -s analyses.inc.new analyses.inc; then      # automake need not run again
    rm analyses.inc.new
else
    mv analyses.inc.new analyses.inc
fi
