/* Decides which notes are printed: see notes.h. */
#include "app/base/notes.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* Copies the text to `out` with "N" in place of each run of digits. */
static void replace_numbers(const char *text, char out[TC_ERR_MAX])
{
    size_t n = 0;

    for (; *text != '\0' && n < TC_ERR_MAX - 1; text++)
        if (!isdigit((unsigned char)*text))
            out[n++] = *text;
        else if (n == 0 || out[n - 1] != 'N')
            out[n++] = 'N';
    out[n] = '\0';
}

bool tc_notes_add(tc_notes *notes, const char *text)
{
    assert(notes->n <= TC_NOTE_KINDS);
    char kind[TC_ERR_MAX], other_kind[TC_ERR_MAX];
    size_t i = 0;

    replace_numbers(text, kind);
    for (; i < notes->n; i++) {
        replace_numbers(notes->kinds[i].text, other_kind);
        if (strcmp(kind, other_kind) == 0)
            break;
    }
    if (i == TC_NOTE_KINDS)
        return true;
    tc_note_kind *const k = &notes->kinds[i];
    if (i == notes->n) { /* the first note of its kind */
        strncat(k->text, text, sizeof k->text - 1);
        notes->n++;
    }
    k->differ = k->differ || strcmp(k->text, text) != 0;
    return k->n++ < TC_NOTES_PRINTED;
}

void tc_notes_end(tc_notes *notes,
                  void (*print)(void *user, size_t more, bool differ, const char *text), void *user)
{
    for (size_t i = 0; i < notes->n; i++)
        if (notes->kinds[i].n > TC_NOTES_PRINTED)
            print(user, notes->kinds[i].n - TC_NOTES_PRINTED, notes->kinds[i].differ,
                  notes->kinds[i].text);
    memset(notes, 0, sizeof *notes);
}
