"""Independent implementations of the analyses, written from their definitions ("oracles").

They share no code, tables or short cuts with the C program: they are slow and plain, and compute
with higher precision than what they check."""
