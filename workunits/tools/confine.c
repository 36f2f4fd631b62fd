/*
 * texcell-wu reads untrusted pictures, work units and results with the rights of whoever started
 * it: it gives up all but those to its inputs and to the folder of its output.
 */
#include "workunits/tools/confine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/base/array.h"
#include "app/base/files.h"
#include "app/base/os.h"
#include "workunits/format/csv.h"

/* Places; the paths are owned. */
typedef struct list {
    const char *folder; /* is being listed */
    os_place *places;
    size_t n, room;
    bool full; /* no memory */
} list;

static void add(list *l, char *path, os_may may)
{
    os_place *const grown =
        path == NULL ? NULL : tc_array_grow(l->places, l->n, &l->room, sizeof *grown);

    if (grown == NULL) {
        free(path);
        l->full = true;
        return;
    }
    l->places = grown;
    l->places[l->n++] = (os_place){ path, may };
}

static int add_entry(void *user, const char *name, bool may_be_folder)
{
    list *const l = user;
    char *const path = name[0] == '.' ? NULL : wu_path_in(l->folder, name, "");

    (void)may_be_folder;
    if (path != NULL && os_kind_of(path) == OS_FILE)
        add(l, path, OS_MAY_READ);
    else
        free(path);
    return l->full;
}

/* A folder with all that is below it; of a picture's folder the files that are not hidden: it may
 * name companions. */
static void add_input(list *l, const char *input)
{
    char *const folder = tc_folder_of(input);
    bool again = false;

    add(l, strdup(input), OS_MAY_READ);
    if (folder == NULL || os_kind_of(input) != OS_FILE) {
        l->full = l->full || folder == NULL;
        free(folder);
        return;
    }
    for (size_t i = 0; !again && i < l->n; i++)
        again = l->places[i].may == OS_MAY_LIST && strcmp(l->places[i].path, folder) == 0;
    add(l, folder, OS_MAY_LIST);
    l->folder = folder;
    if (!again && !l->full)
        (void)os_list(folder, add_entry, l); /* what cannot be listed has no companions */
}

tc_status wu_confine(char *const *inputs, size_t n, const char *output, tc_err *err)
{
    assert(inputs != NULL || n == 0);
    list l = { .n = 0 };
    tc_status status = TC_OK;

    for (size_t i = 0; i < n; i++)
        if (inputs[i] != NULL)
            add_input(&l, inputs[i]);
    if (output != NULL)
        add(&l, os_kind_of(output) == OS_FOLDER ? strdup(output) : tc_folder_of(output),
            OS_MAY_WRITE);
    add(&l, strdup(""), OS_MAY_NOTHING);
    if (l.full)
        status = tc_no_memory(err, "the names of inputs");
    else if (!os_confine(l.places, output != NULL ? OS_CALLS_MAKE | OS_CALLS_LOCK : 0))
        status =
            tc_fail(err, TC_TRY_LATER, "this process cannot give up its rights to other files: %s",
                    strerror(errno));
    for (size_t i = 0; i < l.n; i++)
        free((char *)(uintptr_t)l.places[i].path);
    free(l.places);
    return status;
}
