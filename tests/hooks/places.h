/*
 * Identifies calls by their place: a hash of the stack of return addresses, which is the same in
 * every process. For libraries that are put between a program and the real library.
 *
 * "PLACE:N[+]" names the N-th call from a place, from 1; with + also all later calls from any
 * place.
 */
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>

/* A hash table of the places that were counted. */
static struct {
    atomic_ulong place; /* 0: the entry is free */
    atomic_ulong times; /* calls */
} places[1 << 16];      /* far more entries than a program has places */

/* The chosen call, as choose_place sets it. */
static struct {
    unsigned long place, at; /* the call number `at` from this place; 0: none is chosen */
    int and_on;              /* whether "+" chooses later calls, too */
    atomic_ulong times;      /* number of calls from this place so far */
    atomic_int begun;        /* whether the chosen call was made */
} chosen;

/* Chooses the call PLACE:N[+], or none if text is NULL. */
static void choose_place(const char *text)
{
    char *rest;

    if (text == NULL)
        return;
    chosen.place = strtoul(text, &rest, 16);
    chosen.at = *rest == ':' ? strtoul(rest + 1, &rest, 10) : 0;
    chosen.and_on = *rest == '+';
    if (chosen.place == 0 || chosen.at == 0 || rest[chosen.and_on] != '\0')
        abort();
}

/* Returns the load address of the module (program or library) that an address belongs to. */
static uintptr_t module_of(uintptr_t at)
{
    uintptr_t module = 0;

    for (const struct link_map *m = _r_debug.r_map; m != NULL; m = m->l_next)
        if (m->l_addr <= at && m->l_addr > module)
            module = m->l_addr;
    return module;
}

/* Callback for each frame of the stack: adds the frame's return address to the hash (as FNV-1a
 * does), relative to the load address of its module, which varies. Frames of this library are
 * skipped. */
static _Unwind_Reason_Code add_frame(struct _Unwind_Context *frame, void *place)
{
    const uintptr_t at = _Unwind_GetIP(frame), module = module_of(at);

    if (module != module_of((uintptr_t)&chosen))
        *(unsigned long *)place = (*(unsigned long *)place ^ (at - module)) * 1099511628211UL;
    return _URC_NO_REASON;
}

/* Returns the hash of the callers of the function that called this library. */
static unsigned long place_of_call(void)
{
    unsigned long place = 14695981039346656037UL;

    _Unwind_Backtrace(add_frame, &place);
    return place;
}

/* Counts a call from a place in the hash table. */
static void count_place(unsigned long place)
{
    size_t i = place >> 48;
    unsigned long found = 0;

    while (!atomic_compare_exchange_strong(&places[i].place, &found, place) && found != place) {
        i = (i + 1) % (sizeof places / sizeof *places);
        found = 0;
    }
    places[i].times++;
}

/* A replaced function calls this first. Returns whether this call is the chosen one. count: whether
 * to count the call's place. */
static int is_chosen(int count)
{
    unsigned long place;

    if (chosen.begun)
        return chosen.and_on;
    if (chosen.place == 0 && !count)
        return 0;
    place = place_of_call();
    if (count)
        count_place(place);
    if (place != chosen.place || ++chosen.times != chosen.at)
        return 0;
    chosen.begun = 1;
    return 1;
}

/* Writes a line "PLACE CALLS" for each place. */
static void tell_places(int fd)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i].place != 0)
            dprintf(fd, "%lx %lu\n", places[i].place, places[i].times);
}
