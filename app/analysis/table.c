/* The table of all analyses, and the calls of their optional functions. */
#include <string.h>

#include "app/analysis/analyses.h"

const an_analysis *const an_analyses[] = {
#define ANALYSIS(name, devices) &an_##name,
#include "app/analysis/analyses.def"
#undef ANALYSIS
    NULL
};

const an_analysis *an_find_analysis(const char *name)
{
    for (size_t i = 0; an_analyses[i] != NULL; i++)
        if (strcmp(an_analyses[i]->name, name) == 0)
            return an_analyses[i];
    return NULL;
}

tc_status an_init(const an_analysis *analysis, const an_work *work, void *state, tc_err *err)
{
    return analysis->init != NULL ? analysis->init(work, state, err) : TC_OK;
}

tc_status an_sync(const an_backend *backend, void *worker, void *state, tc_err *err)
{
    return backend->sync != NULL ? backend->sync(worker, state, err) : TC_OK;
}
