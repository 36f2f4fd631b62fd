#!/bin/sh
# In place of the unit tests where configure found no cmocka or no minizip: a skip that is counted.
echo "ok 1 - unit tests # SKIP no cmocka or minizip when configure ran; ./bootstrap check installs them and configures anew"
echo 1..1
