/*
 * Drops the rights of texcell-wu to all files except its inputs and the folder of its output, since
 * texcell-wu reads untrusted pictures, work units and results.
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

/* The list of places (paths and rights) for os_confine. */
typedef struct list {
    const char *folder; /* the folder whose entries add_entry adds */
    os_place *places;   /* [n]; `room` are allocated; the paths are owned */
    size_t n, room;
    bool failed; /* memory ran out */
} list;

/* Adds a place. path: owned by the list afterwards; NULL if memory ran out when it was made. */
static void add_place(list *l, char *path, os_access_right may)
{
    os_place *const grown =
        path == NULL ? NULL : tc_array_grow(l->places, l->n, &l->room, sizeof *grown);

    if (grown == NULL) {
        free(path);
        l->failed = true;
        return;
    }
    l->places = grown;
    l->places[l->n++] = (os_place){ path, may };
}

/* Adds an entry of l->folder if it is a file. A function for os_list; user: the list. */
static int add_entry(void *user, const char *name, bool may_be_folder)
{
    list *const l = user;
    char *const path = name[0] == '.' ? NULL : wu_join_path(l->folder, name, "");

    (void)may_be_folder;
    if (path != NULL && os_kind_of(path) == OS_FILE)
        add_place(l, path, OS_MAY_READ);
    else
        free(path);
    return l->failed;
}

/* Adds an input: a folder with everything below it, or a file. For a file, also adds its folder, to
 * be listed, and all files in the folder that are not hidden, since a picture may consist of
 * several files. */
static void add_input(list *l, const char *input)
{
    char *const folder = tc_folder_of(input);
    bool listed = false; /* an earlier input has added the folder and its files */

    add_place(l, strdup(input), OS_MAY_READ);
    if (folder == NULL || os_kind_of(input) != OS_FILE) {
        l->failed = l->failed || folder == NULL;
        free(folder);
        return;
    }
    for (size_t i = 0; !listed && i < l->n; i++)
        listed = l->places[i].may == OS_MAY_LIST && strcmp(l->places[i].path, folder) == 0;
    add_place(l, folder, OS_MAY_LIST);
    l->folder = folder;
    if (!listed && !l->failed)
        (void)os_list(folder, add_entry, l); /* a folder that cannot be listed adds nothing */
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
        add_place(&l, os_kind_of(output) == OS_FOLDER ? strdup(output) : tc_folder_of(output),
                  OS_MAY_WRITE);
    add_place(&l, strdup(""), OS_MAY_NOTHING); /* ends the list */
    if (l.failed)
        status = tc_no_memory(err, "the names of inputs");
    else if (!os_confine(l.places,
                         output != NULL ? OS_CALLS_MODIFY_FILES | OS_CALLS_LOCK_FILES : 0))
        status =
            tc_fail(err, TC_TRY_LATER, "this process cannot give up its rights to other files: %s",
                    strerror(errno));
    for (size_t i = 0; i < l.n; i++)
        free((char *)(uintptr_t)l.places[i].path);
    free(l.places);
    return status;
}
