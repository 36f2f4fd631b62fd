/* Lists a folder, with functions that POSIX systems and MinGW-w64 both have. */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "app/base/os.h"

/* Whether an entry may be a folder: its type may be unknown (DT_UNKNOWN), or missing in struct
 * dirent. */
static bool may_be_folder(const struct dirent *entry)
{
#ifdef DT_REG
    return entry->d_type != DT_REG;
#else
    (void)entry;
    return true;
#endif
}

int os_list(const char *folder, os_entry_visitor *each, void *user)
{
    DIR *const dir = opendir(folder);
    int result = 0, error;

    if (dir == NULL)
        return -1;
    while (each != NULL && result == 0) {
        const struct dirent *const entry = (errno = 0, readdir(dir));

        if (entry == NULL) {
            result = errno == 0 ? 0 : -1;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = each(user, entry->d_name, may_be_folder(entry));
    }
    error = errno;
    closedir(dir);
    errno = error;
    return result;
}
