#include <string.h>

#include "app/analysis/analysis.h"

const an_analysis *const an_table[] = {
    &an_glcm,
    NULL
};

const an_analysis *an_find(const char *name)
{
    for (size_t i = 0; an_table[i] != NULL; i++)
        if (strcmp(an_table[i]->name, name) == 0)
            return an_table[i];
    return NULL;
}
