/* Declares the struct an_NAME of each analysis in analyses.def. */
#ifndef AN_ANALYSES_H
#define AN_ANALYSES_H

#include "app/analysis/analysis.h"

#define ANALYSIS(name, devices) extern const an_analysis an_##name;
#include "app/analysis/analyses.def"
#undef ANALYSIS

#endif
