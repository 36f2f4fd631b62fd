#!/bin/sh
# Replaces the unit tests if configure found no cmocka or minizip: prints a skipped test, which is
# counted.
echo "ok 1 - unit tests # SKIP no cmocka or minizip when configure ran; ./bootstrap check installs them and configures again"
echo 1..1
