#include "workunits/format/declared.h"

#include <stdio.h>
#include <string.h>

bool wu_is_picture(wu_role role)
{
    return role == WU_LABELS || role == WU_MASK || role == WU_MAP;
}

uint64_t wu_declared_elements(const wu_declared *d)
{
    uint64_t n = 1;
    for (unsigned i = 0; i < d->n_axes; i++)
        n *= d->axes[i].n;
    return n;
}

void wu_title(const wu_declared *d, uint64_t element, unsigned from, char out[WU_TITLE_MAX])
{
    uint64_t at[WU_MAX_AXES] = { 0 };
    for (unsigned i = d->n_axes; i-- > 0; element /= d->axes[i].n)
        at[i] = element % d->axes[i].n;
    snprintf(out, WU_TITLE_MAX, "%s", from == 0 && d->title != NULL ? d->title : "");
    for (unsigned i = from; i < d->n_axes; i++) {
        const wu_axis *const axis = &d->axes[i];
        const size_t n = strlen(out);
        const char *const join = n > 0 ? "_" : "";
        if (axis->words != NULL)
            snprintf(out + n, WU_TITLE_MAX - n, "%s%s", join, axis->words[at[i]]);
        else
            snprintf(out + n, WU_TITLE_MAX - n, "%s%s%0*u", join, axis->prefix, (int)axis->digits, axis->numbers[at[i]]);
    }
}
