#include <stdlib.h>
#include <string.h>

#include "app/analysis/analysis.h"

const an_analysis *const an_table[] = {
#define ANALYSIS(name, devices) &an_##name,
#include "app/analysis/analyses.def"
#undef ANALYSIS
    NULL
};

const an_analysis *an_find(const char *name)
{
    for (size_t i = 0; an_table[i] != NULL; i++)
        if (strcmp(an_table[i]->name, name) == 0)
            return an_table[i];
    return NULL;
}

tc_status an_parse(const an_analysis *analysis, const json_t *json, const char *where,
                   void **params, tc_err *err)
{
    tc_status st;

    *params = calloc(1, analysis->params_bytes);
    if (*params == NULL)
        return tc_no_memory(err, "the parameters");
    st = analysis->read_params(json, *params, where, err);
    if (st != TC_OK)
        an_params_free(analysis, params);
    return st;
}

void an_params_free(const an_analysis *analysis, void **params)
{
    if (*params != NULL && analysis->clear_params != NULL)
        analysis->clear_params(*params);
    free(*params);
    *params = NULL;
}

tc_status an_always_synced(void *worker, void *state, tc_err *err)
{
    (void)worker;
    (void)state;
    (void)err;
    return TC_OK;
}
