/* The analyses by their names, an_NAME, as analyses.def lists them. */
#ifndef AN_ANALYSES_H
#define AN_ANALYSES_H

#include "app/analysis/analysis.h"

#define ANALYSIS(name, devices) extern const an_analysis an_##name;
#include "app/analysis/analyses.def"
#undef ANALYSIS

#endif
