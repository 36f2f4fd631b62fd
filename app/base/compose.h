/*
 * Names of files that systems write in different ways: macOS has a letter and its marks apart.
 */
#ifndef TC_COMPOSE_H
#define TC_COMPOSE_H

/* A letter with the marks behind it, in Unicode's order, becomes one character where there is one
 * (as in its form NFC), in place. What is not UTF-8 stays. */
void tc_compose(char *text);

#endif
