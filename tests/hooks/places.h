/*
 * Where calls come from: a call's place is its whole stack of callers, the same number in every
 * process. To be included by what is put between a program and a library.
 *
 * "PLACE:N[+]" names the N-th call of a place (from 1), with + also every later call, of whatever
 * place.
 */
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>

static struct {
    atomic_ulong place; /* 0: free */
    atomic_ulong times;
} places[1 << 16]; /* some thousands are used */

static struct {
    unsigned long place, at; /* 0: none */
    int and_on;
    atomic_ulong times;
    atomic_int begun;
} chosen;

/* Takes PLACE:N[+], or none. */
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

/* Where the module begins in which an address is. */
static uintptr_t module_of(uintptr_t at)
{
    uintptr_t module = 0;

    for (const struct link_map *m = _r_debug.r_map; m != NULL; m = m->l_next)
        if (m->l_addr <= at && m->l_addr > module)
            module = m->l_addr;
    return module;
}

/* Takes a frame's return address, as it is within its module, which lies anywhere. This library
 * says nothing. */
static _Unwind_Reason_Code add_frame(struct _Unwind_Context *frame, void *place)
{
    const uintptr_t at = _Unwind_GetIP(frame), module = module_of(at);

    if (module != module_of((uintptr_t)&chosen))
        *(unsigned long *)place = (*(unsigned long *)place ^ (at - module)) * 1099511628211UL;
    return _URC_NO_REASON;
}

static unsigned long place_of_call(void)
{
    unsigned long place = 14695981039346656037UL;

    _Unwind_Backtrace(add_frame, &place);
    return place;
}

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

/* To be told of each call; whether it is one that was chosen. */
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

/* A line "PLACE TIMES" each. */
static void tell_places(int fd)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i].place != 0)
            dprintf(fd, "%lx %lu\n", places[i].place, places[i].times);
}
