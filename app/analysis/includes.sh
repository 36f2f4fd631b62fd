#!/bin/sh
# Makes analyses.inc, which includes the Makefile.inc of each analysis in analyses.def, for automake.
# Run by autoreconf (configure.ac), and by make when analyses.def has changed.
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
