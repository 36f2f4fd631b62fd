"""Independent evaluations of the analyses, written from their definitions.

Nothing here shares code, tables or short cuts with the C program: slow, plain
and of higher precision than what it checks."""
