/*
 * Makes file names comparable between systems: macOS stores a letter and its accents as separate
 * characters, other systems as one.
 */
#ifndef TC_COMPOSE_H
#define TC_COMPOSE_H

/* Replaces, in place, each letter and the combining marks after it by one character, where Unicode
 * has one (as the normal form NFC does; the marks must be in Unicode's canonical order). Bytes that
 * are not UTF-8 remain unchanged. */
void tc_compose_accents(char *text);

#endif
