/* libFuzzer target: exports a data set as CSV and as a page. An input is the data set in SQL, a
 * statement a line; lines that SQLite refuses are left out. */
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_zip.h"
#include "validator/dataset/dataset.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OPERATIONS = 1000 }; /* SQLite calls too_long after each 1000 instructions */
enum { MOST = 30 };         /* calls of too_long after which a statement is interrupted */
enum { ROOM = 32 << 20, STEP = 16 };

static const char *folder;
static char page[64];

/* --- SQLite's memory -------------------------------------------------------------------------- */

/* SQLite allocates thousands of times for each input, which would take most of the time in the
 * sanitizer's allocator. Here pieces are cut from one array in turn; free memory and the gaps
 * between pieces are poisoned for the sanitizer. The array is reused when no piece is in use. */
static _Alignas(16) char memory[ROOM];
static uint32_t sizes[ROOM / STEP]; /* [i]: size of the piece at byte i * STEP */
/* taken: bytes of the array that are used up; pieces: number of pieces in use; kept, kept_pieces:
 * the values of taken and pieces after the last input, as SQLite keeps some memory. */
static size_t taken, pieces, kept, kept_pieces;

static uint32_t *size_of(const void *piece)
{
    return &sizes[(size_t)((const char *)piece - memory) / STEP];
}

static int size_in(void *piece)
{
    return piece == NULL ? 0 : (int)*size_of(piece);
}

static int round_up(int n)
{
    return (n + 7) & ~7;
}

static void *take(int n)
{
    const size_t whole = ((size_t)n + STEP) / STEP * STEP; /* with a gap of at least a byte */
    char *const piece = memory + taken;
    if (n <= 0 || whole > ROOM - taken)
        return NULL;
    ASAN_UNPOISON_MEMORY_REGION(piece, (size_t)n);
    *size_of(piece) = (uint32_t)n;
    taken += whole;
    pieces++;
    return piece;
}

static void give_back(void *piece)
{
    if (piece == NULL)
        return;
    ASAN_POISON_MEMORY_REGION(piece, *size_of(piece));
    pieces--;
}

static void *resize(void *piece, int n)
{
    void *const other = take(n);
    if (other == NULL)
        return NULL;
    memcpy(other, piece, (size_t)(size_in(piece) < n ? size_in(piece) : n));
    give_back(piece);
    return other;
}

static int begin(void *user)
{
    (void)user;
    ASAN_POISON_MEMORY_REGION(memory, ROOM);
    return SQLITE_OK;
}

static void end(void *user)
{
    (void)user;
}

/* Frees all memory after an input, except for the memory that SQLite keeps. */
static void take_back(void)
{
    if (pieces != kept_pieces) {
        kept_pieces = pieces;
        kept = taken;
    }
    taken = kept;
    if (kept > ROOM / 2)
        abort(); /* a leak */
}

/* --- data sets -------------------------------------------------------------------------------- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const sqlite3_mem_methods methods = { take,     give_back, resize, size_in,
                                                 round_up, begin,     end,    NULL };
    (void)argc;
    (void)argv;
    if (sqlite3_config(SQLITE_CONFIG_SINGLETHREAD) != SQLITE_OK ||
        sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) != SQLITE_OK ||
        sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK)
        abort();
    folder = fuzz_folder();
    snprintf(page, sizeof page, "%s/report.html", folder);
    return 0;
}

static int too_long(void *left)
{
    return --*(int *)left < 0;
}

static int deny_files(void *user, int action, const char *a, const char *b, const char *c,
                      const char *d)
{
    (void)user, (void)a, (void)b, (void)c, (void)d;
    return action == SQLITE_ATTACH || action == SQLITE_PRAGMA ? SQLITE_DENY : SQLITE_OK;
}

static void make(sqlite3 *db, char *sql)
{
    sqlite3_set_authorizer(db, deny_files, NULL);
    for (char *line = strtok(sql, "\n"); line != NULL; line = strtok(NULL, "\n"))
        (void)sqlite3_exec(db, line, NULL, NULL, NULL);
    sqlite3_set_authorizer(db, NULL, NULL);
    if (sqlite3_get_autocommit(db) == 0)
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    val_dataset ds = { .path = "data set" };
    int left = MOST;
    size_t written;
    tc_err err = { "" };
    char *const sql = malloc(size + 1);
    if (sql == NULL || sqlite3_open(":memory:", &ds.db) != SQLITE_OK)
        abort();
    memcpy(sql, data, size);
    sql[size] = '\0';
    sqlite3_limit(ds.db, SQLITE_LIMIT_LENGTH, 1 << 20);
    sqlite3_db_config(ds.db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(ds.db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_progress_handler(ds.db, OPERATIONS, too_long, &left);
    make(ds.db, sql);
    left = MOST;
    (void)val_export(&ds, folder, NULL, &written, &err);
    left = MOST;
    (void)val_report(&ds, folder, page, &err);
    if (sqlite3_get_autocommit(ds.db) == 0)
        abort();
    if (sqlite3_close(ds.db) != SQLITE_OK)
        abort();
    take_back();
    free(sql);
    return 0;
}
